//! HdrHistogram's interval log, one line a second.
//!
//! Owns: the file of `--hdr`, in log format 1.2 or later, which HistogramLogProcessor and its kin read. Values are
//! nanoseconds; the column of maxima is in milliseconds. Uncorrected latencies stand in lines with the tag `uncorrected`.
//! Never: stops a run: the first failure to write is kept, and told at its end.
//! Driven by: `run`, through [`Watch`].

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::run::{Interval, Watch};

/// Nanoseconds in a millisecond, the unit of the column of maxima.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// The log of one run.
pub struct HdrLog<W: Write = BufWriter<File>> {
    out: W,
    begun: bool,
    failure: Option<String>,
}

impl HdrLog {
    /// Creates the file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufWriter::new(File::create(path)?)))
    }
}

impl<W: Write> HdrLog<W> {
    fn new(out: W) -> Self {
        Self { out, begun: false, failure: None }
    }

    /// Writes what is left, and tells of the first failure.
    ///
    /// # Errors
    /// A write failed.
    pub fn finish(mut self) -> Result<(), String> {
        let flushed = self.out.flush();
        match self.failure {
            Some(failure) => Err(failure),
            None => flushed.map_err(|error| error.to_string()),
        }
    }

    fn write(&mut self, lines: impl FnOnce(&mut W) -> Result<(), String>) {
        if self.failure.is_none()
            && let Err(failure) = lines(&mut self.out)
        {
            self.failure = Some(failure);
        }
    }
}

impl<W: Write> Watch for HdrLog<W> {
    fn begun(&mut self, unix: Duration) {
        self.begun = true;
        self.write(|out| {
            let mut serializer = V2DeflateSerializer::new();
            IntervalLogWriterBuilder::new()
                .add_comment("[Histogram log format version 1.2]")
                .add_comment(concat!("weir load ", env!("CARGO_PKG_VERSION"), ", values in nanoseconds"))
                .with_start_time(UNIX_EPOCH + unix)
                .with_base_time(UNIX_EPOCH + unix)
                .with_max_value_divisor(MAX_VALUE_DIVISOR)
                .begin_log_with(out, &mut serializer)
                .map(drop)
                .map_err(|error| error.to_string())
        });
    }

    fn interval(&mut self, interval: &Interval<'_>) {
        // Warm-ups are left out here too.
        if interval.step.0.is_none() {
            return;
        }
        let start = Duration::from_secs_f64((interval.at_s - interval.length_s).max(0.0));
        let length = Duration::from_secs_f64(interval.length_s);
        self.write(|out| {
            // The header is written once, in `begun`: this writer adds lines only.
            line(out, interval.latency, start, length, None)?;
            match interval.uncorrected {
                Some(uncorrected) => line(out, uncorrected, start, length, Tag::new("uncorrected")),
                None => Ok(()),
            }
        });
    }
}

fn line<W: Write>(
    out: &mut W,
    histogram: &Histogram<u64>,
    start: Duration,
    length: Duration,
    tag: Option<Tag<'_>>,
) -> Result<(), String> {
    let mut serializer = V2DeflateSerializer::new();
    let mut text = Vec::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|error| error.to_string())?;
    let written = writer.write_histogram(histogram, start, length, tag);
    written.map_err(|error| format!("{error:?}"))?;
    // What a new log begins with is left out.
    for line in text
        .split_inclusive(|&b| b == b'\n')
        .filter(|line| !line.starts_with(b"#") && !line.starts_with(b"\""))
    {
        out.write_all(line).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Connections, Errors, Status, empty_histogram};
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn its_own_reader_reads_it() {
        let mut log = HdrLog::new(Vec::new());
        log.begun(Duration::from_secs(1_700_000_000));
        let mut latency = empty_histogram();
        latency.saturating_record(3_000_000);
        for at_s in [1.0, 2.0] {
            log.interval(&Interval {
                at_s,
                length_s: 1.0,
                run_s: 2.0,
                step: (Some(0), 1),
                rate_wanted: None,
                requests: 1,
                done: 1,
                wanted: None,
                failed: 0,
                errors: Errors::default(),
                status: Status::default(),
                connections: Connections::default(),
                received: 0,
                sent: 0,
                latency: &latency,
                uncorrected: Some(&latency),
            });
        }
        let text = log.out.clone();
        log.finish().unwrap();
        let (mut tags, mut starts, mut max) = (Vec::new(), Vec::new(), 0.0_f64);
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                tags.push(interval.tag().map(|tag| tag.as_str().to_owned()));
                starts.push(interval.start_timestamp().as_secs());
                max = max.max(interval.max());
                let bytes =
                    base64::Engine::decode(&base64::prelude::BASE64_STANDARD, interval.encoded_histogram())
                        .unwrap();
                let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                assert_eq!(read, latency);
            }
        }
        let tag = Some("uncorrected".to_owned());
        assert_eq!((tags, starts), (vec![None, tag.clone(), None, tag], vec![0, 0, 1, 1]));
        assert!((max - 3.0).abs() < 0.01, "{max}");
    }
}
