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
//! | [`report`] | the figures of a run as types, and as the JSON of `--json` |

#![forbid(unsafe_code)]

pub mod report;
