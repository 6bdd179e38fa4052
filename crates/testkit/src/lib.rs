//! Scripted peers, real programs and a running Weir, for end-to-end tests.
//!
//! Owns: clients and origins over real sockets, leased ports, certificates made on the spot, supervised processes.
//! Never: sleeps to synchronise (a deadline bounds every wait), outlives its test (processes die with their handle).
//! Driven by: integration tests of every crate, and by `xtask` (the demo and the benchmark start the same processes).
//! Why: threads and blocking sockets, not a runtime: a test must not share machinery with what it tests.
//!
//! ```no_run
//! use weir_testkit::{both_drivers, Client, Io, Origin, Proxy};
//!
//! both_drivers! {
//!     fn a_cut_head_is_a_502(io: Io) {
//!         let origin = Origin::script(|c| c.expect("GET /a").send("HTTP/1.1 200").reset());
//!         let proxy = Proxy::nginx(&format!(
//!             "events {{}} http {{ server {{ listen {{port}}; location / {{ proxy_pass http://{origin}; }} }} }}"
//!         )).io(io).start();
//!         Client::connect(&proxy).get("/a").expect_status(502);
//!     }
//! }
//! # fn main() {}
//! ```
#![forbid(unsafe_code)]

pub mod cert;
pub mod client;
pub mod console;
pub mod deadline;
pub mod dns;
mod early;
pub mod gate;
pub mod h2;
pub mod h3;
pub mod hostile;
pub mod load;
pub mod mmdb;
pub mod netns;
pub mod notify;
pub mod origin;
pub mod port;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod response;
pub mod script;
pub mod tcp;
pub mod tls;
mod wire;

pub use cert::{Authority, Certificate};
pub use client::{Client, Request};
pub use deadline::{Deadline, eventually};
pub use early::EarlyClient;
pub use gate::Gate;
pub use h2::{H2Conn, H2Origin};
pub use h3::{H3Client, H3Options, H3Response};
pub use load::{Load, LoadReport};
pub use origin::Origin;
pub use port::{Address, Port};
pub use process::Process;
pub use proxy::{Io, Proxy, Running, folder_in_memory};
pub use response::{ReadError, Response};
pub use script::Script;
pub use tls::TlsOptions;

/// Makes two tests, `name::uring` and `name::epoll`, out of each body, so that both drivers meet the same demands.
///
/// The body is a function of one [`Io`] argument; attributes such as `#[should_panic]` go to both tests.
#[macro_export]
macro_rules! both_drivers {
    ($($(#[$meta:meta])* fn $name:ident($io:ident : $ty:ty) $body:block)+) => {
        $(
            mod $name {
                #[allow(unused_imports)]
                use super::*;

                fn body($io: $ty) $body

                $(#[$meta])*
                #[test]
                fn uring() {
                    body($crate::Io::Uring)
                }

                $(#[$meta])*
                #[test]
                fn epoll() {
                    body($crate::Io::Epoll)
                }
            }
        )+
    };
}
