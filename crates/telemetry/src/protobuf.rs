//! Prometheus' exposition format in protocol buffers, which alone carries native histograms.
//!
//! Owns: the wire form of `io.prometheus.client.MetricFamily` (prometheus/client_model, `metrics.proto`), as far as it is used; buckets of
//! native histograms.
//! Never: chooses what is shown; [`crate::prometheus`] does, for both formats.
//! Why by hand: five kinds of messages of numbers and strings, written and never read; a generator and its runtime would be more.

use weir_control::snapshot::Latency;

/// The content type to answer with.
pub const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Buckets of an octave are 2 to this power: eight, each 9% wider than the one below. What a bucket of ours holds is at most 6% wide, and
/// goes where its middle is.
const SCHEMA: i32 = 3;

/// Values below this are zero; the middle of the least bucket of ours is above it.
const ZERO_THRESHOLD: f64 = 1e-9;

/// A message in the making.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    pub(crate) fn fixed64(&mut self, field: u64, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn fixed32(&mut self, field: u64, value: u32) {
        self.tag(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn unsigned(&mut self, field: u64, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    /// `sint32` and `sint64`.
    fn signed(&mut self, field: u64, value: i64) {
        self.tag(field, 0);
        self.varint(zigzag(value));
    }

    fn double(&mut self, field: u64, value: f64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// All metrics.
#[derive(Debug, Default)]
pub(crate) struct Families {
    done: Message,
    family: Option<Message>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Counter = 0,
    #[default]
    Gauge = 1,
    Histogram = 4,
}

impl Families {
    /// Begins a metric. Its samples must follow at once.
    pub(crate) fn begin(&mut self, name: &str, kind: &str, help: &str) {
        self.close();
        self.kind = match kind {
            "counter" => Kind::Counter,
            "histogram" => Kind::Histogram,
            _ => Kind::Gauge,
        };
        let mut family = Message::default();
        family.bytes(1, name.as_bytes());
        family.bytes(2, help.as_bytes());
        family.unsigned(3, self.kind as u64);
        self.family = Some(family);
    }

    /// A sample of the metric that was begun.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let mut number = Message::default();
        number.double(1, value);
        let field = if self.kind == Kind::Counter { 3 } else { 2 };
        self.metric(labels, field, &number);
    }

    /// A histogram of the metric that was begun, in both forms.
    pub(crate) fn histogram(&mut self, labels: &[(&str, &str)], latency: &Latency) {
        let mut histogram = Message::default();
        histogram.unsigned(1, latency.count);
        histogram.double(2, latency.sum_us as f64 / 1e6);
        for &(bound_us, count) in &latency.buckets {
            let mut bucket = Message::default();
            bucket.unsigned(1, count);
            bucket.double(2, bound_us as f64 / 1e6);
            histogram.message(3, &bucket);
        }
        native(&mut histogram, &latency.steps);
        self.metric(labels, 7, &histogram);
    }

    fn metric(&mut self, labels: &[(&str, &str)], field: u64, value: &Message) {
        let mut metric = Message::default();
        for (name, value) in labels {
            let mut label = Message::default();
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
            metric.message(1, &label);
        }
        metric.message(field, value);
        if let Some(family) = &mut self.family {
            family.message(4, &metric);
        }
    }

    fn close(&mut self) {
        if let Some(family) = self.family.take() {
            self.done.varint(family.0.len() as u64);
            self.done.0.extend_from_slice(&family.0);
        }
    }

    /// The whole.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.close();
        self.done.0
    }
}

/// Appends the native form of a distribution: spans of buckets that hold something, and by how much each count differs from
/// the one before.
fn native(histogram: &mut Message, steps: &[(u64, u64)]) {
    let buckets = buckets(steps);
    histogram.signed(5, SCHEMA.into());
    histogram.double(6, ZERO_THRESHOLD);
    histogram.unsigned(7, 0);
    let mut next = 0;
    let mut at = 0;
    while at < buckets.len() {
        let end = (at + 1..buckets.len()).find(|&end| buckets[end].0 != buckets[end - 1].0 + 1);
        let end = end.unwrap_or(buckets.len());
        let mut span = Message::default();
        span.signed(1, buckets[at].0 - next);
        span.unsigned(2, (end - at) as u64);
        histogram.message(12, &span);
        next = buckets[end - 1].0 + 1;
        at = end;
    }
    if buckets.is_empty() {
        // A span without buckets says that it is a native histogram all the same (client_model, `positive_span`).
        let mut span = Message::default();
        span.signed(1, 0);
        span.unsigned(2, 0);
        histogram.message(12, &span);
    }
    let mut deltas = Message::default();
    let mut before = 0;
    for &(_, count) in &buckets {
        deltas.varint(zigzag(count as i64 - before));
        before = count as i64;
    }
    if !buckets.is_empty() {
        histogram.message(13, &deltas);
    }
}

/// Counts by the index of their native bucket, which holds (base^(index − 1), base^index] seconds.
fn buckets(steps: &[(u64, u64)]) -> Vec<(i64, u64)> {
    let mut buckets: Vec<(i64, u64)> = Vec::new();
    for &(bound, count) in steps {
        let index = (middle(bound).log2() * f64::from(1 << SCHEMA)).ceil() as i64;
        match buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => buckets.push((index, count)),
        }
    }
    buckets
}

