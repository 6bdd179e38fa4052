//! The load generator behind `weir load`.
//!
//! Owns: load models, the figures of a run and their printed forms.
//! Never: knows a configuration, or the engine that it measures.
//! Driven by: the binary's `weir load`, which maps a command line to it.
//! Why in the tree: it shares `rt` with what it measures, so it runs wherever that runs, and costs as little.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`Options`], `plan` | what is asked for, and the run that it makes: addresses, prebuilt requests |
//! | `schedule`, `pace` | when each request is due, and who waits for which moment |
//! | [`run`](run()) | threads, their beginning and end, their sums |
//! | `worker` | one thread: connections, units of work |
//! | `targets`, `dial` | requests from a file; where connections go |
//! | `answer` | where an answer, or a WebSocket message, ends |
//! | `script` | wrk's Lua scripts |
//! | `tally`, [`report`] | counts while running; the figures of a run as types, and as the JSON of `--json` |
//! | [`judge`] | whether the figures can be trusted |
//! | `timeline` | the figures of each second, for the report |
//! | [`text`], [`live`], [`hdr_log`] | wrk2's text, the view on a terminal, HdrHistogram's interval log |
//! | [`prometheus`], [`RemoteWrite`] | figures as Prometheus has them: a text file, remote write |
//! | [`agent`] | several machines in one run |
//! | [`serve`] | servers to be loaded: sized pages, echoes |
//! | [`hold`] | connections that are used once and wait |
//! | [`units`] | numbers as wrk writes and reads them |

#![forbid(unsafe_code)]

pub mod agent;
mod answer;
mod dial;
#[doc(hidden)]
pub mod fuzzing;
pub mod hdr_log;
pub mod hold;
pub mod judge;
pub mod live;
mod machine;
mod pace;
mod plan;
pub mod prometheus;
mod remote_write;
pub mod report;
mod run;
mod schedule;
mod script;
pub mod serve;
pub mod shot;
mod tally;
mod target;
pub mod targets;
pub mod text;
mod timeline;
pub mod units;
pub mod verdict;
mod worker;

pub use dial::ConnectTo;
pub use plan::{Identity, Options, Rate, ScriptFile, rates};
pub use remote_write::RemoteWrite;
pub use run::{Interval, RunError, Watch, run};
pub use weir_rt::{IoChoice, TlsVersion};
