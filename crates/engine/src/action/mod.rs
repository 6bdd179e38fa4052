//! What answers a request.

pub(crate) mod fastcgi;
pub(crate) mod files;
mod lasting;
pub(crate) mod later;
mod proxied;
pub(crate) mod proxy;
mod relay;
mod rewrite;
pub(crate) mod status;
pub(crate) mod tunnel;
mod upstream_head;

pub(crate) use later::Later;
