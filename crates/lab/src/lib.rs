//! The laboratory behind `weir lab`: published benchmarks, repeated side by side on the reader's machine.
//!
//! Owns: what a measurement of several servers needs: fair configurations, accounts, statistics.
//! Never: carries load or serves; it drives programs from outside.
//! Driven by: `xtask bench`.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`accounting`] | what a process used, by the kernel's accounts |
//! | [`configs`] | the configuration of each contender |
//! | [`stats`] | medians and their intervals |

#![forbid(unsafe_code)]

pub mod accounting;
pub mod configs;
pub mod stats;
