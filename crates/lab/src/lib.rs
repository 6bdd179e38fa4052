//! The laboratory behind `weir lab`: published benchmarks, repeated side by side on the reader's machine.
//!
//! Owns: scenarios, fair configurations of every contender, interleaved runs, their results and reports.
//! Never: carries load or serves: it drives programs from outside, `weir load` and `weir run` among them.
//! Driven by: the binary's `weir lab`; `xtask bench` runs one of its scenarios.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`scenario`], [`mode`], [`rate`], [`scope`] | what is measured, as data; the part of it that is wanted |
//! | [`contender`], [`programs`], [`machine`] | the contenders; the environment, and who has which CPUs |
//! | [`configs`], `sites`, [`servers`] | the configuration of each contender; starting and ending them |
//! | [`run`](mod@run), [`generator`], `wrk`, `idle` | the order of measurements; one of them, by each generator |
//! | [`accounting`], [`instructions`], [`callgrind`] | what a process used: by the kernel's accounts, the processor's, valgrind's |
//! | [`burst`], [`cgroup`] | machines whose CPU time is rationed |
//! | [`changes`] | changes of the configuration under load |
//! | [`cluster`] | ingress controllers of a Kubernetes cluster, as contenders |
//! | [`results`] | the folder that holds a file a run |
//! | [`stats`], [`report`] | medians and their intervals, knees; JSON, CSV, Markdown and HTML |
//! | [`report::guide`], [`size`], [`prices`] | several machines in one guide; cores for a load; what hardware costs |

#![forbid(unsafe_code)]

pub mod accounting;
pub mod burst;
pub mod callgrind;
pub mod cgroup;
pub mod changes;
pub mod cluster;
pub mod configs;
pub mod contender;
pub mod generator;
mod idle;
pub mod instructions;
pub mod machine;
pub mod mode;
mod pages;
pub mod prices;
pub mod programs;
mod progress;
pub mod rate;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod scope;
pub mod servers;
mod sites;
pub mod size;
mod sizes;
pub mod stats;
mod wrk;

pub use progress::time;
