//! Lets the target take the source's place
