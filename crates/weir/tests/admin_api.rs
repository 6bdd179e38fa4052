//! The admin API (`weir run --admin`): who is let in, what is shown, changes that are checked, in force at once, and taken back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use weir_testkit::{
    Certificate, Client, Io, Load, Origin, Port, Proxy, Running, TlsOptions, both_drivers, eventually,
};

const READER: &str = "reader-secret-token";
const OPERATOR: &str = "operator-secret-token";
const OWNER: &str = "owner-secret-token-1";

/// Whatever is in force.
const ANY: &str = "If-Match: *\r\n";

/// The status, the fields and the body of an answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text);
        self
    }
}

fn sent(mut stream: impl Read + Write, request: &[u8]) -> Answer {
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), text: body.to_owned() }
}

fn exchange(stream: impl Read + Write, line: &str, fields: &str, body: &str) -> Answer {
    let length = body.len();
    let request =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
    sent(stream, request.as_bytes())
}

/// Over the unix socket, as the user that Weir runs as.
#[track_caller]
fn ask(dir: &Path, line: &str, fields: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    exchange(UnixStream::connect(dir.join("admin.sock")).unwrap(), line, fields, &body)
}

#[track_caller]
fn get(dir: &Path, path: &str) -> Answer {
    ask(dir, &format!("GET {path}"), "", &Value::Null)
}

/// A site whose only route goes to a pool of one origin.
fn native(origin: &Origin) -> String {
    format!(
        "listeners: ['127.0.0.1:{{port}}']\nsites: [{{name: shop, names: [shop], routes: [{{matching: /, action: {{proxy: app}}}}]}}]\n\
         pools: {{app: {{endpoints: ['{origin}']}}}}\n"
    )
}

fn nginx(origin: &Origin) -> String {
    format!(
        "events {{}} http {{ access_log off; upstream app {{ server {origin}; }} \
         server {{ listen 127.0.0.1:{{port}}; server_name shop; location / {{ proxy_pass http://app; }} }} }}"
    )
}

fn haproxy(origin: &Origin) -> String {
    format!(
        "defaults\n mode http\n timeout client 10s\n timeout connect 5s\n timeout server 10s\n\
         frontend web\n bind 127.0.0.1:{{port}}\n default_backend app\nbackend app\n server s1 {origin}\n"
    )
}

fn with_door(proxy: Proxy, io: Io) -> Proxy {
    proxy.io(io).argument("--admin").argument("unix:admin.sock")
}

fn start(io: Io, text: &str) -> Running {
    with_door(Proxy::native(text), io).start()
}

fn pool_of(origin: &Origin) -> Value {
    json!({ "endpoints": [origin.to_string()] })
}

