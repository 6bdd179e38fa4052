//! Compression of answers.
//!
//! Owns: deciding whether an answer is compressed (nginx's gzip module), and the encoder.
//! Never: compresses twice: what has a Content-Encoding passes as it is.
//! Driven by: `answer::filters`.

use flate2::{Compress, Compression, FlushCompress, Status};
use weir_expr::settings::GzipProxied;
use weir_http::{HeaderId, HttpDate, Method, Version};

use crate::exchange::{BodyFilter, BodySize, Exchange, Response, Then};

/// A gzip stream (RFC 1952) that is being made.
struct Encoder {
    deflate: Compress,
    crc: crc32fast::Hasher,
    taken: u64,
    out: Vec<u8>,
    began: bool,
}

/// The head of a gzip member: deflate, no name, no time, Unix.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

impl Encoder {
    /// An encoder of this level, 1 to 9.
    fn new(level: u8) -> Self {
        Self {
            deflate: Compress::new(Compression::new(u32::from(level.clamp(1, 9))), false),
            crc: crc32fast::Hasher::new(),
            taken: 0,
            out: Vec::new(),
            began: false,
        }
    }

    fn run(&mut self, mut input: &[u8], flush: FlushCompress) {
        if !std::mem::replace(&mut self.began, true) {
            self.out.extend_from_slice(&HEAD);
        }
        loop {
            self.out.reserve(input.len() / 2 + 256);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(input, &mut self.out, flush);
            input = &input[(self.deflate.total_in() - before) as usize..];
            let full = self.out.len() == self.out.capacity();
            match status {
                Ok(Status::Ok | Status::BufError) if full || !input.is_empty() => {}
                Ok(Status::Ok) if flush == FlushCompress::Finish => {}
                _ => return,
            }
        }
    }
}

impl BodyFilter for Encoder {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.out.clear();
        self.crc.update(piece);
        self.taken += piece.len() as u64;
        match then {
            Then::More => self.run(piece, FlushCompress::None),
            Then::Flush => self.run(piece, FlushCompress::Sync),
            Then::End => {
                self.run(piece, FlushCompress::Finish);
                self.out.extend_from_slice(&self.crc.clone().finalize().to_le_bytes());
                self.out.extend_from_slice(&(self.taken as u32).to_le_bytes());
            }
        }
        &self.out
    }

    fn note(&self, response: &mut Response) {
        response.uncompressed = Some(self.taken);
    }
}

/// Decides on compression; the size that the body then has.
pub(crate) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let Some(gzip) = &installed.plan.route(exchange.route).settings.gzip else { return size };
    let settings = &gzip.settings;
    let fields = &exchange.response.fields;
    let long_enough = match size {
        BodySize::Known(length) => length >= settings.min_length && length > 0,
        BodySize::Unknown => true,
        // The fields of an answer to HEAD are those of GET (RFC 9110 §9.3.2).
        BodySize::Bodiless if exchange.request.method == Method::Head => {
            let length = fields.first(HeaderId::ContentLength).map(std::str::from_utf8);
            let length = length.map(|text| text.ok().and_then(|text| text.parse::<u64>().ok()));
            length.is_none_or(|length| length.is_some_and(|n| n >= settings.min_length && n > 0))
        }
        BodySize::Bodiless => false,
    };
    let fits = matches!(exchange.response.status, 200 | 403 | 404)
        && long_enough
        && !fields.has(HeaderId::ContentEncoding)
        && fields
            .first(HeaderId::ContentType)
            .is_some_and(|value| std::str::from_utf8(value).is_ok_and(|value| gzip.takes(value)));
    if !fits {
        return size;
    }
    if settings.vary {
        exchange.response.fields.push_id(HeaderId::Vary, b"Accept-Encoding");
    }
    if !wanted(exchange, gzip) {
        return size;
    }
    let fields = &mut exchange.response.fields;
    fields.remove(HeaderId::ContentLength);
    fields.remove(HeaderId::AcceptRanges);
    fields.push_id(HeaderId::ContentEncoding, b"gzip");
    super::entity::weaken(fields);
    if size == BodySize::Bodiless {
        return size;
    }
    exchange.filters.push(Box::new(Encoder::new(settings.level)));
    BodySize::Unknown
}

/// Whether the client wants it, and whoever stands between may have it.
pub(crate) fn wanted(exchange: &Exchange, gzip: &weir_plan::Gzip) -> bool {
    let settings = &gzip.settings;
    let request = &exchange.request;
    if request.version < Version::Http11 && !settings.http_1_0 {
        return false;
    }
    if !takes_gzip(exchange) {
        return false;
    }
    if request.fields.has(HeaderId::Via) && !passes_proxies(exchange, &settings.proxied) {
        return false;
    }
    let agent = request.fields.first(HeaderId::UserAgent).unwrap_or_default();
    // A client that a pattern gives up on gets what every client can read.
    !gzip.disable.iter().any(|pattern| pattern.is_match(agent).unwrap_or(true))
}

/// Whether the request names gzip with a weight above zero (RFC 9110 §12.5.3). `*` alone does not choose it.
pub(crate) fn takes_gzip(exchange: &Exchange) -> bool {
    let items =
        exchange.request.fields.all(HeaderId::AcceptEncoding).flat_map(|line| line.split(|&b| b == b','));
    items.into_iter().any(|item| {
        let mut parts = item.split(|&b| b == b';');
        let names = parts.next().is_some_and(|coding| {
            let coding = coding.trim_ascii();
            coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
        });
        let refused = parts.any(|parameter| {
            let parameter = parameter.trim_ascii();
            let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
            weight.is_some_and(|weight| weight.iter().all(|b| matches!(b, b'0' | b'.')))
        });
        names && !refused
    })
}

fn passes_proxies(exchange: &Exchange, allowed: &[GzipProxied]) -> bool {
    let fields = &exchange.response.fields;
    let control = |word: &[u8]| {
        fields.all(HeaderId::CacheControl).any(|line| {
            line.split(|&b| b == b',').any(|item| item.trim_ascii().to_ascii_lowercase().starts_with(word))
        })
    };
    allowed.iter().any(|condition| match condition {
        GzipProxied::Any => true,
        GzipProxied::NoCache => control(b"no-cache"),
        GzipProxied::NoStore => control(b"no-store"),
        GzipProxied::Private => control(b"private"),
        GzipProxied::NoLastModified => !fields.has(HeaderId::LastModified),
        GzipProxied::NoEtag => !fields.has(HeaderId::ETag),
        GzipProxied::Auth => exchange.request.fields.has(HeaderId::Authorization),
        GzipProxied::Expired => {
            let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
            let parse = |value: &[u8]| HttpDate::parse(value, now);
            fields.first(HeaderId::Expires).is_some_and(|value| parse(value).is_none_or(|at| at <= now))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_was_compressed_reads_back_and_a_flush_is_complete() {
        let mut encoder = Encoder::new(5);
        let mut all = encoder.pass(b"hello ", Then::More).to_vec();
        all.extend_from_slice(encoder.pass(b"", Then::Flush));
        let mut early = Vec::new();
        let _ = flate2::read::GzDecoder::new(&all[..]).read_to_end(&mut early);
        assert_eq!(early, b"hello ");
        let long = vec![b'x'; 300_000];
        all.extend_from_slice(encoder.pass(&long, Then::More));
        all.extend_from_slice(encoder.pass(b"", Then::End));
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&all[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), 300_006);
        assert_eq!(encoder.taken, 300_006);
    }
}
