//! What answers a request.

pub(crate) mod authority;
pub(crate) mod cached;
mod carried;
pub(crate) mod fastcgi;
pub(crate) mod files;
pub(crate) mod http2;
pub(crate) mod image;
mod lasting;
pub(crate) mod later;
mod prepare;
pub(crate) mod proxy;
mod rewrite;
mod rules;
mod settle;
pub(crate) mod status;
mod stored;
pub(crate) mod tunnel;

pub(crate) use later::Later;