both_drivers! {
    fn objects_are_changed_under_traffic_and_taken_back(io: Io) {
        let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
        let mut proxy = start(io, &native(&one));
        let dir = proxy.dir().to_owned();
        let mut client = Client::connect(&proxy);
        client.get("/").expect_body("one");
        let tag = get(&dir, "/v1/config/pools/app").expect(200).head;
        assert!(tag.contains("ETag: \"1\""), "{tag}");
        ask(&dir, "GET /v1/config", "If-None-Match: \"1\"\r\n", &Value::Null).expect(304);

        // It is only looked at.
        let dry = ask(&dir, "PUT /v1/config/pools/app?dry_run=true", "", &pool_of(&other)).expect(200).json();
        assert!(dry["changes"].to_string().contains(&other.to_string()), "{dry}");
        client.get("/").expect_body("one");

        ask(&dir, "PUT /v1/config/pools/app", "", &pool_of(&other)).expect(428);
        let done = ask(&dir, "PUT /v1/config/pools/app", "If-Match: \"1\"\r\n", &pool_of(&other)).expect(200).json();
        assert_eq!(done["version"], 2);
        // The connection goes on, and meets what is new.
        client.get("/").expect_body("other");
        let late = ask(&dir, "PUT /v1/config/pools/app", "If-Match: \"1\"\r\n", &pool_of(&one)).expect(412);
        assert!(late.head.contains("ETag: \"2\""), "{}", late.head);
        // What is there already is no change.
        let same = ask(&dir, "PUT /v1/config/pools/app", ANY, &pool_of(&other)).expect(200).json();
        assert_eq!((&same["version"], &same["changes"]), (&json!(2), &json!([])));

        // The file does not take it back, and the reload says so.
        proxy.reload_same();
        client.get("/").expect_body("other");
        proxy.wait_for_log("pools/app: what the admin API was told holds");
        assert_eq!(get(&dir, "/v1/versions").expect(200).json().as_array().unwrap().len(), 2);
        proxy.reload(&(native(&one) + "process: {shutdown_timeout: 7s}\n"));
        client.get("/").expect_body("other");
        let versions = get(&dir, "/v1/versions").expect(200).json();
        assert_eq!((&versions[0]["version"], &versions[0]["who"]), (&json!(3), &json!("the files")), "{versions}");
        assert_eq!(versions[1]["decided_here"], json!(["pools/app"]));

        let diff = get(&dir, "/v1/versions/1/diff?to=2").expect(200).json();
        assert!(diff["changes"].to_string().contains(&other.to_string()), "{diff}");
        assert!(get(&dir, "/v1/versions/1/config").expect(200).text.contains(&one.to_string()));
        ask(&dir, "POST /v1/versions/1/rollback", ANY, &Value::Null).expect(200);
        client.get("/").expect_body("one");
        assert_eq!(get(&dir, "/v1/versions/4").expect(200).json()["decided_here"], json!([]));
        let audit = get(&dir, "/v1/audit").expect(200).text;
        assert!(audit.contains("POST /v1/versions/1/rollback") && audit.contains("version 4 is in force"), "{audit}");
        proxy.wait_for_log("admin: uid:0: PUT /v1/config/pools/app: version 2 is in force");
    }

    fn listeners_sites_and_what_is_inside_of_them_are_made_and_taken_away(io: Io) {
        let origin = Origin::named("o", "o");
        let proxy = start(io, &native(&origin));
        let (dir, port) = (proxy.dir().to_owned(), Port::lease());
        let site = json!({ "names": ["new"], "program": [{ "respond": { "status": 200, "body": { "text": "new" } } }] });
        ask(&dir, "PUT /v1/config/sites/new", "If-None-Match: *\r\n", &site).expect(201);
        ask(&dir, "PUT /v1/config/sites/new", "If-None-Match: *\r\n", &site).expect(412);
        let listener = json!({ "address": format!("127.0.0.1:{port}"), "sites": ["new"] });
        ask(&dir, "PUT /v1/config/listeners/extra", ANY, &listener).expect(201);
        Client::connect(&port).get("/").expect_body("new");
        let patch = json!({ "program": [{ "respond": { "status": 403 } }] });
        ask(&dir, "PATCH /v1/config/sites/new", &(ANY.to_owned() + "Content-Type: application/merge-patch+json\r\n"), &patch).expect(200);
        Client::connect(&port).get("/").expect_status(403);
        // A route is added, changed and taken away where it stands.
        let route = json!({ "matching": "/more", "program": [{ "respond": { "status": 204 } }] });
        ask(&dir, "POST /v1/config/sites/shop/routes", ANY, &route).expect(201);
        Client::connect(&proxy).get("/more").expect_status(204);
        Client::connect(&proxy).get("/").expect_body("o");
        ask(&dir, "PUT /v1/config/sites/shop/routes/1/program/0/respond/status", ANY, &json!(404)).expect(200);
        Client::connect(&proxy).get("/more").expect_status(404);
        assert_eq!(get(&dir, "/v1/config/sites/shop/routes/1/matching").expect(200).json(), json!("/more"));
        ask(&dir, "DELETE /v1/config/sites/shop/routes/1", ANY, &Value::Null).expect(200);
        Client::connect(&proxy).get("/more").expect_body("o");
        // What something refers to cannot go.
        let refused = ask(&dir, "DELETE /v1/config/sites/new", ANY, &Value::Null).expect(422).json();
        assert!(refused["diagnostics"].to_string().contains("there is no site `new`"), "{refused}");
        ask(&dir, "DELETE /v1/config/listeners/extra", ANY, &Value::Null).expect(200);
        ask(&dir, "DELETE /v1/config/sites/new", ANY, &Value::Null).expect(200);
        eventually("nobody listens there", || TcpStream::connect(("127.0.0.1", port.number())).is_err().then_some(()));
        get(&dir, "/v1/config/sites/new").expect(404);
    }

    fn endpoints_are_changed_in_the_layer_of_changes(io: Io) {
        let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
        let proxy = start(io, &native(&one));
        let dir = proxy.dir().to_owned();
        let endpoints = json!([{ "name": "b", "address": other.to_string() }]);
        ask(&dir, "PUT /v1/pools/app/endpoints", "", &endpoints).expect(200);
        Client::connect(&proxy).get("/").expect_body("other");
        ask(&dir, "PATCH /v1/pools/app/endpoints/b", "", &json!({ "weight": 7, "state": "drain" })).expect(200);
        let shown = get(&dir, "/v1/pools/app/endpoints").expect(200).json();
        assert_eq!((&shown[0]["name"], &shown[0]["weight"], &shown[0]["asked"]), (&json!("b"), &json!(7), &json!("drain")), "{shown}");
        ask(&dir, "PATCH /v1/pools/app/endpoints/b", "", &json!({ "weight": null, "state": "as_configured" })).expect(200);
        assert_eq!(get(&dir, "/v1/pools/app/endpoints/b").expect(200).json()["weight"], 1);
        ask(&dir, "PATCH /v1/pools/app/endpoints/nobody", "", &json!({ "weight": 7 })).expect(404);
        ask(&dir, "PATCH /v1/pools/app/endpoints/b", "", &json!({ "weigth": 7 })).expect(422);
        ask(&dir, "PUT /v1/pools/app/endpoints", "", &json!([{ "name": "b", "address": "nonsense" }])).expect(422);
        ask(&dir, "DELETE /v1/pools/app/endpoints", "", &Value::Null).expect(200);
        Client::connect(&proxy).get("/").expect_body("one");
        assert_eq!(get(&dir, "/v1/pools").expect(200).json()[0]["name"], "app");
        assert!(get(&dir, "/v1/status?requests=5").expect(200).json()["sites"].to_string().contains("shop"));
    }

    fn no_request_fails_while_the_configuration_changes(io: Io) {
        let origins = [Origin::named("a", "x"), Origin::named("b", "x")];
        let proxy = start(io, &native(&origins[0]));
        let dir = proxy.dir().to_owned();
        let load = Load::to(&proxy).connections(8).start();
        let port = Port::lease();
        for turn in 0..20 {
            load.wait_for_more(50);
            ask(&dir, "PUT /v1/config/pools/app", ANY, &pool_of(&origins[turn % 2])).expect(200);
            match turn % 4 {
                0 => drop(ask(&dir, "PUT /v1/config/listeners/x", ANY, &json!({ "address": format!("127.0.0.1:{port}") })).expect(201)),
                2 => drop(ask(&dir, "DELETE /v1/config/listeners/x", ANY, &Value::Null).expect(200)),
                _ => {}
            }
        }
        ask(&dir, "POST /v1/versions/1/rollback", ANY, &Value::Null).expect(200);
        load.wait_for_more(200);
        load.finish().expect_no_failure();
    }

    fn the_whole_document_is_replaced_and_given_back(io: Io) {
        let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
        let proxy = start(io, &native(&one));
        let dir = proxy.dir().to_owned();
        let yaml = ask(&dir, "GET /v1/config", "Accept: application/yaml\r\n", &Value::Null).expect(200);
        assert!(yaml.text.contains("\npools:\n"), "{}", yaml.text);
        let text = yaml.text.replace(&one.to_string(), &other.to_string());
        let stream = || UnixStream::connect(dir.join("admin.sock")).unwrap();
        exchange(stream(), "PUT /v1/config", "If-Match: \"1\"\r\nContent-Type: application/yaml\r\n", &text).expect(200);
        Client::connect(&proxy).get("/").expect_body("other");
        // Objects are changed over it.
        ask(&dir, "PATCH /v1/config/pools/app/endpoints/0", ANY, &json!({ "weight": 3 })).expect(200);
        ask(&dir, "PATCH /v1/config", ANY, &json!({ "process": { "shutdown_timeout": "7s" } })).expect(200);
        assert_eq!(get(&dir, "/v1/config/pools/app/endpoints/0/weight").expect(200).json(), json!(3));
        assert_eq!(get(&dir, "/v1/config/process/shutdown_timeout").expect(200).json(), json!("7s"));
        ask(&dir, "DELETE /v1/config", ANY, &Value::Null).expect(200);
        Client::connect(&proxy).get("/").expect_body("one");
        get(&dir, "/v1/config/process/shutdown_timeout").expect(404);
    }
}