/// The middle of the step with this upper bound in microseconds, in seconds. What was shorter than a microsecond was half of one.
fn middle(bound: u64) -> f64 {
    let width = if bound < 32 { 1 } else { 1 << (bound.ilog2() - 4) };
    (bound as f64 + 1.0 - f64::from(width as u32) / 2.0) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a message: number, and a varint's value or the bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let (value, length) = match tag & 7 {
                0 => (varint(&mut bytes), 0),
                1 => (0, 8),
                _ => (0, varint(&mut bytes) as usize),
            };
            found.push((tag >> 3, value, bytes[..length].to_vec()));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn numbers_have_their_wire_form() {
        let mut message = Message::default();
        message.unsigned(1, 300);
        message.signed(2, -3);
        message.bytes(3, b"ab");
        assert_eq!(message.0, [0x08, 0xac, 0x02, 0x10, 0x05, 0x1a, 2, b'a', b'b']);
    }

    #[test]
    fn a_value_lies_in_the_bucket_that_its_step_goes_to() {
        for micros in [0_u64, 1, 15, 16, 31, 32, 100, 1_000, 65_535, 1_000_000, 9_999_999] {
            let width = if micros < 32 { 1 } else { 1 << (micros.ilog2() - 4) };
            let bound = micros / width * width + width - 1;
            let [(index, 1)] = buckets(&[(bound, 1)])[..] else { panic!("{micros}") };
            let top = 2_f64.powf(index as f64 / 8.0);
            let value = (micros as f64 + 0.5) / 1e6;
            // Within half a step of ours.
            assert!(value <= top * 1.07 && value * 1.19 > top, "{micros}: {value} in a bucket up to {top}");
        }
        let joined = buckets(&[(1023, 2), (1055, 1), (4095, 5)]);
        assert_eq!(joined.iter().map(|(_, count)| count).sum::<u64>(), 8);
        assert!(joined.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn spans_and_deltas_say_the_counts() {
        let steps = vec![(1023, 5), (1151, 2), (8191, 7)];
        let latency = Latency { count: 14, sum_us: 70_000, steps: steps.clone(), ..Latency::default() };
        let mut families = Families::default();
        families.begin("a", "counter", "A.");
        families.sample(&[("x", "y")], 3.0);
        families.begin("b", "histogram", "B.");
        families.histogram(&[], &latency);
        let bytes = families.finish();
        let first = usize::from(bytes[0]);
        let second = fields(&bytes[first + 2..]);
        assert_eq!((second[0].2.as_slice(), second[2].1), (b"b".as_slice(), 4));
        let metric = fields(&second[3].2);
        assert_eq!(metric[0].0, 7);
        let histogram = fields(&metric[0].2);
        let all = |field: u64| histogram.iter().filter(move |(number, ..)| *number == field);
        let unzigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
        let mut index = 0;
        let mut indices = Vec::new();
        for (.., span) in all(12) {
            let span = fields(span);
            index += unzigzag(span[0].1);
            for _ in 0..span[1].1 {
                indices.push(index);
                index += 1;
            }
        }
        let mut count = 0;
        let deltas = all(13).next().map(|(.., bytes)| bytes.clone()).unwrap_or_default();
        let counts: Vec<i64> = deltas
            .iter()
            .map(|&byte| {
                count += unzigzag(byte.into());
                count
            })
            .collect();
        let wanted = buckets(&steps);
        assert_eq!(indices, wanted.iter().map(|(index, _)| *index).collect::<Vec<_>>());
        assert_eq!(counts, wanted.iter().map(|(_, count)| *count as i64).collect::<Vec<_>>());
    }
}
