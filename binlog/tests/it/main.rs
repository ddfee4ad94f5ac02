//! The stream against real servers.

#[cfg(test)]
mod follow;
#[cfg(test)]
mod images;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod refusal;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod zoo;