#[test]
fn configurations_of_other_languages_are_changed_too() {
    let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
    for proxy in [Proxy::nginx(&nginx(&one)), Proxy::haproxy(&haproxy(&one))] {
        let mut proxy = with_door(proxy, Io::default()).start();
        let dir = proxy.dir().to_owned();
        ask(&dir, "PUT /v1/config/pools/app", ANY, &pool_of(&other)).expect(200);
        Client::connect(&proxy).get("/").expect_body("other");
        proxy.reload_same();
        Client::connect(&proxy).get("/").expect_body("other");
        ask(&dir, "DELETE /v1/config", ANY, &Value::Null).expect(200);
        Client::connect(&proxy).get("/").expect_body("one");
    }
    // Where the command line has no flag for it, variables say it.
    let proxy =
        Proxy::nginx(&nginx(&one)).foreign_flags().environment("WEIR_ADMIN", "unix:admin.sock").start();
    assert_eq!(get(proxy.dir(), "/v1").expect(200).json()["you"]["role"], "configure");
}

#[test]
fn a_file_that_is_edited_and_not_reloaded_plays_no_part() {
    let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
    let mut proxy = start(Io::default(), &native(&one));
    let dir = proxy.dir().to_owned();
    proxy.rewrite("half of a new configuration");
    ask(&dir, "PUT /v1/config/pools/app", ANY, &pool_of(&other)).expect(200);
    Client::connect(&proxy).get("/").expect_body("other");
}

