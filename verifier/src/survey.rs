//! Comparing two tables that nobody's stream speaks of.
//!
//! Without a stream of changes nobody says which rows were at rest. So a row
//! that differs is only *suspected*, and looked at again and again: what is
//! equal at one look was only late, what stays as it was differs.

mod pages;
mod suspects;

pub use pages::SurveyPages;
pub use suspects::{Look, Suspects};
