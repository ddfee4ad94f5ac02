//! The control socket of a job: one line of JSON in, one out.
//!
//! [`Controls`] is what a job can be told; [`Control`] is the socket, which only
//! the user that runs the job may use. `oxferry ctl` is its other end.

mod controls;
mod path;
mod protocol;
mod server;

pub(crate) use self::{
    controls::Controls,
    path::socket_of,
    protocol::{Answer, Request, line},
    server::{Control, read_line},
};

use std::{convert::Infallible, path::Path};

use crate::failure::Failure;

/// Opens a job's socket: at `path`, or else where the user's sockets are, if
/// there is such a place.
///
/// # Errors
///
/// A failure if `path` was given and can't be listened at; a job does without a
/// socket that nobody asked for.
pub(crate) async fn listen(path: Option<&Path>, job: &str) -> Result<Option<Control>, Failure> {
    if let Some(path) = path {
        return Control::open(path).await.map(Some);
    }
    let Some(path) = socket_of(job) else {
        return Ok(None);
    };
    match Control::open(&path).await {
        Ok(control) => Ok(Some(control)),
        Err(failure) => {
            tracing::warn!("no control socket: {}", failure.line());
            Ok(None)
        }
    }
}

/// Lets the job be controlled for as long as it is polled.
pub(crate) async fn serve(control: Option<&Control>, controls: &Controls) -> Infallible {
    let Some(control) = control else {
        return std::future::pending().await;
    };
    let controls = controls.clone();
    control.serve(move |request| controls.answer(request)).await
}
