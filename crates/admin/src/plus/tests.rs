//! What the API answers where it takes no process to ask.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_control::changes::NewEndpoint;
use weir_control::snapshot::Snapshot;

use super::*;

struct Nobody;

impl Backend for Nobody {
    fn endpoints(&self, _: &str) -> Result<Vec<NewEndpoint>, String> {
        Err("there is no such pool".into())
    }

    fn edit(&self, _: &str, _: &mut Edit<'_>) -> Result<(), Fault> {
        Err(Fault::path())
    }

    fn keyvals(&self) -> Vec<Box<dyn Keyvals>> {
        Vec::new()
    }
}

fn ask(method: &str, path: &str, writes: bool) -> (u16, Value) {
    let (query, path) =
        path.split_once('?').map_or((&b""[..], path), |(path, query)| (query.as_bytes(), path));
    let request =
        Request { method, base: "/api", path, query, body: b"", writes, address: "192.0.2.1", id: 7 };
    let page = answer(&request, &Snapshot::default(), &Nobody, &Resets::default());
    (page.status, serde_json::from_slice(&page.body).unwrap_or_default())
}

#[test]
fn every_endpoint_answers_or_says_why_not_whatever_the_path() {
    for version in 1..=NEWEST {
        for (path, since) in [
            ("nginx", 1),
            ("processes", 1),
            ("connections", 1),
            ("ssl", 1),
            ("slabs", 1),
            ("http", 1),
            ("http/requests", 1),
            ("http/server_zones", 1),
            ("http/location_zones", 5),
            ("http/caches", 1),
            ("http/limit_reqs", 6),
            ("http/limit_conns", 6),
            ("http/keyvals", 1),
            ("http/upstreams", 1),
            ("resolvers", 5),
            ("license", 9),
        ] {
            let (status, object) = ask("GET", &format!("/{version}/{path}/"), false);
            assert_eq!(status == 200, version >= since, "{version}/{path}: {object}");
            let (status, _) = ask("HEAD", &format!("/{version}/{path}"), false);
            assert_eq!(status == 200, version >= since, "{version}/{path}");
        }
    }
    for path in ["/9//", "//9/nginx", "/9/http/upstreams//servers", "/9/x/y/z", "/%39/nginx", "/999999/nginx"]
    {
        for method in ["GET", "POST", "PATCH", "DELETE", "BREW"] {
            let (status, object) = ask(method, path, true);
            assert!(status == 200 || object["error"]["code"].is_string(), "{method} {path}: {object}");
        }
    }
}

#[test]
fn an_error_has_its_form() {
    let (status, object) = ask("GET", "/9/none", false);
    let expected = json!({
        "error": { "status": 404, "text": "path not found", "code": "PathNotFound" },
        "request_id": "00000000000000000000000000000007",
        "href": "https://nginx.org/en/docs/http/ngx_http_api_module.html",
    });
    assert_eq!((status, object), (404, expected));
}
