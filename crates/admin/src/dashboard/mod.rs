//! Weir's dashboard: a page for people, and the document that it and `weir top` read.
//!
//! Owns: which part of it a path names, and the headers that keep the page to itself.
//! Never: keeps anything between two requests: the page makes rates and quantiles of what two documents have apart.
//! Driven by: the binary, for requests that reached the dashboard's route.
//! Why the page's parts are files of their own: a policy that allows no script in the page (Content Security Policy, W3C) then
//! needs no exception, and a browser keeps what does not change.

mod change;
mod status;

use weir_control::memory::MemoryCache;
use weir_control::{Requests, Snapshot};

use crate::stats::Operator;
use crate::{Page, Request};

/// Of each list of requests, at most so many are shown unless more are asked for.
const USUAL: usize = 100;
/// And so many in any case.
const MOST: usize = 1000;

/// What the dashboard shows and acts on.
pub trait Source: Operator {
    /// What there is to see at this moment: of each list of requests, at most so many.
    fn observe(&self, most: usize) -> Observed;
}

/// What there is to see at one moment.
#[derive(Debug, Default)]
pub struct Observed {
    /// Figures, with the steps of their distributions.
    pub snapshot: Snapshot,
    /// Single requests.
    pub requests: Requests,
    /// Caches in memory.
    pub caches: Vec<MemoryCache>,
    /// Names of certificates in use, and whether each was given while running.
    pub certificates: Vec<(String, bool)>,
    /// Milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// A file of the page.
struct File {
    name: &'static str,
    content_type: &'static str,
    body: &'static str,
}

/// The page's files. None of them says anything of this process.
const FILES: &[File] = &[
    File {
        name: "dashboard.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("page/dashboard.css"),
    },
    File {
        name: "dashboard.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("page/dashboard.js"),
    },
    File {
        name: "figures.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("page/figures.js"),
    },
    // uPlot 1.6.32, MIT: its licence is in `page/uplot.LICENSE`.
    File {
        name: "uplot.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("page/uplot.js"),
    },
    File { name: "uplot.css", content_type: "text/css; charset=utf-8", body: include_str!("page/uplot.css") },
];

const PAGE: &str = include_str!("page/index.html");

/// Nothing but what the page brings may run, be shown or be asked; nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers a request. `method` as received; `may_write`: whoever sent it may change endpoints; for requests that change something it
/// says as well that the page itself sent this one.
pub fn page(method: &[u8], request: &Request<'_>, may_write: bool, body: &[u8], source: &dyn Source) -> Page {
    let target = String::from_utf8_lossy(request.target);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let last = path.rsplit('/').next().unwrap_or_default();
    let reads = matches!(method, b"GET" | b"HEAD");
    let mut page = match last {
        "change" if method == b"POST" => change::answer(may_write, body, source),
        "change" => refused(405, "changes are posted", "POST"),
        _ if !reads => refused(405, "there is nothing here to be changed", "GET, HEAD"),
        "" => Page::new("text/html; charset=utf-8", PAGE.replace("VERSION", version())),
        "status.json" => status_page(query, may_write, source),
        _ => match FILES.iter().find(|file| file.name == last) {
            Some(file) => kept(file),
            None if last.contains('.') => refused(404, "there is no such page", ""),
            // Its parts lie below its path.
            None => moved(path, query),
        },
    };
    page.headers.extend([
        ("Content-Security-Policy", POLICY.to_owned()),
        ("X-Content-Type-Options", "nosniff".to_owned()),
        ("Referrer-Policy", "no-referrer".to_owned()),
    ]);
    page
}

fn status_page(query: &str, may_write: bool, source: &dyn Source) -> Page {
    let mut asked = status::Asked::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "requests" => match value.parse::<usize>() {
                Ok(most) => asked.requests = most.min(MOST),
                Err(_) => return refused(400, "`requests` is a number", ""),
            },
            "pool" => asked.pools.push(value.into_owned()),
            // Others are of later versions, or keep a cache from answering.
            _ => {}
        }
    }
    let observed = source.observe(asked.requests);
    let mut page = Page::new("application/json", status::render(&observed, &asked, may_write));
    page.headers.retain(|(name, _)| *name != "Cache-Control");
    page.headers.push(("Cache-Control", "no-store".to_owned()));
    page
}

