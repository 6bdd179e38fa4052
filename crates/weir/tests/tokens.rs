//! Tokens as NGINX Plus asks for them (`auth_jwt` and its kin), and `auth_require`: words of a program that no peer here is.
//! Tokens in `jwcrypto.json` were made by another implementation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use weir_testkit::{Client, Io, Origin, Proxy, Request, Response, Running, both_drivers, eventually};

const SECRET: &str = "a secret of the tests";

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn keys(secret: &str) -> String {
    json!({"keys": [{"kty": "oct", "kid": "1", "k": base64url(secret)}]}).to_string()
}

/// A token signed with a secret.
fn token_by(secret: &str, header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text.as_bytes());
    format!("{text}.{}", base64url(tag))
}

fn token(claims: &Value) -> String {
    token_by(SECRET, &json!({"alg": "HS256", "kid": "1", "typ": "JWT"}), claims)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn conf(http: &str, server: &str) -> String {
    format!(
        "worker_processes 1; error_log {{dir}}/error.log info; events {{}}
         http {{ access_log off; {http}
         server {{ listen 127.0.0.1:{{port}}; {server} }} }}"
    )
}

fn proxy(io: Io, http: &str, server: &str) -> weir_testkit::Proxy {
    Proxy::nginx(&conf(http, server)).io(io).file("keys.json", keys(SECRET))
}

fn get(running: &Running, path: &str, token: &str) -> Response {
    let mut request = Request::get(path);
    if !token.is_empty() {
        request = request.header("Authorization", &format!("Bearer {token}"));
    }
    Client::connect(running).request(&request)
}

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../jose/tests/jwcrypto.json")).unwrap()
}

