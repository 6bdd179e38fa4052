//! NGINX Plus' REST API (`api`), with `status_zone`, `keyval` and `state`: words of a program that no peer here is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use serde_json::{Value, json};
use weir_testkit::{
    Certificate, Client, Io, Origin, Proxy, Request, Response, Running, TlsOptions, both_drivers, eventually,
    programs,
};

fn conf(http: &str, server: &str, rest: &str) -> String {
    format!(
        "worker_processes 1; error_log {{dir}}/error.log; events {{}} http {{ access_log off; {http}\n\
         server {{ listen 127.0.0.1:{{port}}; location /api {{ api write=on; }} location /look {{ api; }}\n{server} }} }} {rest}"
    )
}

fn start(io: Io, http: &str, server: &str) -> Running {
    Proxy::nginx(&conf(http, server, "")).io(io).start()
}

fn ask(proxy: &Running, method: &str, path: &str, body: Option<Value>) -> Response {
    let mut request = Request::new(method, path);
    if let Some(body) = body {
        request = request.header("Content-Type", "application/json").body(body.to_string());
    }
    Client::connect(proxy).request(&request)
}

/// The object at a path of the newest version.
fn get(proxy: &Running, path: &str) -> Value {
    let response = ask(proxy, "GET", &format!("/api/9/{path}"), None);
    let response = response.expect_status(200).expect_header("content-type", "application/json");
    serde_json::from_str(&response.text()).unwrap()
}

/// What an error says: its status, code and text.
fn fault(response: &Response) -> (u16, String, String) {
    let object: Value = serde_json::from_str(&response.text()).unwrap();
    let error = &object["error"];
    assert_eq!(error["status"], response.status, "{object}");
    assert_eq!(object["request_id"].as_str().unwrap().len(), 32, "{object}");
    assert!(object["href"].as_str().unwrap().ends_with("/ngx_http_api_module.html"), "{object}");
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    (response.status, text("code"), text("text"))
}