/// A file, which the page names with its version: another version is another address.
fn kept(file: &File) -> Page {
    let mut page = Page::new(file.content_type, file.body.to_owned());
    page.headers.retain(|(name, _)| *name != "Cache-Control");
    page.headers.push(("Cache-Control", "private, max-age=31536000, immutable".to_owned()));
    page
}

fn moved(path: &str, query: &str) -> Page {
    let mut page = Page::new("text/plain; charset=utf-8", String::new());
    page.status = 308;
    let last = path.rsplit('/').next().unwrap_or_default();
    let mark = if query.is_empty() { "" } else { "?" };
    // Relative, so that it is right behind whatever is in front of this server.
    page.headers.push(("Location", format!("{last}/{mark}{query}")));
    page
}

fn refused(status: u16, why: &str, allow: &str) -> Page {
    let mut page = Page::new("text/plain; charset=utf-8", format!("{why}\n"));
    page.status = status;
    if !allow.is_empty() {
        page.headers.push(("Allow", allow.to_owned()));
    }
    page
}

/// Names the page's files as they are now: a number that changes with any of them.
fn version() -> &'static str {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| {
        let all: String = FILES.iter().map(|file| file.body).collect();
        weir_control::SiteId::from_name(&all).to_string()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::cell::RefCell;

    use weir_control::Change;
    use weir_control::requests::{Asked, Finished, InFlight};

    use super::super::stats::fixtures;
    use super::*;

    #[derive(Default)]
    struct Fixed {
        endpoints: usize,
        asked: RefCell<Vec<String>>,
    }

    impl Operator for Fixed {
        fn change(&self, change: Change) -> Result<(), String> {
            self.asked.borrow_mut().push(format!("{change:?}"));
            Ok(())
        }

        fn judge(&self, pool: &str, endpoint: &str, healthy: bool) -> Result<(), String> {
            self.asked.borrow_mut().push(format!("{pool}/{endpoint} {healthy}"));
            Err("it is not checked".into())
        }

        fn cut(&self, pool: &str, endpoint: &str) -> Result<(), String> {
            self.asked.borrow_mut().push(format!("cut {pool}/{endpoint}"));
            Ok(())
        }
    }

    impl Source for Fixed {
        fn observe(&self, most: usize) -> Observed {
            let pool = |name: &str| {
                let endpoints = (0..self.endpoints).map(|at| fixtures::endpoint(&format!("e{at}"))).collect();
                fixtures::pool(name, 3, endpoints)
            };
            let mut snapshot = Snapshot {
                sites: vec![fixtures::site("www", 2)],
                pools: vec![pool("app"), pool("api")],
                ..Snapshot::default()
            };
            snapshot.sites[0].front.latency.steps = vec![(15, 2), (31, 1)];
            let asked = Asked {
                target: "/a?<b>".into(),
                site: snapshot.sites[0].id,
                pool: Some(snapshot.pools[1].id),
                ..Asked::default()
            };
            let in_flight = InFlight { asked: asked.clone(), ..InFlight::default() };
            let failed = Finished { asked, status: 502, ..Finished::default() };
            let requests = Requests {
                in_flight: vec![in_flight; most.min(3)],
                failed: vec![failed],
                ..Requests::default()
            };
            Observed { snapshot, requests, now_unix_ms: 7, ..Observed::default() }
        }
    }

    fn get(target: &str) -> Page {
        with("GET", target, false, "", &Fixed { endpoints: 2, ..Fixed::default() })
    }

    fn with(method: &str, target: &str, may_write: bool, body: &str, source: &Fixed) -> Page {
        let request = Request { target: target.as_bytes(), authorization: None };
        page(method.as_bytes(), &request, may_write, body.as_bytes(), source)
    }

    fn header<'p>(page: &'p Page, name: &str) -> &'p str {
        page.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn json(page: &Page) -> serde_json::Value {
        serde_json::from_slice(&page.body).unwrap()
    }

    #[test]
    fn the_page_and_its_parts_are_there_and_small() {
        let page = get("/x/dashboard/?y");
        assert_eq!((page.status, header(&page, "Content-Type")), (200, "text/html; charset=utf-8"));
        assert!(header(&page, "Content-Security-Policy").contains("script-src 'self'"));
        let text = String::from_utf8(page.body.clone()).unwrap();
        assert!(!text.contains("VERSION") && !text.contains("<script>"), "{text}");
        let mut bytes = page.body.len();
        for file in FILES {
            assert!(text.contains(&format!("\"{}?v={}\"", file.name, version())), "{}", file.name);
            let part = get(&format!("/dashboard/{}?v=1", file.name));
            assert_eq!((part.status, header(&part, "Content-Type")), (200, file.content_type));
            assert!(header(&part, "Cache-Control").contains("immutable"));
            bytes += part.body.len();
        }
        assert!(bytes < 300_000, "{bytes}");
        assert_eq!(get("/dashboard/other.js").status, 404);
        let moved = get("/x/dashboard?a=b");
        assert_eq!((moved.status, header(&moved, "Location")), (308, "dashboard/?a=b"));
    }

    #[test]
    fn the_document_names_what_requests_are_about() {
        let page = get("/dashboard/status.json?requests=2&later=1");
        assert_eq!((page.status, header(&page, "Cache-Control")), (200, "no-store"));
        let status = json(&page);
        assert_eq!((&status["format"], &status["write"]), (&1.into(), &false.into()));
        assert_eq!(status["sites"][0]["latency"]["total"]["steps"], serde_json::json!([[15, 2], [31, 1]]));
        assert_eq!(status["requests"]["in_flight"].as_array().unwrap().len(), 2);
        let failed = &status["requests"]["failed"][0];
        assert_eq!(
            (&failed["site"], &failed["pool"], &failed["status"]),
            (&"www".into(), &"api".into(), &502.into())
        );
        assert_eq!(failed["target"], "/a?<b>");
        assert_eq!(status["pools"][1]["endpoints"].as_array().unwrap().len(), 2);
        assert_eq!(get("/dashboard/status.json?requests=x").status, 400);
    }

    #[test]
    fn of_very_many_endpoints_those_are_shown_that_are_asked_for() {
        let many = Fixed { endpoints: 1500, ..Fixed::default() };
        let shown = |target: &str| -> Vec<usize> {
            let status = json(&with("GET", target, true, "", &many));
            assert_eq!(status["write"], true);
            let pools = status["pools"].as_array().unwrap();
            assert!(pools.iter().all(|pool| pool["endpoint_count"] == 1500));
            pools.iter().map(|pool| pool["endpoints"].as_array().unwrap().len()).collect()
        };
        assert_eq!(shown("/status.json"), [0, 0]);
        assert_eq!(shown("/status.json?pool=api"), [0, 1500]);
    }

    #[test]
    fn changes_are_made_by_those_who_may() {
        let source = Fixed::default();
        let post = |may, body: &str| {
            let page = with("POST", "/dashboard/change", may, body, &source);
            (page.status, String::from_utf8(page.body).unwrap())
        };
        let drain = r#"{"pool":"app","endpoint":"e0","do":"drain"}"#;
        assert_eq!(post(false, drain).0, 403);
        assert_eq!(source.asked.borrow().len(), 0);
        assert_eq!(post(true, drain).0, 200);
        assert_eq!(post(true, r#"{"pool":"app","endpoint":"e1","do":"weight","weight":7}"#).0, 200);
        let (status, why) = post(true, r#"{"pool":"app","endpoint":"e1","do":"up"}"#);
        assert_eq!(status, 409);
        assert!(why.contains("it is not checked"), "{why}");
        for (body, wanted) in [
            ("{", "EOF"),
            (r#"{"pool":"app","endpoint":"e0","do":"explode"}"#, "unknown variant"),
            (r#"{"pool":"app","endpoint":"e0","do":"weight"}"#, "weight"),
            (r#"{"pool":"app","endpoint":"e0","do":"drain","weight":1}"#, "weight"),
            (r#"{"pool":"app","endpoint":"e0","do":"drain","more":1}"#, "unknown field"),
        ] {
            let (status, why) = post(true, body);
            assert_eq!(status, 400, "{body}");
            assert!(why.contains(wanted), "{why}");
        }
        let asked = source.asked.borrow();
        assert!(asked[0].contains("Drain") && asked[1].contains("Some(7)") && asked.len() == 3, "{asked:?}");
        for (method, target, allow) in
            [("GET", "/change", "POST"), ("POST", "/status.json", "GET, HEAD"), ("DELETE", "/", "GET, HEAD")]
        {
            let page = with(method, target, true, "", &source);
            assert_eq!((page.status, header(&page, "Allow")), (405, allow));
        }
    }
}
