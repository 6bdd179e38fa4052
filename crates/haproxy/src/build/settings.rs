//! Times, limits and pages of proxies as the model's plain settings.
//!
//! Owns: what holds where a configuration says nothing, in HAProxy's manner.
//! Why: where HAProxy would wait for ever, Weir does not; see [`UNSET`].

use std::sync::Arc;
use std::time::Duration;

use weir_expr::settings::{
    BodySettings, ClientAbort, ClientSettings, CompressionSettings, Conduct, ContentCoding, GzipProxied,
    LogLevel, PageLayout, Pages, PathReading, PhraseSet, Redispatch, RetrySettings, Unavailable,
    UpstreamSettings,
};
use weir_model::{Dav, ErrorPage, ErrorTarget, IfModifiedSince, StaticFiles, Symlinks, Template};

use crate::draft::{ErrorAnswer, Proxy};

/// What a frontend does where standards leave it open.
pub(super) const CONDUCT: Conduct = Conduct {
    pages: Pages {
        layout: PageLayout::Explained,
        no_cache: true,
        bare_redirects: true,
        phrases: PhraseSet::Registered,
    },
    answer_asterisk: false,
    program_again: false,
    body_first: false,
    left_status: 0,
    // Traffic lines tell all, and what reads them would stumble over others.
    error_lines: LogLevel::Crit,
    rules_refuse: true,
    says_keep_alive: false,
    fails_closed: false,
    silent_timeouts: false,
    always_continues: false,
    any_expectation: false,
    capital_methods: false,
    single_fields: false,
    first_of_several: false,
    answers_malformed: false,
    large_heads: 431,
};

/// What is answered where no server of a backend serves: 503 where none can be reached, 502 where one answers badly.
pub(super) const UNAVAILABLE: Unavailable =
    Unavailable { none_live: 503, queue: 503, unreachable: Some(503), noted: false };

/// Where no time is set, this holds.
pub(super) const UNSET: Duration = Duration::from_secs(60);

pub(super) fn client_settings(proxy: &Proxy) -> ClientSettings {
    let settings = &proxy.settings;
    let client = settings.timeout("client").unwrap_or(UNSET);
    let header = settings.timeout("http-request").unwrap_or(client);
    let lax = ["accept-invalid-http-request", "accept-unsafe-violations-in-http-request"]
        .iter()
        .any(|option| settings.flag(option));
    let normalizes = settings.rules.iter().any(|rule| rule.line.text(rule.from) == "normalize-uri");
    // `preserve`, written out, keeps what looks like other fields, too.
    let preserves = settings.flags.get("drop-odd-names") == Some(&false);
    ClientSettings {
        header_timeout: header,
        // tune.bufsize less tune.maxrewrite bounds a head in HAProxy.
        max_request_line: 15 << 10,
        max_header_line: 15 << 10,
        max_headers: 15 << 10,
        max_header_count: 101,
        keepalive_timeout: Some(settings.timeout("http-keep-alive").unwrap_or(header)),
        keepalive_header: None,
        keepalive_requests: None,
        keepalive_time: None,
        send_timeout: client,
        min_send_rate: settings.min_send_rate.unwrap_or(ClientSettings::default().min_send_rate),
        drop_underscores: settings.flag("drop-odd-names"),
        ignore_invalid_headers: false,
        mends_heads: false,
        drop_lookalikes: !preserves && !lax,
        // A proxy that says itself what is to become of its targets gets them as they were sent.
        paths: if lax || normalizes { PathReading::Raw } else { PathReading::Resolved },
        merge_slashes: false,
        forward_trace: lax,
        forward_any_upgrade: lax,
        ..ClientSettings::default()
    }
}

pub(super) fn body_settings(proxy: &Proxy) -> BodySettings {
    BodySettings {
        max_size: None,
        timeout: proxy.settings.timeout("client").unwrap_or(UNSET),
        temp_path: "/var/lib/haproxy/body".into(),
        min_rate: proxy.settings.min_body_rate.unwrap_or(BodySettings::default().min_rate),
        ..BodySettings::default()
    }
}

/// Times and retries towards a backend's servers.
pub(super) fn upstream_settings(front: &Proxy, backend: &Proxy) -> UpstreamSettings {
    let settings = &backend.settings;
    let server = settings.timeout("server").unwrap_or(UNSET);
    UpstreamSettings {
        connect_timeout: settings.timeout("connect").unwrap_or(UNSET),
        send_timeout: server,
        read_timeout: server,
        tunnel_timeout: settings.timeout("tunnel"),
        buffering: true,
        request_buffering: settings.flag("http-buffer-request") || front.settings.flag("http-buffer-request"),
        max_response_head: 15 << 10,
        buffer_bytes: 32 << 10,
        temp_path: "/var/lib/haproxy/proxy".into(),
        client_abort: match settings.flag("abortonclose") {
            true => ClientAbort::Refuse,
            false => ClientAbort::Finish,
        },
        retry: retry(backend),
        socket_keepalive: settings.flag("srvtcpka") || settings.flag("tcpka"),
        ..UpstreamSettings::default()
    }
}

