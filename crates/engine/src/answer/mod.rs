//! Making the response: its head, its body's filters, its line in the log.

mod compress;
pub(crate) mod filters;
pub(crate) mod log;
pub(crate) mod respond;

pub(crate) use compress::{takes_gzip, wanted as wants_gzip};
