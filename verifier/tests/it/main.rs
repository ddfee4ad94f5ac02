//! Comparisons on real servers.

#[cfg(test)]
mod corruption;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod place;
#[cfg(test)]
mod text_keys;
#[cfg(test)]
mod types;
#[cfg(test)]
mod writes;
