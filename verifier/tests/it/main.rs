//! Comparisons on real servers.

#[cfg(test)]
mod corruption;
#[cfg(test)]
mod place;
#[cfg(test)]
mod types;
#[cfg(test)]
mod writes;