#[test]
fn mistakes_change_nothing_and_are_told_with_their_places() {
    let origin = Origin::named("o", "o");
    let proxy = start(Io::default(), &native(&origin));
    let dir = proxy.dir().to_owned();
    let wrong = json!({ "endpoints": [{ "adress": "1.2.3.4:80" }] });
    let told = ask(&dir, "PUT /v1/config/pools/app", ANY, &wrong).expect(422);
    assert!(told.head.contains("application/problem+json"), "{}", told.head);
    let told = told.json();
    let found = told["diagnostics"].as_array().unwrap();
    let unknown = found.iter().find(|one| one["code"] == "native::unknown-field").unwrap();
    assert_eq!(unknown["pointer"], "/pools/0/endpoints/0/adress", "{told}");
    assert_eq!(unknown["help"], json!(["did you mean `address`?"]), "{told}");
    let put = |path: &str, body: Value| ask(&dir, &format!("PUT {path}"), ANY, &body);
    put("/v1/config/pools/app", json!({ "name": "other", "endpoints": [] })).expect(422);
    put("/v1/config/sites/shop/name", json!("other")).expect(422);
    put("/v1/config/pools/app", json!([1])).expect(422);
    put("/v1/config/pools/app/nothing/here", json!(1)).expect(404);
    put("/v1/config", json!([])).expect(422);
    put("/v1/config", json!({})).expect(409);
    put("/v1/config/secrets/app", json!({})).expect(404);
    put("/v1/config/pools/%ff", json!({})).expect(404);
    put("/v1/versions/1", json!({})).expect(405);
    ask(&dir, "PUT /v1/config/pools/app", &(ANY.to_owned() + "Content-Type: text/html\r\n"), &json!({}))
        .expect(415);
    ask(&dir, "PATCH /v1/config/pools/nobody", ANY, &json!({})).expect(404);
    ask(&dir, "POST /v1/config/pools/app", ANY, &json!({})).expect(405);
    ask(&dir, "POST /v1/config/sites/shop/name", ANY, &json!({})).expect(422);
    ask(&dir, "PUT /v1/config/pools/app?dryrun=true", ANY, &pool_of(&origin)).expect(400);
    ask(&dir, "DELETE /v1/config?dry_run=maybe", ANY, &Value::Null).expect(400);
    ask(&dir, "POST /v1/versions/99/rollback", ANY, &Value::Null).expect(404);
    // A port that somebody else has.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = json!({ "address": taken.local_addr().unwrap().to_string() });
    let refused = put("/v1/config/listeners/taken", listener).expect(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("in use"), "{refused}");
    Client::connect(&proxy).get("/").expect_body("o");
    assert_eq!(get(&dir, "/v1/versions").json().as_array().unwrap().len(), 1);
    get(&dir, "/v1/config/listeners/taken").expect(404);
}