fn names(object: &Value) -> Vec<&str> {
    object.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

both_drivers! {
    fn the_tree_has_what_its_version_has(io: Io) {
        let proxy = start(io, "upstream u { zone u 64k; server 127.0.0.1:1; } upstream fixed { server 127.0.0.1:1; }", "");
        let json = |path: &str| -> Value { serde_json::from_str(&ask(&proxy, "GET", path, None).text()).unwrap() };
        assert_eq!(json("/api"), json!([1, 2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!(json("/api/"), json("/api"));
        assert_eq!(names(&json("/api/1/")), ["nginx", "processes", "connections", "slabs", "http", "ssl"]);
        assert_eq!(names(&json("/api/9")).len(), 8, "stream is not configured");
        assert_eq!(names(&json("/api/5/http")), ["requests", "server_zones", "location_zones", "caches", "keyvals", "upstreams"]);
        assert_eq!(names(&json("/api/9/http/upstreams?fields=")), ["u"]);
        assert_eq!(json("/api/9/http/upstreams/u?fields=zone,zombies"), json!({ "zone": "u", "zombies": 0 }));
        assert!(json("/api/6/http/upstreams/u")["peers"][0]["responses"].get("codes").is_none());
        assert_eq!(json("/api/7/http/upstreams/u")["peers"][0]["responses"]["codes"], json!({}));
        for (path, status, code) in [
            ("/api/10", 404, "UnknownVersion"),
            ("/api/09", 404, "UnknownVersion"),
            ("/api/x/nginx", 404, "UnknownVersion"),
            ("/api/9/none", 404, "PathNotFound"),
            ("/api/8/workers", 404, "PathNotFound"),
            ("/api/4/resolvers", 404, "PathNotFound"),
            ("/api/9/stream", 404, "PathNotFound"),
            ("/api/9/http/server_zones/none", 404, "ServerZoneNotFound"),
            ("/api/9/http/location_zones/none", 404, "LocationZoneNotFound"),
            ("/api/9/http/caches/none", 404, "CacheNotFound"),
            ("/api/9/http/limit_reqs/none", 404, "LimitReqNotFound"),
            ("/api/9/http/limit_conns/none", 404, "LimitConnNotFound"),
            ("/api/9/http/keyvals/none", 404, "KeyvalNotFound"),
            ("/api/9/http/upstreams/none/", 404, "UpstreamNotFound"),
            ("/api/9/http/upstreams/fixed/", 400, "UpstreamStatic"),
            ("/api/9/http/upstreams/u/servers/7", 404, "UpstreamServerNotFound"),
            ("/api/9/http/upstreams/u/servers/x", 400, "UpstreamBadServerId"),
            ("/api/9/slabs/none", 404, "SlabNotFound"),
            ("/api/9/workers/77", 404, "WorkerNotFound"),
        ] {
            let response = ask(&proxy, "GET", path, None);
            let (is, said, _) = fault(&response);
            assert_eq!((is, said.as_str()), (status, code), "{path}");
        }
        let old: Value = serde_json::from_str(&ask(&proxy, "GET", "/api/3/none", None).text()).unwrap();
        assert_eq!((&old["path"], &old["method"]), (&json!(""), &json!("")));
        // Who may not write is told so, wherever; and where nothing can be written.
        for (method, path) in [("DELETE", "/look/9/connections"), ("POST", "/look/9/http/upstreams/u/servers/"),
            ("POST", "/api/9/nginx"), ("DELETE", "/api/9/nginx"), ("PUT", "/api/9/http/requests")] {
            let (status, code, text) = fault(&ask(&proxy, method, path, Some(json!({}))));
            assert_eq!((status, code.as_str(), text.as_str()), (405, "MethodDisabled", "method disabled"), "{method} {path}");
        }
        // Nor may the page of another site, through whoever looks at it.
        let foreign = Request::new("DELETE", "/api/9/connections").header("Origin", "http://evil.test");
        Client::connect(&proxy).request(&foreign).expect_status(403);
    }

    fn figures_are_of_the_process_and_count_again_after_a_reset(io: Io) {
        let proxy = start(io, "", "location /x { return 204; }");
        let about = get(&proxy, "nginx");
        assert_eq!((&about["address"], &about["generation"]), (&json!("127.0.0.1"), &json!(1)));
        assert!(about["load_timestamp"].as_str().unwrap().ends_with('Z') && about["ppid"].as_u64().unwrap() > 0);
        assert_eq!(get(&proxy, "processes"), json!({ "respawned": 0 }));
        assert!(get(&proxy, "connections")["accepted"].as_u64().unwrap() >= 3);
        assert_eq!(get(&proxy, "workers")[0]["http"]["requests"]["current"], 1);
        let before = get(&proxy, "http/requests")["total"].as_u64().unwrap();
        ask(&proxy, "DELETE", "/api/9/http/requests", None).expect_status(204).expect_body("");
        let after = get(&proxy, "http/requests");
        assert!(after["total"].as_u64().unwrap() < before, "{after} of {before}");
        assert_eq!(after["current"], 1, "what is under way is no count");
        ask(&proxy, "DELETE", "/api/9/workers/0", None).expect_status(204);
        assert!(get(&proxy, "workers/0")["http"]["requests"]["total"].as_u64().unwrap() < before);
        assert_eq!(get(&proxy, "license")["eval"], false);
        assert_eq!(get(&proxy, "ssl")["handshakes"], 0);
    }

    fn zones_count_by_their_names(io: Io) {
        let origin = Origin::named("a", "a");
        let site = Certificate::p256(&["localhost"]);
        let tls = weir_testkit::Port::lease();
        let (http, server) = (
            "limit_req_zone $arg_k zone=rate:1m rate=1r/m; limit_conn_zone $arg_k zone=at_once:1m;
             proxy_cache_path {dir}/cache keys_zone=kept:1m max_size=10m;",
            format!(
                "status_zone site; listen 127.0.0.1:{} ssl; ssl_certificate {{dir}}/a.crt; ssl_certificate_key {{dir}}/a.key;
                 location /none {{ return 404; }} location /silent {{ return 444; }}
                 location /here {{ status_zone here; return 200 here; location /here/off {{ status_zone off; return 200; }}
                   location /here/in {{ return 201; }} }}
                 location /limited {{ limit_req zone=rate burst=1 nodelay; limit_conn at_once 1; proxy_pass http://{origin}; }}
                 location /kept {{ proxy_pass http://{origin}; proxy_cache kept; proxy_cache_valid 200 1h; }}",
                tls.number()
            ),
        );
        let proxy = Proxy::nginx(&conf(http, &server, "")).io(io).certificate("a", &site).start();
        let zone = |path: &str| get(&proxy, path);
        let mut client = Client::connect(&proxy);
        for (path, status) in [("/none", 404), ("/none", 404), ("/here", 200), ("/here/in/x", 201), ("/here/off", 200)] {
            client.get(path).expect_status(status);
        }
        client.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
        client.expect_closed();
        let here = zone("http/location_zones/here");
        assert_eq!((&here["requests"], &here["responses"]["codes"]), (&json!(2), &json!({ "200": 1, "201": 1 })));
        let of_site = zone("http/server_zones/site");
        assert_eq!(of_site["processing"], 1, "the one that asks");
        assert_eq!((&of_site["responses"]["codes"]["404"], &of_site["discarded"]), (&json!(2), &json!(1)));
        assert_eq!(of_site["requests"].as_u64().unwrap(), of_site["responses"]["total"].as_u64().unwrap() + 2);
        assert!(of_site["received"].as_u64().unwrap() > 100 && of_site["sent"].as_u64().unwrap() > 100);
        Client::tls(&tls, &TlsOptions::trusting(&site)).get("/here").expect_status(200);
        assert_eq!(zone("http/server_zones/site")["ssl"]["handshakes"], 1);
        ask(&proxy, "DELETE", "/api/9/http/server_zones/site", None).expect_status(204);
        let codes = zone("http/server_zones/site")["responses"]["codes"].clone();
        assert_eq!((&codes["204"], &codes["404"]), (&json!(1), &Value::Null), "{codes}");
        let mut client = Client::connect(&proxy);
        for status in [200, 200, 503] {
            client.get("/limited?k=1").expect_status(status);
        }
        assert_eq!(
            zone("http/limit_reqs/rate"),
            json!({ "passed": 2, "delayed": 0, "rejected": 1, "delayed_dry_run": 0, "rejected_dry_run": 0 })
        );
        assert_eq!(zone("http/limit_conns/at_once"), json!({ "passed": 2, "rejected": 0, "rejected_dry_run": 0 }));
        for _ in 0..3 {
            client.get("/kept").expect_body("a");
        }
        let kept = zone("http/caches/kept");
        assert_eq!((&kept["hit"]["responses"], &kept["miss"]["responses_written"], &kept["miss"]["bytes_written"]), (&json!(2), &json!(1), &json!(1)));
        assert_eq!((&kept["max_size"], &kept["cold"]), (&json!(10 << 20), &json!(false)));
    }

    fn servers_come_change_and_go(io: Io) {
        let [a, b, c] = ["a", "b", "c"].map(|name| Origin::named(name, name));
        let file = Proxy::nginx(&conf(
            &format!("upstream u {{ zone u 64k; server {a}; }} upstream empty {{ zone empty 64k; }}"),
            "location / { proxy_pass http://u; } location /empty { proxy_pass http://empty; }",
            "",
        )).io(io);
        let mut proxy = file.start();
        let answers = |proxy: &Running, path: &str, count: usize| {
            let mut client = Client::connect(proxy);
            let mut seen: Vec<String> = (0..count).map(|_| client.get(path).expect_status(200).text()).collect();
            seen.sort();
            seen.concat()
        };
        let servers = "/api/9/http/upstreams/u/servers/";
        assert_eq!(get(&proxy, "http/upstreams/u/servers"), json!([{
            "id": 0, "server": a.to_string(), "weight": 1, "max_conns": 0, "max_fails": 1, "fail_timeout": "10s",
            "slow_start": "0s", "route": "", "backup": false, "down": false,
        }]));
        let made = ask(&proxy, "POST", servers, Some(json!({ "server": b.to_string(), "weight": 3, "fail_timeout": "1m" })));
        let made = made.expect_status(201).expect_header("location", "/api/9/http/upstreams/u/servers/1");
        let made: Value = serde_json::from_str(&made.text()).unwrap();
        assert_eq!((&made["id"], &made["weight"], &made["fail_timeout"]), (&json!(1), &json!(3), &json!("60s")));
        assert_eq!(answers(&proxy, "/", 8), "aabbbbbb");
        let peers = get(&proxy, "http/upstreams/u")["peers"].clone();
        assert_eq!((&peers[1]["requests"], &peers[1]["responses"]["codes"], &peers[1]["state"]), (&json!(6), &json!({ "200": 6 }), &json!("up")));
        // What is wrong is said by its code, and changes nothing.
        for (body, code) in [
            (json!({ "server": b.to_string() }), "EntryExists"),
            (json!({}), "UpstreamConfFormatError"),
            (json!([]), "UpstreamConfFormatError"),
            (json!({ "server": c.to_string(), "id": 5 }), "UpstreamConfFormatError"),
            (json!({ "server": c.to_string(), "down": {} }), "UpstreamConfFormatError"),
            (json!({ "server": "a b" }), "UpstreamBadAddress"),
            (json!({ "server": "127.0.0.1:99999" }), "UpstreamBadAddress"),
            (json!({ "server": "name.test:80" }), "UpstreamConfNoResolver"),
            (json!({ "server": c.to_string(), "weight": 0 }), "UpstreamBadWeight"),
            (json!({ "server": c.to_string(), "max_conns": -1 }), "UpstreamBadMaxConns"),
            (json!({ "server": c.to_string(), "max_fails": "x" }), "UpstreamBadMaxFails"),
            (json!({ "server": c.to_string(), "fail_timeout": "1x" }), "UpstreamBadFailTimeout"),
            (json!({ "server": c.to_string(), "slow_start": true }), "UpstreamBadSlowStart"),
            (json!({ "server": c.to_string(), "route": "r".repeat(33) }), "UpstreamBadRoute"),
            (json!({ "server": c.to_string(), "service": "" }), "UpstreamBadService"),
        ] {
            let (_, said, _) = fault(&ask(&proxy, "POST", servers, Some(body.clone())));
            assert_eq!(said, code, "{body}");
        }
        let broken = Request::post(servers, "{").header("Content-Type", "application/json");
        assert_eq!(fault(&Client::connect(&proxy).request(&broken)), (415, "JsonError".into(), "json error".into()));
        // One is drained, then out of service, then gone; its number is nobody's again.
        let one = |proxy: &Running, body: Value| ask(proxy, "PATCH", "/api/9/http/upstreams/u/servers/1", Some(body));
        one(&proxy, json!({ "drain": true })).expect_status(200);
        assert_eq!(answers(&proxy, "/", 4), "aaaa");
        assert_eq!(get(&proxy, "http/upstreams/u")["peers"][1]["state"], "draining");
        one(&proxy, json!({ "drain": false, "down": true, "backup": false })).expect_status(200);
        assert_eq!(get(&proxy, "http/upstreams/u")["peers"][1]["state"], "down");
        assert_eq!(fault(&one(&proxy, json!({ "backup": true }))).1, "UpstreamConfFormatError");
        one(&proxy, json!({ "down": false, "weight": 1 })).expect_status(200);
        assert_eq!(answers(&proxy, "/", 4), "aabb");
        let left = ask(&proxy, "DELETE", "/api/9/http/upstreams/u/servers/1", None);
        assert_eq!(serde_json::from_str::<Value>(&left.expect_status(200).text()).unwrap().as_array().unwrap().len(), 1);
        ask(&proxy, "POST", servers, Some(json!({ "server": c.to_string() }))).expect_status(201)
            .expect_header("location", "/api/9/http/upstreams/u/servers/2");
        assert_eq!(answers(&proxy, "/", 4), "aacc");
        // A pool that has none may get one.
        Client::connect(&proxy).get("/empty").expect_status(502);
        ask(&proxy, "POST", "/api/9/http/upstreams/empty/servers", Some(json!({ "server": b.to_string() }))).expect_status(201);
        assert_eq!(answers(&proxy, "/empty", 2), "bb");
        // All of it is there after a reload.
        proxy.reload_same();
        assert_eq!(answers(&proxy, "/", 4), "aacc");
        assert_eq!(get(&proxy, "http/upstreams/u/servers/2")["server"], c.to_string());
        ask(&proxy, "DELETE", "/api/9/http/upstreams/u", None).expect_status(204);
        assert_eq!(get(&proxy, "http/upstreams/u")["peers"][0]["requests"], 0);
    }

    fn keys_and_values_are_set_and_looked_up(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("texts.json");
        let file = Proxy::nginx(&conf(
            &format!("keyval_zone zone=texts:32k state={}; keyval $arg_k $text zone=texts;
             keyval_zone zone=nets:32k type=ip; keyval $arg_ip $net zone=nets;
             keyval_zone zone=brief:32k timeout=1h type=prefix; keyval $uri $brief zone=brief;", state.display()),
            "location / { return 200 '[$text][$net][$brief]'; }",
            "",
        )).io(io);
        let mut proxy = file.start();
        let shown = |proxy: &Running, path: &str| Client::connect(proxy).get(path).expect_status(200).text();
        let put_at = |proxy: &Running, method: &str, zone: &str, body: Value| ask(proxy, method, &format!("/api/9/http/keyvals/{zone}"), Some(body));
        let put = |method: &str, zone: &str, body: Value| put_at(&proxy, method, zone, body);
        assert_eq!(shown(&proxy, "/?k=a"), "[][][]");
        put("POST", "texts", json!({ "a": "one", "b": "two" })).expect_status(201);
        assert_eq!(fault(&put("POST", "texts", json!({ "c": "1", "d": "2" }))).2, "only one key can be added");
        assert_eq!(fault(&put("POST", "texts", json!({ "a": "again" }))), (409, "KeyvalKeyExists".into(), "key already exists".into()));
        put("PATCH", "texts", json!({ "a": "1" })).expect_status(204);
        put("PATCH", "texts", json!({ "b": null })).expect_status(204);
        assert_eq!(fault(&put("PATCH", "texts", json!({ "b": "2" }))).1, "KeyvalKeyNotFound");
        assert_eq!(fault(&put("POST", "texts", json!({ "x": { "value": "1", "expire": 5 } }))).2, "keyval timeout is not enabled");
        assert_eq!(shown(&proxy, "/?k=a"), "[1][][]");
        put("POST", "nets", json!({ "10.0.0.0/8": "ten", "10.1.0.0/16": "one" })).expect_status(201);
        assert_eq!(fault(&put("POST", "nets", json!({ "x": "1" }))).2, "invalid key format");
        assert_eq!(shown(&proxy, "/?ip=10.1.2.3"), "[][one][]");
        put("POST", "brief", json!({ "/p": "long", "/p/q": { "value": "short", "expire": 200 } })).expect_status(201);
        assert_eq!(shown(&proxy, "/p/q/r"), "[][][short]");
        let left = get(&proxy, "http/keyvals/brief?key=/p");
        assert!((1..=3_600_000).contains(&left["/p"]["expire"].as_u64().unwrap()), "{left}");
        eventually("the pair to end", || (shown(&proxy, "/p/q/r") == "[][][long]").then_some(()));
        assert_eq!(get(&proxy, "http/keyvals/texts"), json!({ "a": "1" }));
        assert_eq!(names(&get(&proxy, "http/keyvals?fields=")), ["brief", "nets", "texts"]);
        assert_eq!(fault(&put("POST", "texts", json!({ "big": "x".repeat(40_000) }))).2, "keyval memory exhausted");
        // Reloads leave them; what has a file is there after a restart.
        proxy.reload_same();
        assert_eq!(shown(&proxy, "/p?k=a&ip=10.9.9.9"), "[1][ten][long]");
        ask(&proxy, "DELETE", "/api/9/http/keyvals/nets", None).expect_status(204);
        assert_eq!(get(&proxy, "http/keyvals/nets"), json!({}));
        proxy.stop();
        assert_eq!(shown(&file.start(), "/p?k=a"), "[1][][]");
    }

    fn numbers_choose_values(io: Io) {
        let proxy = start(
            io,
            "num_map $arg_n $group { default none; 1-9 digit; 7 seven; <0 minus; >=100 $arg_n; 200 never; }",
            "location / { return 200 $group; }",
        );
        let mut client = Client::connect(&proxy);
        for (number, value) in
            [("7", "seven"), ("1", "digit"), ("9", "digit"), ("0", "none"), ("-3", "minus"), ("100", "100"), ("200", "never"), ("x", "none"), ("", "none")]
        {
            client.get(&format!("/?n={number}")).expect_body(value);
        }
    }

    fn servers_in_a_file_outlive_the_process(io: Io) {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("u.state");
        let [a, b] = ["a", "b"].map(|name| Origin::named(name, name));
        let file = Proxy::nginx(&conf(
            &format!("upstream u {{ zone u 64k; state {}; }}", state.display()),
            "location / { proxy_pass http://u; }",
            "",
        )).io(io);
        let proxy = file.start();
        let servers = "/api/9/http/upstreams/u/servers/";
        for (server, weight) in [(&a, 1), (&b, 3)] {
            ask(&proxy, "POST", servers, Some(json!({ "server": server.to_string(), "weight": weight }))).expect_status(201);
        }
        assert_eq!(std::fs::read_to_string(&state).unwrap(), format!("server {a};\nserver {b} weight=3;\n"));
        proxy.stop();
        let proxy = file.start();
        assert_eq!(get(&proxy, "http/upstreams/u/servers/1")["weight"], 3);
        let mut client = Client::connect(&proxy);
        let mut seen: Vec<String> = (0..4).map(|_| client.get("/").expect_status(200).text()).collect();
        seen.sort();
        assert_eq!(seen.concat(), "abbb");
    }

    fn the_official_client_and_the_exporter_get_what_they_ask_for(io: Io) {
        let origin = Origin::named("a", "a");
        let echo = weir_testkit::Port::lease();
        let proxy = Proxy::nginx(&conf(
            &format!(
                "upstream u {{ zone u 64k; }} upstream origin {{ zone origin 64k; server {origin}; }}
                 keyval_zone zone=k:32k; keyval $arg_k $text zone=k;
                 limit_req_zone $binary_remote_addr zone=rate:1m rate=100r/s; limit_conn_zone $binary_remote_addr zone=at_once:1m;
                 proxy_cache_path {{dir}}/cache keys_zone=kept:1m max_size=10m;"
            ),
            "status_zone site; location / { status_zone place; limit_req zone=rate burst=10 nodelay; limit_conn at_once 10;
               proxy_pass http://origin; proxy_cache kept; proxy_cache_valid 200 1h; }",
            &format!(
                "stream {{ keyval_zone zone=ks:32k; keyval $remote_addr $text zone=ks; limit_conn_zone $binary_remote_addr zone=sessions:1m;
                 upstream s {{ zone s 64k; }} upstream origin {{ zone origin_s 64k; server {origin}; }}
                 server {{ listen 127.0.0.1:{}; proxy_pass origin; status_zone service; limit_conn sessions 10; }} }}",
                echo.number()
            ),
        )).io(io).start();
        for _ in 0..2 {
            Client::connect(&proxy).get("/x").expect_status(200);
        }
        Client::connect(&echo).request(&Request::get("/").header("Connection", "close")).expect_body("a");
        let url = format!("http://127.0.0.1:{}/api", proxy.port().number());
        let cases = ["upstreams", "streams", "keyvals", "versions", "stats"];
        eventually("the session to be counted", || {
            (get(&proxy, "stream/server_zones/service")["sessions"]["total"] == 1).then_some(())
        });
        let mut command = Command::new(programs::peer("plus"));
        command.arg(&url).args(cases);
        let (code, text) = programs::run(command);
        assert_eq!((code, text.lines().collect::<Vec<_>>()), (0, cases.to_vec()), "{text}");

        let scraped = weir_testkit::Port::lease();
        let mut command = Command::new(programs::peer("plus-exporter"));
        command.args(["--nginx.plus", &format!("--nginx.scrape-uri={url}")]);
        command.arg(format!("--web.listen-address=127.0.0.1:{}", scraped.number()));
        let exporter = programs::server(command);
        exporter.wait_for_output("Listening on");
        let metrics = Client::connect(&scraped).get("/metrics").expect_status(200).text();
        for line in [
            "nginxplus_up 1",
            "nginxplus_server_zone_responses{code=\"2xx\",server_zone=\"site\"}",
            "nginxplus_location_zone_requests{location_zone=\"place\"} 2",
            &format!("nginxplus_upstream_server_requests{{server=\"{origin}\",upstream=\"origin\"}} 1"),
            &format!("nginxplus_upstream_server_state{{server=\"{origin}\",upstream=\"origin\"}} 1"),
            "nginxplus_stream_server_zone_connections{server_zone=\"service\"} 1",
            "nginxplus_cache_hit_responses{zone=\"kept\"} 1",
            "nginxplus_limit_request_passed{zone=\"rate\"} 2",
        ] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
    }
}