/// `retries`, `retry-on` and `option redispatch`.
pub(super) fn retry(backend: &Proxy) -> RetrySettings {
    let settings = &backend.settings;
    let retries = settings.retries.unwrap_or(3);
    let balance = settings.balance.as_ref().map_or("roundrobin", |line| line.text(1));
    // `random` takes turns too, as HAProxy sorts its algorithms.
    let turns = balance == "static-rr" || balance == "roundrobin" || balance.starts_with("random");
    // The default is `conn-failure` alone: what an endpoint may have begun to carry out is not sent again.
    let mut retry = RetrySettings {
        on_error: false,
        on_timeout: false,
        on_connect: settings.retry_on.is_empty(),
        on_invalid_response: false,
        on_status: Vec::new(),
        non_idempotent: false,
        tries: u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1),
        timeout: None,
        redispatch: match settings.redispatch {
            None => Redispatch::Never,
            Some(-1 | 0) => Redispatch::Last { turns: turns && backend.servers.len() > 1 },
            Some(every @ 1..) => Redispatch::Every(every.unsigned_abs()),
            // Counted from the last retry.
            Some(before) => {
                let last = i64::try_from(retries).unwrap_or(i64::MAX).saturating_add(1);
                let at = last.saturating_add(i64::from(before)).max(1);
                Redispatch::Every(u32::try_from(at).unwrap_or(u32::MAX))
            }
        },
    };
    for word in &settings.retry_on {
        match word.as_str() {
            "none" => return RetrySettings { tries: 1, ..retry },
            "conn-failure" => retry.on_connect = true,
            "empty-response" => retry.on_error = true,
            "response-timeout" => retry.on_timeout = true,
            "junk-response" => retry.on_invalid_response = true,
            "all-retryable-errors" => {
                (retry.on_connect, retry.on_error, retry.on_timeout) = (true, true, true);
                retry.on_invalid_response = true;
                retry.on_status.extend([500, 502, 503, 504]);
            }
            status => retry.on_status.extend(status.parse::<u16>().ok()),
        }
    }
    retry
}

/// Pages of the backend, and those of the frontend for other statuses.
pub(super) fn error_pages(front: &Proxy, proxy: &Proxy) -> Vec<ErrorPage> {
    let mut answers = front.settings.errors.clone();
    answers.extend(proxy.settings.errors.clone());
    let page = |(status, answer): (u16, ErrorAnswer)| {
        let (answer, target) = match answer {
            ErrorAnswer::File(path) => (None, ErrorTarget::RawFile(path)),
            ErrorAnswer::Redirect(place, code) => {
                (Some(Some(code)), ErrorTarget::Redirect(Template::literal(place)))
            }
        };
        ErrorPage { statuses: vec![status], answer, target }
    };
    answers.into_iter().map(page).collect()
}

pub(super) fn compression(front: &Proxy, proxy: &Proxy) -> Option<Arc<CompressionSettings>> {
    let found = [&proxy.settings.compression, &front.settings.compression].into_iter().find(|c| c.gzip)?;
    let types = if found.types.is_empty() { vec!["*".to_owned()] } else { found.types.clone() };
    Some(Arc::new(CompressionSettings {
        coding: ContentCoding::Gzip,
        level: 1,
        window: 0,
        min_length: found.min_size,
        types,
        vary: true,
        http_1_0: false,
        proxied: vec![GzipProxied::Any],
        disable: Vec::new(),
    }))
}

/// HAProxy serves no files.
pub(super) fn no_files() -> StaticFiles {
    StaticFiles {
        root: Template::default(),
        alias: false,
        index: Vec::new(),
        listing: None,
        types: Arc::default(),
        default_type: "text/html".into(),
        charset: None,
        charset_types: Arc::default(),
        etag: false,
        if_modified_since: IfModifiedSince::Off,
        max_ranges: Some(0),
        precompressed: Vec::new(),
        sendfile: false,
        symlinks: Symlinks::Refuse,
        random_index: false,
        video: None,
        dav: Dav::default(),
    }
}

/// The local address of `source ADDRESS`.
pub(super) fn local_address(backend: &Proxy) -> Option<Template> {
    let word = backend.settings.source.as_ref()?.word(1)?;
    let address = crate::values::address::parse(word.as_str()).ok()?;
    address.host.ip().filter(|ip| !ip.is_unspecified()).map(|ip| Template::literal(ip.to_string()))
}
