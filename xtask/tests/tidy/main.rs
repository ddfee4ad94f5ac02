//! The rules of the source tree, as tests: `cargo test -p xtask --test tidy`.

#[cfg(test)]
mod crates;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod tree;
