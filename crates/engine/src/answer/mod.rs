//! Making the response: its head, its body's filters, its line in the log.

mod addition;
mod charset;
mod commands;
mod compress;
mod entity;
pub(crate) mod filters;
pub(crate) mod include;
pub(crate) mod log;
mod replace;
pub(crate) mod respond;
mod spans;
pub(crate) mod stub;
mod trailers;
mod unpack;

pub(crate) use compress::{takes, wanted as compression_fits};
