//! What each directive says, into the block that it stands in.
//!
//! Owns: the functions that entries of the table name, and what they write into: settings that inner blocks inherit
//! ([`Scope`]), what one block says ([`Place`] and its kin), the model itself.
//! Never: asks where a word may stand, or reads a file that the tree does not hold; names of certificates and of tables
//! are only carried.
//! Driven by: `build`, through the entries of the table.

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod acme_parts;
pub(crate) mod args;
pub(crate) mod balance;
pub(crate) mod browsers;
pub(crate) mod cache;
pub(crate) mod charset;
pub(crate) mod client;
pub(crate) mod condition;
pub(crate) mod conf_command;
pub(crate) mod dav;
pub(crate) mod declare;
pub(crate) mod fact_parts;
pub(crate) mod facts;
pub(crate) mod fastcgi;
pub(crate) mod files;
pub(crate) mod filter_parts;
pub(crate) mod filters;
pub(crate) mod geoip2;
pub(crate) mod grpc;
pub(crate) mod gzip;
pub(crate) mod headers;
pub(crate) mod health;
pub(crate) mod inherit;
pub(crate) mod listen;
pub(crate) mod location;
pub(crate) mod log;
pub(crate) mod maps;
pub(crate) mod mirror;
pub(crate) mod more;
pub(crate) mod otel;
pub(crate) mod parts;
pub(crate) mod plus;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod scope;
pub(crate) mod server;
pub(crate) mod state;
pub(crate) mod sticky;
pub(crate) mod store;
pub(crate) mod stream;
pub(crate) mod stream_proxy;
pub(crate) mod stream_tls;
pub(crate) mod target;
pub(crate) mod template;
pub(crate) mod tls;
pub(crate) mod token;
mod token_parts;
pub(crate) mod upstream_settings;
pub(crate) mod upstream_tls;
pub(crate) mod user_id;
mod user_id_parts;

pub(crate) use parts::{Place, PoolParts, ServerParts, StreamScope};
pub(crate) use scope::Scope;
pub(crate) use state::Lowering;