both_drivers! {
    fn a_token_gets_in_by_its_signature_and_time(io: Io) {
        let server = r#"auth_jwt "closed site"; auth_jwt_key_file keys.json;
            location / { return 204; }
            location /late { auth_jwt_leeway 1h; return 204; }
            location /open { auth_jwt off; return 204; }
            location /cookie { auth_jwt other token=$cookie_t; return 204; }"#;
        // `return` is of an earlier phase than access, in nginx and here: files are what access guards.
        let server = server.replace("return 204;", "try_files /none @ok;") + "location @ok { auth_jwt off; return 204; }";
        let running = proxy(io, "", &server).start();
        let challenge = |response: Response| {
            let response = response.expect_status(401);
            response.header("WWW-Authenticate").unwrap_or_default().to_owned()
        };
        assert_eq!(challenge(get(&running, "/", "")), "Bearer realm=\"closed site\"");
        let invalid = "Bearer realm=\"closed site\",error=\"invalid_token\"";
        get(&running, "/", &token(&json!({"sub": "me"}))).expect_status(204);
        get(&running, "/", &token(&json!({"exp": now() + 60, "nbf": now() - 5}))).expect_status(204);
        let lower = Request::get("/").header("authorization", &format!("bEARER {}", token(&json!({}))));
        Client::connect(&running).request(&lower).expect_status(204);
        let header = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid});
        let (old, early) = (json!({"exp": now() - 60}), json!({"nbf": now() + 600}));
        for bad in [
            token(&old), token(&early), token(&json!({"exp": "soon"})), token(&json!([1])),
            token_by("another", &header("HS256", "1"), &json!({})), token_by(SECRET, &header("HS256", "2"), &json!({})),
            token_by(SECRET, &header("none", "1"), &json!({})), token_by(SECRET, &header("RS256", "1"), &json!({})),
            format!("{}.{}.", base64url(r#"{"alg":"none"}"#), base64url("{}")),
            token_by(SECRET, &json!({"alg": "HS256", "crit": ["exp"]}), &json!({})),
            "x".into(), "a.b.c".into(), "....".into(), "e30.e30.".into(), "x".repeat(7000),
        ] {
            assert_eq!(challenge(get(&running, "/", &bad)), invalid, "{bad}");
        }
        for held in [&old, &early] {
            get(&running, "/late", &token(held)).expect_status(204);
        }
        get(&running, "/open", "").expect_status(204);
        let mine = token(&json!({}));
        let cookie = Request::get("/cookie").header("Cookie", &format!("t={mine}"));
        Client::connect(&running).request(&cookie).expect_status(204);
        assert_eq!(challenge(get(&running, "/cookie", &mine)), "Bearer realm=\"other\"");
        running.wait_for_file("error.log", "the token has expired");
        running.stop();
    }

    fn claims_are_variables(io: Io) {
        let http = "auth_jwt_claim_set $email info e-mail; auth_jwt_claim_set $job info \"job title\"; auth_jwt_header_set $kind typ;
            map $jwt_claim_sub $known { me 1; }";
        let all = "$jwt_claim_sub|$email|$job|$kind|$jwt_header_alg|$jwt_claim_roles|$jwt_claim_none|$jwt_claim_ok";
        let server = format!(r#"auth_jwt "site"; auth_jwt_key_file keys.json;
            location @show {{ return 200 "{all}"; }}
            location / {{ try_files /none @show; }}
            location /known {{ auth_jwt_require $known; try_files /none @show; }}
            location /refused {{ auth_jwt_require $known error=403; try_files /none @show; }}
            location /payload {{ return 200 $jwt_payload; }}
            location /read {{ auth_jwt off token=$arg_t; return 200 "{all}"; }}
            location /unread {{ auth_jwt off; return 200 "{all}"; }}"#);
        let running = proxy(io, http, &server).start();
        let claims = json!({"sub": "me", "info": {"e-mail": "a@b", "job title": "cook"}, "roles": ["x", "y"], "ok": true});
        let told = |path: &str, token: &str| get(&running, path, token).expect_status(200).text();
        let all = "me|a@b|cook|JWT|HS256|x,y||true";
        assert_eq!(told("/", &token(&claims)), all);
        assert_eq!(told("/known", &token(&claims)), all);
        assert_eq!(told("/payload", &token(&claims)), claims.to_string());
        assert_eq!(told(&format!("/read?t={}", token(&claims)), ""), all);
        assert_eq!(told("/unread", &token(&claims)), "|||||||");
        get(&running, "/known", &token(&json!({"sub": "you"}))).expect_status(401)
            .expect_header("WWW-Authenticate", "Bearer realm=\"site\",error=\"invalid_token\"");
        let refused = get(&running, "/refused", &token(&json!({"sub": "you"}))).expect_status(403);
        assert_eq!(refused.header("WWW-Authenticate"), None);
        running.stop();
    }

    fn every_algorithm_of_another_implementation_gets_in(io: Io) {
        let all = fixture();
        let set = |name: &str| json!({ "keys": all[name] }).to_string();
        let server = r#"auth_jwt "site"; auth_jwt_key_file public.json;
            location @show { return 200 "$jwt_claim_sub|$jwt_header_kid|$jwt_payload"; }
            location /early { return 200 "$jwt_claim_sub|$jwt_header_kid|$jwt_payload"; }
            location /signed { try_files /none @show; }
            location /encrypted { auth_jwt_type encrypted; auth_jwt_key_file private.json; try_files /none @show; }
            location /nested { auth_jwt_type nested; auth_jwt_key_file private.json; auth_jwt_key_file public.json; try_files /none @show; }"#;
        let running = proxy(io, "", server).file("public.json", set("keys")).file("private.json", set("private")).start();
        let signed = all["tokens"][3]["token"].as_str().unwrap();
        for one in all["tokens"].as_array().unwrap() {
            let (kind, text) = (one["kind"].as_str().unwrap(), one["token"].as_str().unwrap());
            let answer = get(&running, &format!("/{kind}"), text);
            assert_eq!(answer.status, 200, "{}", one["name"]);
            let text_of = |response: Response| response.text();
            let told = text_of(answer);
            let payload = if kind == "nested" { signed } else { "{\"sub\"" };
            let (sub, rest) = told.split_once('|').unwrap();
            assert_eq!(sub, "me", "{}", one["name"]);
            assert!(rest.split_once('|').unwrap().1.starts_with(payload), "{}: {told}", one["name"]);
            // What is encrypted tells nothing before it was decrypted.
            let early = text_of(get(&running, "/early", text));
            assert_eq!(early.starts_with("me|"), kind == "signed", "{}: {early}", one["name"]);
            for other in ["signed", "encrypted", "nested"].into_iter().filter(|other| *other != kind) {
                get(&running, &format!("/{other}"), text).expect_status(401);
            }
        }
        running.stop();
    }

    fn keys_come_from_a_request_and_are_kept(io: Io) {
        let idp = Origin::named("keys", keys(SECRET));
        let server = format!(r#"auth_jwt "site"; auth_jwt_key_file keys.json; location @ok {{ auth_jwt off; return 204; }}
            location /each {{ auth_jwt_key_request /keys; try_files /none @ok; }}
            location /kept {{ auth_jwt_key_request /keys?kept; auth_jwt_key_cache 1h; try_files /none @ok; }}
            location /gone {{ auth_jwt_key_request /404; try_files /none @ok; }}
            location /other {{ auth_jwt_key_request /page; try_files /none @ok; }}
            location /both {{ auth_jwt_key_file other.json; auth_jwt_key_request /keys; try_files /none @ok; }}
            location /file {{ auth_jwt_key_file other.json; try_files /none @ok; }}
            location /lost {{ auth_jwt_key_file none.json; try_files /none @ok; }}
            location /var {{ auth_jwt_key_file {{dir}}/$arg_f; try_files /none @ok; }}
            location /keys {{ internal; auth_jwt off; proxy_pass http://{idp}; }}
            location /404 {{ return 404; }} location /page {{ return 200 "no keys"; }}"#);
        let running = proxy(io, "", &server).file("other.json", keys("another")).start();
        let mine = token(&json!({}));
        let before = idp.requests().len();
        for _ in 0..3 {
            get(&running, "/each", &mine).expect_status(204);
        }
        assert_eq!(idp.requests().len() - before, 3);
        for _ in 0..3 {
            get(&running, "/kept", &mine).expect_status(204);
        }
        assert_eq!(idp.requests().len() - before, 4, "asked once");
        get(&running, "/both", &mine).expect_status(204);
        get(&running, "/file", &mine).expect_status(401);
        for broken in ["/gone", "/other", "/lost", "/var?f=none"] {
            get(&running, broken, &mine).expect_status(500);
        }
        get(&running, "/var?f=keys.json", &mine).expect_status(204);
        running.wait_for_file("error.log", "cannot use the keys of tokens");
        // A file that changes counts at once.
        running.write("other.json", keys(SECRET) + " ");
        eventually("the new keys", || (get(&running, "/file", &mine).status == 204).then_some(()));
        running.stop();
    }

    fn ways_of_access_go_together(io: Io) {
        let server = r#"auth_jwt "site"; auth_jwt_key_file keys.json; auth_basic_user_file users;
            location @ok { auth_jwt off; return 204; }
            location /all { allow 127.0.0.1; deny all; auth_basic "users"; auth_jwt "site" token=$arg_t; try_files /none @ok; }
            location /denied { deny all; try_files /none @ok; }
            location /any { satisfy any; deny all; auth_basic "users"; auth_jwt "site" token=$arg_t; try_files /none @ok; }
            location /here { satisfy any; allow 127.0.0.1; deny all; try_files /none @ok; }
            location /asked { satisfy any; auth_request /verdict; try_files /none @ok; }
            location /asked-too { auth_request /verdict; try_files /none @ok; }
            location /verdict { return $arg_s; }
            location /required { auth_require $arg_a $arg_b; auth_require $arg_c error=404; try_files /none @ok; }
            location /required/any { satisfy any; allow all; auth_require $arg_a; try_files /none @ok; }
            location /required/alone { auth_jwt off; auth_require $arg_a error=451; try_files /none @ok; }"#;
        let server = server.replace("return $arg_s;", "if ($request_uri ~ s=2) { return 204; } return 403;");
        let running = proxy(io, "", &server).file("users", "a:{PLAIN}b\n").start();
        let mine = token(&json!({}));
        let basic = |path: &str| {
            let request = Request::get(path).header("Authorization", "Basic YTpi");
            Client::connect(&running).request(&request).status
        };
        let with = |path: &str| get(&running, path, &mine).status;
        let without = |path: &str| get(&running, path, "").status;
        let shown = |path: &str| format!("{path}?t={mine}");
        assert_eq!((basic(&shown("/all")), basic("/all"), without(&shown("/all"))), (204, 401, 401));
        assert_eq!((with("/denied"), without("/denied")), (403, 403));
        assert_eq!((basic("/any"), without(&shown("/any")), without("/any")), (204, 204, 401));
        assert_eq!((with("/here"), without("/here")), (204, 204));
        assert_eq!((with("/asked?s=3"), without("/asked?s=2"), without("/asked?s=3")), (204, 204, 401));
        assert_eq!((with("/asked-too?s=2"), with("/asked-too?s=3"), without("/asked-too?s=2")), (204, 403, 401));
        for (query, status) in [("a=1&b=x&c=1", 204), ("a=1&b=0&c=1", 403), ("a=1&c=1", 403), ("a=1&b=1", 404), ("", 403)] {
            assert_eq!(with(&format!("/required?{query}")), status, "{query}");
        }
        assert_eq!(without("/required?a=1&b=1&c=1"), 401);
        assert_eq!((without("/required/any?a=1"), without("/required/any")), (204, 403), "it opens no door");
        assert_eq!((without("/required/alone?a=1"), without("/required/alone?a=0")), (204, 451));
        running.stop();
    }
}

#[test]
fn mistakes_are_told() {
    for (server, told) in [
        ("auth_jwt x;", "auth_jwt_key_file"),
        ("auth_jwt x token=t; auth_jwt_key_file k;", "token=$cookie_token"),
        ("auth_jwt x; auth_jwt_key_file $arg_f; auth_jwt_key_cache 1h;", "does not go with keys"),
        ("auth_jwt x; auth_jwt_key_request keys;", "begins with `/`"),
        ("auth_jwt x; auth_jwt_key_file k; auth_jwt_require $uri error=500;", "`error=403`"),
        ("auth_jwt x; auth_jwt_key_file k; auth_jwt_require 1;", "begins with a variable"),
        ("auth_jwt_type jwe;", "signed"),
        ("auth_require error=404;", "names no value"),
        ("auth_require $uri error=200;", "400 to 599"),
    ] {
        let (code, text) = Proxy::nginx(&conf("", server)).check();
        assert!(code != 0 && text.contains(told), "{server}: {text}");
    }
}

/// An example of the page about these words: its n-th block of configuration, with ports and files of the test.
fn example(n: usize, port: u16) -> String {
    let page = include_str!("../../../docs/identity.md");
    let blocks = page.split("\n\n").filter(|part| part.starts_with("    map") && part.contains("server {"));
    let block = blocks.map(str::to_owned).nth(n).unwrap();
    let own = block.replace("listen 80", "listen 127.0.0.1:{port}").replace("/etc/nginx/", "");
    let own = own.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    format!("error_log {{dir}}/error.log info; events {{}} http {{ access_log off; {own} }}")
}

#[test]
fn the_examples_of_the_page_do_what_it_says() {
    let origin = Origin::named("app", "app");
    let running = Proxy::nginx(&example(0, origin.port())).file("keys.json", keys(SECRET)).start();
    get(&running, "/", "").expect_status(401).expect_header("WWW-Authenticate", "Bearer realm=\"members\"");
    let (reader, editor) = (token(&json!({"sub": "me"})), token(&json!({"sub": "me", "role": "editor"})));
    get(&running, "/", &reader).expect_status(200);
    let shown = origin.requests().last().unwrap().header("X-User").map(str::to_owned);
    assert_eq!(shown.as_deref(), Some("me"));
    get(&running, "/edit/", &reader).expect_status(403);
    get(&running, "/edit/", &editor).expect_status(200);
    running.stop();

    let running =
        Proxy::nginx(&example(1, origin.port())).file("users", "root:{PLAIN}b\na:{PLAIN}b\n").start();
    for (user, status) in [("root", 200), ("a", 403)] {
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:b"));
        let request = Request::get("/admin/").header("Authorization", &format!("Basic {basic}"));
        Client::connect(&running).request(&request).expect_status(status);
    }
    running.stop();
}
