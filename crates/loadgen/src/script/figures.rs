//! What `done(summary, latency, requests)` is given.
//!
//! Owns: the summary's table, and the objects with `min`, `max`, `mean`, `stdev`, `percentile`. Latencies are in
//! microseconds, requests are units a second and thread. Driven by: the end of a run.

use hdrhistogram::Histogram;
use mlua::{Function, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods};

use crate::report::{Report, Spread, empty_histogram};

/// Calls `done`, if the script has it.
pub(super) fn done(lua: &Lua, report: &Report) -> mlua::Result<()> {
    let Some(done) = lua.globals().get::<Option<Function>>("done")? else { return Ok(()) };
    let total = &report.total;
    let errors = lua.create_table()?;
    errors.set("connect", total.errors.connect + total.errors.tls)?;
    errors.set("read", total.errors.read + total.errors.malformed)?;
    errors.set("write", total.errors.write)?;
    errors.set("status", total.status.failed())?;
    errors.set("timeout", total.errors.timeout)?;
    let summary = lua.create_table()?;
    summary.set("duration", (total.elapsed_s * 1e6).round())?;
    summary.set("requests", total.requests)?;
    summary.set("bytes", total.bytes.received)?;
    summary.set("errors", errors)?;
    let latency = Times(total.latency.decode().unwrap_or_else(|_| empty_histogram()));
    done.call::<()>((summary, latency, Rates(report.thread_rate)))
}

/// Latencies.
struct Times(Histogram<u64>);

impl Times {
    fn us(ns: u64) -> f64 {
        ns as f64 / 1e3
    }
}

impl UserData for Times {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, this| Ok(Self::us(this.0.min())));
        fields.add_field_method_get("max", |_, this| Ok(Self::us(this.0.max())));
        fields.add_field_method_get("mean", |_, this| Ok(this.0.mean() / 1e3));
        fields.add_field_method_get("stdev", |_, this| Ok(this.0.stdev() / 1e3));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, this, percentile: f64| {
            Ok(Self::us(this.0.value_at_percentile(percentile.clamp(0.0, 100.0))))
        });
        // `#latency` values that differ, `latency(i)` the i-th of them and how often it came.
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.0.iter_recorded().count()));
        methods.add_meta_method(MetaMethod::Call, |_, this, at: usize| {
            let found = this.0.iter_recorded().nth(at.saturating_sub(1));
            Ok(found.map_or((0.0, 0), |step| (Self::us(step.value_iterated_to()), step.count_at_value())))
        });
    }
}

/// Units a second and thread.
struct Rates(Spread);

impl UserData for Rates {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("max", |_, this| Ok(this.0.max));
        fields.add_field_method_get("mean", |_, this| Ok(this.0.mean));
        fields.add_field_method_get("stdev", |_, this| Ok(this.0.stdev));
    }
}
