//! Passwords: their forms, what their verification costs others, and what is said of those that are wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::time::{Duration, Instant};
use weir_testkit::{Client, Io, Origin, Proxy, Request, Running, both_drivers, programs};

/// bcrypt of cost 9: some hundredths of a second, and many more on a machine with other things to do.
const DEAR: &str = "$2y$09$abcdefghijklmnopqrstuu";

/// What crypt(3) makes of a password.
fn crypt(password: &str, setting: &str) -> String {
    let script = "print crypt($ARGV[0], $ARGV[1])";
    let out = Command::new("perl").args(["-e", script, password, setting]).output().unwrap();
    let stored = String::from_utf8(out.stdout).unwrap();
    assert!(stored.len() > 12, "crypt(3) does not know {setting}");
    stored
}

/// What OpenSSL stores for a password.
fn openssl(form: &str, password: &str) -> String {
    let out = Command::new("openssl").args(["passwd", form, password]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// A request with these credentials.
fn request(target: &str, user: &str, password: &[u8]) -> Request {
    let text = [user.as_bytes(), b":", password].concat();
    Request::get(target).header("Authorization", &format!("Basic {}", base64(&text)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at > group.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

fn nginx(io: Io, users: &str) -> Proxy {
    Proxy::nginx(
        "user root; worker_processes 1; error_log {dir}/error.log info; events {} http { access_log off;
         server { listen 127.0.0.1:{port}; server_name www; location / { return 200 here; }
         location /private { auth_basic r; auth_basic_user_file {dir}/users; alias {dir}/html; index i; }
         location /gone { auth_basic r; auth_basic_user_file {dir}/none; alias {dir}/html; index i; }
         location /folder { auth_basic r; auth_basic_user_file {dir}/html; alias {dir}/html; index i; } } }",
    )
    .file("users", users)
    .file("html/i", "inside")
    .io(io)
}

fn status(proxy: &Running, user: &str, password: &[u8]) -> u16 {
    Client::connect(proxy).request(&request("/private/", user, password)).status
}

#[test]
fn forms_are_those_of_nginx() {
    let forms = [
        "{PLAIN}secret".to_owned(),
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(),
        openssl("-apr1", "secret"),
        openssl("-1", "secret"),
        openssl("-5", "secret"),
        openssl("-6", "secret"),
        crypt("secret", "$2y$05$abcdefghijklmnopqrstuu"),
        crypt("secret", "ab"),
        crypt("secret", "_J9..rasm"),
        crypt("secret", "$sha1$25$wnUR8T1U$"),
        // What Debian's passwd(1) and mkpasswd(1) make, and the cheapest of its kind.
        crypt("secret", "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$"),
        crypt("secret", "$y$j75$....$"),
    ];
    let users: String = forms.iter().enumerate().map(|(at, form)| format!("u{at}:{form}\n")).collect();
    let (ours, theirs) = (nginx(Io::Auto, &users).start(), nginx(Io::Auto, &users).by_rival().start());
    for (at, form) in forms.iter().enumerate() {
        for proxy in [&ours, &theirs] {
            let user = format!("u{at}");
            assert_eq!(status(proxy, &user, b"secret"), 200, "{form}");
            assert_eq!(status(proxy, &user, b"secret"), 200, "{form}, and it is remembered");
            assert_eq!(status(proxy, &user, b"Secret"), 401, "{form}");
            assert_eq!(status(proxy, "nobody", b"secret"), 401, "{form}");
        }
    }
    // As long as crypt(3) allows, and longer.
    let users = format!("long:{}\n", crypt(&"x".repeat(511), "$6$abc"));
    let (ours, theirs) = (nginx(Io::Auto, &users).start(), nginx(Io::Auto, &users).by_rival().start());
    for proxy in [&ours, &theirs] {
        assert_eq!(status(proxy, "long", &[b'x'; 511]), 200);
        assert_eq!(status(proxy, "long", &[b'x'; 512]), 401);
        assert_eq!(status(proxy, "long", &[b'x'; 4000]), 401);
    }
}

both_drivers! {
    fn others_are_served_while_hashes_run(io: Io) {
        let users = format!("ann:{}\n", crypt("secret", DEAR));
        let proxy = nginx(io, &users).start();
        // Each guess has a hash of its own.
        let mut guessing: Vec<Client> = (0..8)
            .map(|at| {
                let mut client = Client::connect(&proxy);
                client.send(request("/private/", "ann", format!("guess {at}").as_bytes()).bytes());
                client
            })
            .collect();
        let mut other = Client::connect(&proxy);
        for _ in 0..20 {
            other.get("/").expect_status(200).expect_body("here");
        }
        // All of them were served before the last hash was done.
        guessing[7].expect_silence(Duration::from_millis(1));
        for client in &mut guessing {
            client.read().expect_status(401);
        }
    }

    fn a_name_that_does_not_exist_costs_the_same(io: Io) {
        let users = format!("ann:{}\n", crypt("secret", DEAR));
        let proxy = nginx(io, &users).start();
        let took = |user: &str, password: &[u8]| {
            let began = Instant::now();
            assert_eq!(status(&proxy, user, password), 401);
            began.elapsed()
        };
        // The least time is that of a hash; the most depends on the machine.
        let known = took("ann", b"wrong");
        for user in ["bob", "eve", "zoe"] {
            let unknown = took(user, b"secret");
            assert!(unknown > known / 8, "{user}: {unknown:?}, and {known:?} for a user that exists");
        }
        assert_eq!(status(&proxy, "ann", b"secret"), 200);
    }

    fn a_long_password_is_no_work(io: Io) {
        let users = format!("ann:{}\n", crypt("secret", "$6$rounds=400000$abc"));
        let proxy = nginx(io, &users).start();
        let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&proxy)).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(request("/private/", "ann", format!("{at}{}", "x".repeat(5000)).as_bytes()).bytes());
        }
        for client in &mut clients {
            client.read().expect_status(401);
        }
    }

    fn a_changed_file_counts_at_once(io: Io) {
        let proxy = nginx(io, &format!("ann:{}\n", openssl("-apr1", "old"))).start();
        assert_eq!(status(&proxy, "ann", b"old"), 200);
        // Of another length, so that it has changed whatever the clock says.
        proxy.write("users", format!("# new\nann:{}\n", openssl("-apr1", "new")));
        assert_eq!(status(&proxy, "ann", b"new"), 200);
        assert_eq!(status(&proxy, "ann", b"old"), 401);
    }

    fn rules_of_haproxy_go_on_where_they_waited(io: Io) {
        let origin = Origin::named("app", "inside");
        let text = format!(
            "userlist u\n  user ann password {}\n  user bob insecure-password plain\ndefaults\n  mode http\n  timeout connect 5s\n  \
             timeout client 30s\n  timeout server 30s\nfrontend www\n  bind 127.0.0.1:{{port}}\n  http-request add-header X-Step 1\n  \
             http-request add-header X-Step 2 if {{ path /both }} {{ http_auth(u) }}\n  http-request set-header X-Known yes if {{ \
             http_auth(u) }}\n  http-request auth realm r unless {{ path /open }} || {{ http_auth(u) }}\n  http-request add-header \
             X-Step 3\n  default_backend app\nbackend app\n  http-request add-header X-Step 4 if {{ http_auth(u) }}\n  server a {origin}\n",
            crypt("secret", "$6$rounds=20000$abc")
        );
        let proxy = Proxy::haproxy(&text).io(io).start();
        let ask = |target: &str, user: &str, password: &str| {
            Client::connect(&proxy).request(&request(target, user, password.as_bytes())).status
        };
        assert_eq!(ask("/both", "ann", "secret"), 200);
        assert_eq!(ask("/", "bob", "plain"), 200);
        assert_eq!(ask("/open", "ann", "wrong"), 200);
        for (user, password) in [("ann", "wrong"), ("bob", "secret"), ("eve", "secret"), ("eve", "plain")] {
            assert_eq!(ask("/", user, password), 401, "{user} {password}");
        }
        let seen = origin.requests();
        let steps = |at: usize| seen[at].all("X-Step").collect::<Vec<_>>();
        assert_eq!(steps(0), ["1", "2", "3", "4"]);
        assert_eq!(seen[0].header("X-Known"), Some("yes"));
        assert_eq!(steps(1), ["1", "3", "4"]);
        assert_eq!(steps(2), ["1", "3"]);
        assert_eq!(seen[2].header("X-Known"), None);
        assert_eq!(seen.len(), 3);
    }
}

both_drivers! {
    fn guesses_at_the_statistics_page_cost_their_own_request_only(io: Io) {
        let text = "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\nfrontend www\n bind 127.0.0.1:{port}\n \
             stats enable\n stats uri /stats\n stats auth ann:secret\n stats auth bob:plain\n http-request return status 200 if { path / }\n";
        let proxy = Proxy::haproxy(&format!("global\n nbthread 1\n{text}")).io(io).start();
        let mut guessing: Vec<Client> = (0..64)
            .map(|at| {
                let mut client = Client::connect(&proxy);
                let guess = format!("{at}{}", "x".repeat(5000));
                client.send(request("/stats", ["ann", "bob", "eve", ""][at % 4], guess.as_bytes()).bytes());
                client
            })
            .collect();
        let mut other = Client::connect(&proxy);
        for _ in 0..20 {
            other.get("/").expect_status(200);
        }
        for client in &mut guessing {
            let refused = client.read().expect_status(401);
            // Whoever exists is refused like who does not.
            assert!(!refused.text().contains("ann"), "{}", refused.text());
        }
        let ask = |user: &str, password: &[u8]| Client::connect(&proxy).request(&request("/stats", user, password)).status;
        for (user, password, expected) in [
            ("ann", &b"secret"[..], 200), ("bob", b"plain", 200), ("ann", b"plain", 401), ("bob", b"secret", 401),
            ("ann", b"secret2", 401), ("ann", b"secre", 401), ("ann", b"", 401), ("", b"", 401), ("ann:secret", b"", 401),
        ] {
            assert_eq!(ask(user, password), expected, "{user}");
        }
        Client::connect(&proxy).get("/stats").expect_status(401).expect_header("WWW-Authenticate", "Basic realm=\"HAProxy Statistics\"");
    }
}

#[test]
fn a_stored_password_that_nobody_can_verify_is_told() {
    let list = |stored: &str| {
        format!(
            "userlist u\n user ann password {stored}\ndefaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
             frontend www\n bind 127.0.0.1:18080\n http-request auth unless {{ http_auth(u) }}\n http-request return status 200\n"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("haproxy.cfg");
    for (stored, told) in [
        ("$argon2id$v=19$m=65536,t=2,p=1$abc$def", Some("a form that is not known here")),
        // Cost 11: a gigabyte for each guess.
        ("$y$jFT$abcd$def", Some("takes more than 64 MB")),
        ("$y$j9T$abcd$def", None),
        ("$6$abc$def", None),
    ] {
        std::fs::write(&path, list(stored)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("check").arg(&path);
        let (code, output) = programs::run(command);
        assert_eq!(code == 0, told.is_none(), "{stored}: {output}");
        assert!(told.is_none_or(|told| output.contains(told) && output.contains("`ann`")), "{output}");
    }
    // In a password file the others go on getting in, and the log names who does not.
    let proxy = nginx(Io::Auto, "eve:$argon2id$v=19$m=65536,t=2,p=1$abc$def\nann:{PLAIN}secret\n").start();
    assert_eq!(status(&proxy, "ann", b"secret"), 200);
    assert_eq!(status(&proxy, "eve", b"secret"), 401);
    proxy.wait_for_file("error.log", "for eve: a form that is not known here");
}

/// A line of an error log without what differs from run to run.
fn told(line: &str, proxy: &Running) -> Option<String> {
    let line =
        line.replace(&proxy.port().to_string(), "PORT").replace(&proxy.dir().display().to_string(), "DIR");
    let (_, rest) = line.split_once(" [")?;
    let (level, rest) = rest.split_once("] ")?;
    let rest = rest.split_once('*')?.1.split_once(' ')?.1;
    Some(format!("[{level}] {rest}"))
}

#[test]
fn refusals_are_told_in_nginx_s_words() {
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(9000));
    let conf = |origin: &Origin| {
        format!(
            "user root; worker_processes 1; error_log {{dir}}/error.log info; events {{}} http {{ access_log off;
             server {{ listen 127.0.0.1:{{port}}; server_name www; root {{dir}}; client_max_body_size 10;
             location /private {{ auth_basic r; auth_basic_user_file {{dir}}/users; }}
             location /gone {{ auth_basic r; auth_basic_user_file {{dir}}/none; }}
             location /deny {{ deny all; }}
             location /either {{ satisfy any; deny all; auth_basic r; auth_basic_user_file {{dir}}/users; }}
             location /cycle {{ rewrite ^ /cycle; }}
             location /around {{ try_files /nothing /around; }}
             location /named {{ error_page 404 = @named; return 404; }}
             location @named {{ recursive_error_pages on; error_page 404 = @named; return 404; }}
             location /app/ {{ proxy_pass http://{origin}/sent/; proxy_buffer_size 4k; proxy_http_version 1.1; }}
             location /dead/ {{ proxy_pass http://127.0.0.1:1/other/; }}
             location /done {{ return 200 done; }} }} }}"
        )
    };
    let users = format!("ann:{}\n", openssl("-apr1", "secret"));
    let lines = |rival: bool| {
        let origin = Origin::script(|c| c.expect("GET /sent/large?x=1").send(&large).until_closed());
        let proxy = Proxy::nginx(&conf(&origin)).file("users", &users);
        let proxy = if rival { proxy.by_rival().start() } else { proxy.start() };
        let ask = |request: Request| Client::connect(&proxy).request(&request.host("www")).status;
        let mut seen = vec![
            ask(Request::get("/private/")),
            ask(request("/private/", "ann", b"wrong")),
            ask(request("/private/", "bob", b"secret")),
            ask(request("/gone/", "ann", b"secret")),
            ask(Request::get("/deny").header("Referer", "http://else/")),
            ask(request("/either", "eve", b"x")),
            ask(Request::get("/cycle")),
            ask(Request::get("/around")),
            ask(Request::get("/named")),
            ask(Request::get("/app/large?x=1")),
            ask(Request::get("/dead/one?y=2")),
        ];
        for body in [
            "Content-Length: 20\r\n\r\n01234567890123456789",
            "Transfer-Encoding: chunked\r\n\r\n14\r\n01234567890123456789\r\n0\r\n\r\n",
        ] {
            let mut client = Client::connect(&proxy);
            client.send(format!("POST /app/ HTTP/1.1\r\nHost: www\r\n{body}"));
            seen.push(client.read().status);
        }
        let _ = origin.take_failures();
        let log = proxy.wait_for_file("error.log", "large chunked body");
        let lines: Vec<String> = log.lines().filter_map(|line| told(line, &proxy)).collect();
        let lines: Vec<String> =
            lines.iter().map(|line| line.replace(&origin.port().to_string(), "ORIGIN")).collect();
        (seen, lines, log)
    };
    let (ours, theirs) = (lines(false), lines(true));
    assert_eq!(ours.0, theirs.0);
    // nginx also tells of connections that it closes, at this level.
    let of_requests = |lines: &[String]| {
        let kept = lines.iter().filter(|line| line.contains("request:") && !line.contains("keepalive"));
        kept.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_requests(&ours.1), of_requests(&theirs.1));
    // fail2ban's own filter finds the guesses in both.
    for (log, name) in [(&ours.2, "ours"), (&theirs.2, "nginx's")] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("error.log");
        std::fs::write(&file, log).unwrap();
        let mut command = Command::new("fail2ban-regex");
        command.arg(&file).arg("/etc/fail2ban/filter.d/nginx-http-auth.conf");
        let (_, found) = programs::run(command);
        assert!(found.contains("Failregex: 3 total"), "{name}: {found}\n{log}");
    }
}
