//! What answers a request.

pub(crate) mod fastcgi;
pub(crate) mod files;
pub(crate) mod proxied;
pub(crate) mod proxy;
pub(crate) mod relay;
pub(crate) mod rest;
pub(crate) mod rewrite;
pub(crate) mod status;
pub(crate) mod sticky;
pub(crate) mod tunnel;
pub(crate) mod upstream_head;
