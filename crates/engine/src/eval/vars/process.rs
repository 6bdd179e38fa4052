//! Variables about the time and the process.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use weir_expr::ProcessVar;

use super::write::{display, number, text_of};
use crate::exchange::Core;
use crate::worker::snapshot;

/// The nginx whose language is read; `$nginx_version`.
pub const NGINX_LANGUAGE: &str = "1.31.0";

/// Appends the value of a variable about the time or the process.
pub(super) fn append(traffic: &Core, var: ProcessVar, out: &mut Vec<u8>) -> bool {
    let worker = &traffic.worker;
    match var {
        ProcessVar::TimeLocal => return append_time_local(traffic, out),
        ProcessVar::TimeIso8601 => worker.time_iso8601(out),
        ProcessVar::TimeSeconds => {
            let now = weir_rt::unix_now();
            let _ = write!(out, "{}.{:03}", now.as_secs(), now.subsec_millis());
        }
        ProcessVar::TimeMicros => return display(out, weir_rt::unix_now().as_micros()),
        ProcessVar::Random => return number(out, Some(worker.random() >> 32)),
        ProcessVar::Uuid => {
            // Of 122 random bits: RFC 9562, version 4.
            let id = u128::from(worker.random()) << 64 | u128::from(worker.random());
            let id = id & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
            let part = |shift: u32, bits: u32| id >> shift & ((1 << bits) - 1);
            let _ = write!(
                out,
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                part(96, 32),
                part(80, 16),
                part(64, 16),
                part(48, 16),
                part(0, 48)
            );
        }
        ProcessVar::Workers => return number(out, Some(worker.shared.workers.load(Ordering::Relaxed))),
        ProcessVar::Worker => return number(out, Some(worker.index as u64)),
        ProcessVar::Stopping => return number(out, Some(u64::from(worker.is_leaving()))),
        ProcessVar::Hostname => return text_of(out, worker.hostname().as_bytes()),
        ProcessVar::Pid => return number(out, Some(u64::from(std::process::id()))),
        ProcessVar::ConnectionsActive
        | ProcessVar::ConnectionsReading
        | ProcessVar::ConnectionsWriting
        | ProcessVar::ConnectionsWaiting => {
            let now = snapshot::connections(&worker.shared);
            let count = match var {
                ProcessVar::ConnectionsReading => now.reading,
                ProcessVar::ConnectionsWriting => now.writing,
                ProcessVar::ConnectionsWaiting => now.waiting,
                _ => now.active,
            };
            return number(out, Some(count));
        }
        ProcessVar::NginxVersion => out.extend_from_slice(NGINX_LANGUAGE.as_bytes()),
    }
    true
}

/// Appends `$time_local`.
pub(super) fn append_time_local(traffic: &Core, out: &mut Vec<u8>) -> bool {
    traffic.worker.time_local(out);
    true
}