#[test]
fn secrets_are_not_shown_and_survive_being_sent_back() {
    let origin = Origin::named("in", "in");
    let text = haproxy(&origin)
        .replace("default_backend", "http-request auth unless { http_auth(people) }\n default_backend")
        + "userlist people\n user joe insecure-password swordfish-1\n";
    let proxy = with_door(Proxy::haproxy(&text), Io::default()).start();
    let dir = proxy.dir().to_owned();
    let shown = get(&dir, "/v1/config").expect(200);
    assert!(!shown.text.contains("swordfish-1"), "{}", shown.text);
    ask(&dir, "PUT /v1/config", ANY, &shown.json()).expect(200);
    let login = weir_testkit::Request::get("/").header("Authorization", "Basic am9lOnN3b3JkZmlzaC0x");
    Client::connect(&proxy).request(&login).expect_body("in");
    for path in ["/v1/versions", "/v1/versions/1/config", "/v1/audit"] {
        assert!(!get(&dir, path).expect(200).text.contains("swordfish-1"), "{path}");
    }
    assert!(!proxy.logs().contains("swordfish-1"));
}

#[test]
fn versions_and_changes_outlive_the_process() {
    let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let proxy = with_door(Proxy::native(&native(&one)), Io::default())
        .argument("--admin-versions")
        .argument(&path("versions"))
        .argument("--admin-log")
        .argument(&path("audit.log"));
    let running = proxy.start();
    ask(running.dir(), "PUT /v1/config/pools/app", ANY, &pool_of(&other)).expect(200);
    // Not even time to say goodbye.
    drop(running);
    let running = proxy.start();
    Client::connect(&running).get("/").expect_body("other");
    running.wait_for_log("pools/app: what the admin API was told holds");
    let versions = get(running.dir(), "/v1/versions").expect(200).json();
    assert!(
        versions.as_array().unwrap().iter().any(|one| one["version"] == 2 && one["who"] == "uid:0"),
        "{versions}"
    );
    ask(running.dir(), "POST /v1/versions/1/rollback", ANY, &Value::Null).expect(200);
    Client::connect(&running).get("/").expect_body("one");
    let log = std::fs::read_to_string(path("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().any(|line| line["what"] == "PUT /v1/config/pools/app" && line["who"] == "uid:0"),
        "{log}"
    );
    for name in ["versions", "audit.log"] {
        assert_eq!(std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    drop(running);
    std::fs::set_permissions(path("versions"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let printed = proxy.try_start().err().unwrap();
    assert!(printed.contains("mode 600"), "{printed}");
}

/// A proxy with a door on TCP, and what asks there.
struct Guarded {
    proxy: Running,
    port: Port,
    tokens: tempfile::TempDir,
}

impl Guarded {
    fn try_start(origin: &Origin, mode: u32) -> Result<Self, String> {
        let (tokens, port) = (tempfile::tempdir().unwrap(), Port::lease());
        let path = tokens.path().join("tokens");
        write_tokens(
            &path,
            &format!("read eve {READER}\noperate bob {OPERATOR}\nconfigure joe {OWNER}\n"),
            mode,
        );
        let proxy = Proxy::native(&native(origin)).argument("--admin").argument(&format!("127.0.0.1:{port}"));
        let proxy = proxy.argument("--admin-tokens").argument(&path.display().to_string()).try_start()?;
        Ok(Self { proxy, port, tokens })
    }

    fn stream(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port.number())).unwrap()
    }

    #[track_caller]
    fn send(&self, line: &str, fields: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        exchange(self.stream(), line, fields, &body)
    }
}

fn write_tokens(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn with(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn tokens_have_roles_and_strangers_are_kept_out() {
    let origin = Origin::named("o", "o");
    let printed = Guarded::try_start(&origin, 0o644).err().unwrap();
    assert!(printed.contains("others may read"), "{printed}");
    let guarded = Guarded::try_start(&origin, 0o600).unwrap();
    let send = |line: &str, fields: &str, body: &Value| guarded.send(line, fields, body);
    let unknown = send("GET /v1/status", "", &Value::Null).expect(401);
    assert!(unknown.head.contains("WWW-Authenticate: Bearer"), "{}", unknown.head);
    send("GET /v1/status", &with("wrong-secret-token-1"), &Value::Null).expect(401);
    send("GET /v1/status", "Authorization: Basic eHh4\r\n", &Value::Null).expect(401);
    // No secret is taken from where logs show it.
    send(&format!("GET /v1/status?token={READER}"), "", &Value::Null).expect(401);
    send("GET /v1/status", &with(READER), &Value::Null).expect(200);
    let weight = json!({ "weight": 2 });
    let endpoint = format!("PATCH /v1/pools/app/endpoints/{origin}");
    send(&endpoint, &with(READER), &weight).expect(403);
    send(&endpoint, &with(OPERATOR), &weight).expect(200);
    send("DELETE /v1/config/pools/app", &(with(OPERATOR) + ANY), &Value::Null).expect(403);
    send("PUT /v1/config/pools/app?dry_run=1", &with(OPERATOR), &pool_of(&origin)).expect(403);
    send("DELETE /v1/config/pools/app", &(with(OWNER) + ANY), &Value::Null).expect(422);
    // A page of another site, and a name that leads here.
    let foreign = with(OWNER) + "Origin: http://evil.example\r\n";
    send("GET /v1/status", &foreign, &Value::Null).expect(403);
    send("DELETE /v1/config", &(with(OWNER) + ANY + "Sec-Fetch-Site: cross-site\r\n"), &Value::Null)
        .expect(403);
    send("GET /v1/status", &(with(READER) + "Origin: http://localhost\r\n"), &Value::Null).expect(200);
    sent(guarded.stream(), b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n").expect(421);
    // A token that is taken away is known no more.
    write_tokens(&guarded.tokens.path().join("tokens"), &format!("configure joe {OWNER}\n"), 0o600);
    send("GET /v1/status", &with(READER), &Value::Null).expect(401);
    send("GET /v1/status", &with(OWNER), &Value::Null).expect(200);
    // Who goes on guessing is not heard, not even with a right one, and no token is in the logs.
    let mut last = 0;
    for _ in 0..12 {
        last = send("GET /v1/status", &with("guess-guess-guess-1"), &Value::Null).status;
    }
    assert_eq!(last, 429);
    send("GET /v1/status", &with(OWNER), &Value::Null).expect(429);
    guarded.proxy.wait_for_log("bob: PATCH /v1/pools/app/endpoints/");
    guarded.proxy.wait_for_log("failed so often that nobody from there is heard");
    let logs = guarded.proxy.logs();
    assert!(![READER, OPERATOR, OWNER].iter().any(|token| logs.contains(token)), "{logs}");
}

#[test]
fn what_breaks_the_rules_gets_a_clear_answer_and_holds_nobody_up() {
    let origin = Origin::named("o", "o");
    let guarded = Guarded::try_start(&origin, 0o600).unwrap();
    let raw = |bytes: &[u8]| sent(guarded.stream(), bytes);
    let head = format!("Host: localhost\r\n{}", with(OWNER));
    raw(b"NONSENSE\r\n\r\n").expect(400);
    raw(b"GET /v1 HTTP/1.1\r\n\r\n").expect(400);
    raw(format!("PUT /v1/config HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").as_bytes())
        .expect(411);
    raw(format!("PUT /v1/config HTTP/1.1\r\n{head}Content-Length: 99999999\r\n\r\n").as_bytes()).expect(413);
    let long = format!("GET /v1 HTTP/1.1\r\n{head}X: {}\r\n\r\n", "x".repeat(20_000));
    let refused = raw(long.as_bytes());
    assert!(refused.status == 431 && refused.head.contains("problem+json"), "{refused:?}");
    let put = |body: &str| guarded_put(&guarded, body).status;
    assert_eq!(put("{"), 400);
    assert_eq!(put("a: 1"), 400);
    assert_eq!(put("{\"a\": 1, \"a\": 2}"), 400);
    assert_eq!(put(&"[".repeat(100_000)), 400);
    assert_eq!(put("\u{0}"), 400);
    // Many who say nothing are let go, and whoever waits is heard then.
    let silent: Vec<TcpStream> = (0..16).map(|_| guarded.stream()).collect();
    guarded.send("GET /v1", &with(OWNER), &Value::Null).expect(200);
    drop(silent);
    Client::connect(&guarded.proxy).get("/").expect_body("o");
}

fn guarded_put(guarded: &Guarded, body: &str) -> Answer {
    exchange(guarded.stream(), "PUT /v1/config", &(with(OWNER) + ANY), body)
}

#[test]
fn only_this_machine_is_answered() {
    let origin = Origin::named("o", "o");
    for (address, told) in [
        ("0.0.0.0:9", "not of this machine alone"),
        ("127.0.0.1:9", "--admin-tokens"),
        ("nowhere", "neither"),
    ] {
        let printed =
            Proxy::native(&native(&origin)).argument("--admin").argument(address).try_start().err().unwrap();
        assert!(printed.contains(told), "{printed}");
    }
    // A page whose name leads to a forwarded port is kept out although the port is not.
    let local = with_door(Proxy::native(&native(&origin)), Io::default()).start();
    let stream = || UnixStream::connect(local.dir().join("admin.sock")).unwrap();
    sent(
        stream(),
        b"GET /v1/config HTTP/1.1\r\nHost: evil.example:8000\r\nOrigin: http://evil.example:8000\r\n\r\n",
    )
    .expect(421);
    sent(stream(), b"GET /v1/config HTTP/1.1\r\nHost: localhost:8000\r\n\r\n").expect(200);
    // One socket is one process's; what a process that was killed left behind is taken.
    let proxy = with_door(Proxy::native(&native(&origin)), Io::default());
    let running = proxy.start();
    let socket = running.dir().join("admin.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let second =
        Proxy::native(&native(&origin)).argument("--admin").argument(&format!("unix:{}", socket.display()));
    let printed = second.try_start().err().unwrap();
    assert!(printed.contains("cannot be bound"), "{printed}");
    get(running.dir(), "/v1").expect(200);
}

/// A site of Weir in front of the socket: TLS, client certificates, roles by certificate.
#[test]
fn client_certificates_open_the_door_through_a_site() {
    let origin = Origin::named("o", "o");
    let (server, alice) = (Certificate::p256(&["localhost"]), Certificate::p256(&["alice"]));
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    write_tokens(&tokens, &format!("operate alice {OPERATOR}\n"), 0o600);
    let text = format!(
        "events {{}} http {{ access_log off; upstream app {{ server {origin}; }} map $ssl_client_s_dn $who {{ default ''; ~alice 'Bearer {OPERATOR}'; }} \
         server {{ listen 127.0.0.1:{{port}} ssl; ssl_certificate {{dir}}/s.crt; ssl_certificate_key {{dir}}/s.key; \
           ssl_client_certificate {{dir}}/alice.crt; ssl_verify_client on; \
           location /v1 {{ proxy_pass http://unix:{{dir}}/admin.sock; proxy_set_header Host $host; proxy_set_header Authorization $who; }} }} \
         server {{ listen 127.0.0.1:{{port2}}; location / {{ proxy_pass http://app; }} \
           location /v1 {{ proxy_pass http://unix:{{dir}}/admin.sock; }} }} }}"
    );
    let proxy = with_door(Proxy::nginx(&text), Io::default())
        .certificate("s", &server)
        .certificate("alice", &alice)
        .argument("--admin-tokens")
        .argument(&tokens.display().to_string())
        .start();
    let known = TlsOptions::trusting(&server).identity(&alice);
    let mut client = Client::tls(proxy.port_of("port"), &known);
    let you = client.get("/v1").expect_status(200);
    assert!(you.text().contains("\"alice\""), "{}", you.text());
    client.get("/v1/pools").expect_status(200);
    Client::tls(proxy.port_of("port"), &TlsOptions::trusting(&server)).get("/v1").expect_status(400);
    // What a site of ours carries is not trusted for being ours.
    Client::connect(proxy.port_of("port2")).get("/v1").expect_status(401);
}

/// Root keeps the data plane apart: root is let in, and changes the configuration; nobody else is spoken with.
#[test]
fn where_root_keeps_the_data_plane_apart_root_configures() {
    let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
    let text = |origin: &Origin| format!("user nobody nogroup; {}", nginx(origin));
    let proxy = with_door(Proxy::nginx(&text(&one)), Io::default()).start();
    let dir = proxy.dir().to_owned();
    let mut client = Client::connect(&proxy);
    client.get("/").expect_body("one");
    ask(&dir, "PUT /v1/config/pools/app", ANY, &pool_of(&other)).expect(200);
    client.get("/").expect_body("other");
    get(&dir, "/v1/status").expect(501);
    ask(&dir, "POST /v1/versions/1/rollback", ANY, &Value::Null).expect(200);
    client.get("/").expect_body("one");
    let printed =
        Proxy::nginx(&text(&one)).argument("--admin").argument("127.0.0.1:9").try_start().err().unwrap();
    assert!(printed.contains("only root is let in"), "{printed}");
}

/// Its page is served beside the API, changes endpoints for whoever may, and shows versions.
#[test]
fn the_dashboard_is_beside_it() {
    let (one, other) = (Origin::named("one", "one"), Origin::named("other", "other"));
    let guarded = Guarded::try_start(&one, 0o600).unwrap();
    let send = |line: &str, fields: &str, body: &Value| guarded.send(line, fields, body);
    send("GET /dashboard/", "", &Value::Null).expect(401);
    let page = send("GET /dashboard/", &with(READER), &Value::Null).expect(200);
    assert!(page.head.contains("Content-Security-Policy: default-src 'none'"), "{}", page.head);
    let read = send("GET /dashboard/status.json", &with(READER), &Value::Null).expect(200).json();
    assert_eq!((&read["write"], &read["api"]["configure"]), (&json!(false), &json!(false)));
    let drain = json!({ "pool": "app", "endpoint": one.to_string(), "do": "drain" });
    let mark = "X-Weir-Dashboard: 1\r\n";
    send("POST /dashboard/change", &(with(READER) + mark), &drain).expect(403);
    send("POST /dashboard/change", &with(OPERATOR), &drain).expect(403);
    send("POST /dashboard/change", &(with(OPERATOR) + mark), &drain).expect(200);
    guarded.proxy.wait_for_log("bob: POST /dashboard/change: status 200 to {");
    send("PUT /v1/config/pools/app", &(with(OWNER) + ANY), &pool_of(&other)).expect(200);
    let owned = send("GET /dashboard/status.json", &with(OWNER), &Value::Null).expect(200).json();
    assert_eq!(owned["api"], json!({ "path": "/v1", "configure": true, "version": 2 }));

    let modules = weir_testkit::programs::peer("browser").join("node_modules");
    let mut command = std::process::Command::new("node");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages_in_browser/versions.mjs")).arg(modules);
    command.arg(format!("http://127.0.0.1:{}/dashboard/", guarded.port)).arg(OWNER);
    command.args(std::env::var_os("WEIR_PICTURES"));
    let outcome = weir_testkit::programs::run_for(command, std::time::Duration::from_secs(120));
    let (code, said) = outcome.expect("`cargo xtask deps` installs node and what it runs");
    assert_eq!(code, 0, "{said}");
}

/// Of several who change the same version one comes through; those who take whatever is in force all do.
#[test]
fn changes_at_the_same_time_come_one_after_another() {
    let origin = Origin::named("o", "o");
    let proxy = start(Io::default(), &native(&origin));
    let dir = proxy.dir().to_owned();
    let at_once = |condition: &'static str| -> Vec<u16> {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let dir = dir.clone();
                let pool = json!({ "endpoints": [format!("127.0.0.1:{}", 1000 + number)] });
                std::thread::spawn(move || {
                    ask(&dir, &format!("PUT /v1/config/pools/p{number}"), condition, &pool).status
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    };
    let statuses = at_once("If-Match: \"1\"\r\n");
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 7, "{statuses:?}");
    for _ in 0..8 {
        at_once(ANY);
    }
    assert_eq!(get(&dir, "/v1/config/pools").expect(200).json().as_array().unwrap().len(), 9);
    Client::connect(&proxy).get("/").expect_body("o");
}

/// The example of docs/admin.md.
#[test]
fn the_example_of_the_page_works() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md")).unwrap();
    let (_, rest) = page.split_once("```sh\n").unwrap();
    let (commands, _) = rest.split_once("```").unwrap();
    let proxy = start(Io::default(), &native(&Origin::named("o", "o")));
    let socket = proxy.dir().join("admin.sock").display().to_string();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &commands.replace("/run/weir/admin.sock", &socket)]);
    let (code, printed) = weir_testkit::programs::run(shell);
    assert_eq!(code, 0, "{printed}");
    let versions = get(proxy.dir(), "/v1/versions").expect(200).json();
    assert_eq!(versions.as_array().unwrap().len(), 3, "{printed}\n{versions}");
    assert!(printed.contains("ip_hash"), "{printed}");
}

#[test]
fn the_description_names_what_there_is() {
    let proxy = start(Io::default(), &native(&Origin::named("o", "o")));
    let described = get(proxy.dir(), "/v1/openapi.json").expect(200).json();
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    for (path, item) in paths.iter().filter(|(path, item)| item["get"].is_object() && !path.contains('{')) {
        let answer = get(proxy.dir(), path).expect(200);
        assert!(item["get"]["responses"]["200"].is_object(), "{path}");
        let _ = answer.json();
    }
    for link in get(proxy.dir(), "/v1").json()["links"].as_array().unwrap() {
        assert!(paths.contains_key(link.as_str().unwrap()), "{link}");
    }
}
