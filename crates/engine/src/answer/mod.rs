//! Making the response: its head, its body's filters, its line in the log.

pub(crate) mod edit;
pub(crate) mod filter;
pub(crate) mod log;
pub(crate) mod respond;
