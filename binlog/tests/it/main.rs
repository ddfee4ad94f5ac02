//! The stream against real servers.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod images;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod refusal;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod zoo;
