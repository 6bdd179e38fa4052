//! A worker's lines before they are handed over.
//!
//! Owns: the bytes of whole lines, and when they must go.
//! Never: waits; never splits a line.
//! Driven by: the exchange (`line`), the worker's timer (`poll_timeout`, `flush`).
//! Why: one hand-over for many lines costs a wake-up and a write for all of them. nginx's `buffer=` and `flush=` say how
//! many; without them lines still gather for a few hundredths of a second, which no reader notices.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Stamp;
use super::syslog::{Severity, SyslogHeader};
use super::target::{Batch, LogTarget, TargetSpec};

/// How long and how far lines gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferOptions {
    /// Hand over when so many bytes have gathered (nginx's `buffer=`).
    pub bytes: usize,
    /// Hand over when the oldest line is so old (nginx's `flush=`).
    pub age: Duration,
}

impl Default for BufferOptions {
    /// What nginx without `buffer=` comes to: lines are out within 50 ms.
    fn default() -> Self {
        Self { bytes: 64 * 1024, age: Duration::from_millis(50) }
    }
}

/// Lines of one worker for one target.
#[derive(Debug)]
pub struct LogBuffer {
    target: Arc<LogTarget>,
    options: BufferOptions,
    /// Its age in milliseconds.
    age: u64,
    syslog: Option<(SyslogHeader, Severity)>,
    gzip: Option<u8>,
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// How long the heads of messages are, where the target asks.
    heads: Option<Vec<u32>>,
    oldest: Option<u64>,
}

impl LogBuffer {
    /// A buffer for lines to a file or standard error.
    pub fn new(target: Arc<LogTarget>, options: BufferOptions) -> Self {
        let age = u64::try_from(options.age.as_millis()).unwrap_or(u64::MAX);
        let heads = matches!(target.spec(), TargetSpec::Pool(_)).then(Vec::new);
        Self {
            target,
            options,
            age,
            syslog: None,
            gzip: None,
            bytes: Vec::new(),
            ends: Vec::new(),
            heads,
            oldest: None,
        }
    }

    /// A buffer for messages to syslog.
    pub fn syslog(
        target: Arc<LogTarget>,
        options: BufferOptions,
        header: SyslogHeader,
        severity: Severity,
    ) -> Self {
        let mut buffer = Self::new(target, options);
        buffer.syslog = Some((header, severity));
        buffer
    }

    /// A buffer whose batches are compressed, each a gzip member of its own (nginx's `gzip=level`, 1 to 9): what is in
    /// the file so far can be read at any time.
    pub fn gzip(target: Arc<LogTarget>, options: BufferOptions, level: u8) -> Self {
        let mut buffer = Self::new(target, options);
        buffer.gzip = Some(level);
        buffer
    }

    /// Where its lines go.
    pub fn target(&self) -> &Arc<LogTarget> {
        &self.target
    }

    /// Adds the line that `write` appends; the newline, or syslog's head, is added here. `now_ms` and `stamp`, which only
    /// syslog asks for, are of the same moment. `own` is the severity of this line, if other than of all.
    pub fn line<'s>(
        &mut self,
        now_ms: u64,
        own: Option<Severity>,
        stamp: impl FnOnce() -> &'s Stamp,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match &self.syslog {
            Some((header, severity)) => {
                let start = self.bytes.len();
                header.write(&mut self.bytes, own.unwrap_or(*severity), stamp());
                if let Some(heads) = &mut self.heads {
                    heads.push(u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX));
                }
                write(&mut self.bytes);
                if header.newline {
                    self.bytes.push(b'\n');
                }
            }
            None => {
                write(&mut self.bytes);
                self.bytes.push(b'\n');
            }
        }
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.oldest.get_or_insert(now_ms);
        if self.bytes.len() >= self.options.bytes {
            self.flush();
        }
    }

    /// When [`Self::flush`] must be called, on the clock of `now_ms`; `None`: nothing waits.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.oldest.map(|oldest| oldest.saturating_add(self.age))
    }

    /// Hands over what has gathered.
    pub fn flush(&mut self) {
        self.oldest = None;
        if self.ends.is_empty() {
            return;
        }
        // The writer frees the vectors; the next are made as large as these came to be.
        let (bytes, ends) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.ends.len()));
        let mut batch = Batch {
            bytes: std::mem::replace(&mut self.bytes, bytes),
            ends: std::mem::replace(&mut self.ends, ends),
            heads: self.heads.as_mut().map(std::mem::take).unwrap_or_default(),
        };
        if let Some(level) = self.gzip {
            batch = compressed(&batch, level);
        }
        self.target.submit(batch);
    }
}

/// A batch that is one gzip member. Its ends no longer tell lines apart, but still count them.
fn compressed(batch: &Batch, level: u8) -> Batch {
    let level = flate2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(batch.bytes.len() / 4 + 64), level);
    // Writing to a `Vec` cannot fail.
    let _ = encoder.write_all(&batch.bytes);
    let bytes = encoder.finish().unwrap_or_default();
    let end = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    Batch { ends: vec![end; batch.ends.len()], heads: Vec::new(), bytes }
}

impl Drop for LogBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}
