//! The runtime command line: the same commands to Weir and to Debian's haproxy on the same file, the clients that people use,
//! and what commands do to requests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_admin::cli::{COMMANDS, Status};
use weir_testkit::{
    Certificate, Client, Io, Origin, Proxy, Request, Running, TlsOptions, both_drivers, console,
};

const DEFAULTS: &str = "defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n";

fn file(text: &str) -> Proxy {
    Proxy::haproxy(&format!(
        "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n{DEFAULTS}{text}"
    ))
}

/// All that is answered until the other side ends.
fn ask(proxy: &Running, text: &str) -> String {
    ask_at(&proxy.dir().join("cli.sock"), text)
}

fn ask_at(path: &Path, text: &str) -> String {
    console::ask_at(path, text)
}

/// What both answer to a line.
fn agree(proxies: &[Running; 2], line: &str) {
    let [ours, theirs] = proxies;
    let told = |proxy: &Running| {
        let place = proxy.dir().display().to_string();
        // Some of HAProxy's answers lack their last empty line.
        ask(proxy, &format!("{line}\n")).replace(&place, "DIR").trim_end_matches('\n').to_owned()
    };
    assert_eq!(told(ours), told(theirs), "{line}");
}

/// Lines of a table, without columns that tell of times.
fn columns(text: &str, left_out: &[usize]) -> Vec<String> {
    let shown = |line: &str| {
        let words = line.split(' ').enumerate().filter(|(at, _)| !left_out.contains(at));
        words.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(shown).collect()
}

const BACKENDS: &str = "frontend f\n bind 127.0.0.1:{port}\n default_backend b\n\
    backend b\n server s1 127.0.0.1:1 weight 10\n server s2 127.0.0.1:2 weight 20 backup\n\
    backend c\n mode tcp\n server x 127.0.0.1:3 disabled\n";

fn both(io: Io, text: &str) -> [Running; 2] {
    [file(text).io(io).start(), file(text).by_rival().start()]
}

both_drivers! {
    fn commands_answer_as_haproxy_s_do(io: Io) {
        let proxies = both(io, BACKENDS);
        for line in [
            "show backend", "show cli level", "show cli sockets", "show env NOT_SET_ANYWHERE", "get weight b/s1", "get weight b/none", "get weight none/s1",
            "get weight b", "set weight b/s1 300", "set weight b/s1 -4", "set weight b/s1 x", "set weight b/s1", "set weight b/s1 50%", "get weight b/s1",
            "set server b/s1 weight 100%", "get weight b/s1", "disable server b/s1", "enable server b/s1", "disable server none/s1", "set server b/s1",
            "set server b/s1 nonsense", "set server b/s1 state nonsense", "set server b/s1 health nonsense", "set server b/s1 addr",
            "set server b/s1 addr 1.2.3", "set server b/s1 addr 127.0.0.1 port 9", "set server b/s1 addr 127.0.0.9", "set server b/s1 addr 127.0.0.9",
            "set server b/s1 addr 127.0.0.8 port 10", "set server b/s1 fqdn a.test", "set server b/s1 agent up", "set server b/s1 check-port 3",
            "set maxconn global 100", "set maxconn global", "set timeout cli 5", "set timeout cli", "set timeout cli x", "set timeout other", "add server b/s1 127.0.0.1:1",
            "add server b/s4", "add server none/s 127.0.0.1:1", "add server b/s3 127.0.0.1:5", "del server b/s1", "del server b/none", "del server b/s3",
            "user;disable server b/s1", "user;show env", "operator;show cli level;set weight b/s1 1", "show backend;show cli level", "set ssl cert a",
            "commit ssl cert a", "abort ssl cert a", "show ssl cert", "show servers state none", "help get w", "expert-mode", "disable frontend f", "disable frontend f", "enable frontend f", "enable frontend f", "enable frontend", "enable frontend none", "shutdown frontend", "shutdown frontend none",
            "set maxconn server b/s1", "set maxconn server b/none 3", "set rate-limit connections global 10", "set rate-limit sessions global 11",
            "set rate-limit ssl-sessions global 12", "clear counters", "clear counters all", "user;clear counters",
            "set maxconn server b/s1 x", "disable health b/s1", "enable health b/s1", "disable agent b/s1", "enable agent b/s1", "enable health b/none", "shutdown session", "shutdown session 0xabcdef", "show sess 0x1",
            "user;show sess", "operator;shutdown session 0x1", "set severity-output", "set severity-output number;set weight b/s1 -4;set server none/s1 state ready", "set severity-output string;get weight b/none;disable server b/none;get weight b/s1;show backend;get var proc.none",
            "set maxconn frontend", "set maxconn frontend f", "set maxconn frontend f -1", "set maxconn frontend none 3", "set maxconn frontend f 7", "prompt\nshow backend;show cli level\nquit",
        ] {
            agree(&proxies, line);
        }
    }

    fn states_of_servers_are_told_in_haproxy_s_numbers(io: Io) {
        let proxies = both(io, BACKENDS);
        for line in [
            "show cli level", "set weight b/s1 3", "set server b/s1 state drain", "set server b/s1 state maint", "set server b/s1 state ready",
            "set server b/s1 health down", "set server b/s1 health up", "set server b/s2 addr 127.0.0.1 port 7", "disable server b/s2",
        ] {
            let [ours, theirs] = &proxies;
            // Times, and the level of checks that nobody makes, are not compared.
            let told = |proxy: &Running| {
                ask(proxy, &format!("{line}\n"));
                columns(&ask(proxy, "show servers state\n"), &[9, 12])
            };
            assert_eq!(told(ours), told(theirs), "{line}");
        }
    }

    fn figures_have_haproxy_s_names_and_places(io: Io) {
        let [ours, theirs] = both(io, BACKENDS);
        // The name of each row and where it stands, in CSV and in typed form.
        let rows = |proxy: &Running, selection: &str| {
            let text = ask(proxy, &format!("show stat {selection}\n"));
            let first = |line: &str| line.split(',').take(2).collect::<Vec<_>>().join(",");
            text.lines().map(first).collect::<Vec<_>>()
        };
        for selection in ["", "-1 1 -1", "-1 4 -1", "b 6 -1", "3 4 2", "up", "no-maint"] {
            assert_eq!(rows(&ours, selection), rows(&theirs, selection), "show stat {selection}");
        }
        let typed = ask(&ours, "show stat typed\n");
        let known = ask(&theirs, "show stat typed\n");
        for line in ["F.2.0.0.pxname.1:KNS:str:f", "S.3.1.1.svname.1:KNS:str:s1", "B.3.0.17.status.1:SGP:str:UP", "F.2.0.48.req_tot.1:MCP:u64:0"] {
            assert!(typed.lines().any(|own| own == line) && known.lines().any(|own| own == line), "{line}");
        }
        // What is told of the process is told under the same number with the same marks.
        let place = |line: &str| line.rsplitn(3, ':').last().unwrap_or_default().to_owned();
        let known: Vec<String> = ask(&theirs, "show info typed\n").lines().map(place).collect();
        for line in ask(&ours, "show info typed\n").lines() {
            assert!(known.contains(&place(line)), "{line}");
        }
        let json: serde_json::Value = serde_json::from_str(ask(&ours, "show info json\n").trim()).unwrap();
        assert_eq!(json[0]["value"]["value"], "HAProxy");
        let json: serde_json::Value = serde_json::from_str(ask(&ours, "show stat json\n").trim()).unwrap();
        assert_eq!(json[0][0]["field"]["name"], "pxname");
    }

    fn what_is_changed_is_served(io: Io) {
        let (one, two) = (Origin::named("one", "one"), Origin::named("two", "two"));
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server one {one}\n server spare {two} disabled\n");
        let proxy = file(&text).io(io).start();
        let served = || Client::connect(&proxy).request(&Request::get("/")).text();
        assert_eq!(served(), "one");
        // Moved, taken out, put back.
        let address: SocketAddr = two.to_string().parse().unwrap();
        ask(&proxy, &format!("set server b/one addr 127.0.0.1 port {}\n", address.port()));
        assert_eq!(served(), "two");
        ask(&proxy, "set server b/one state maint\n");
        Client::connect(&proxy).request(&Request::get("/")).expect_status(503);
        // What the file has out of service stays out when another server moves.
        assert!(ask(&proxy, "show servers state b\n").contains(" spare 127.0.0.1 0 "));
        let address: SocketAddr = one.to_string().parse().unwrap();
        assert_eq!(ask(&proxy, &format!("add server b/new 127.0.0.1:{}\n", address.port())), "New server registered.\n\n");
        Client::connect(&proxy).request(&Request::get("/")).expect_status(503);
        ask(&proxy, "enable server b/new\n");
        assert_eq!(served(), "one");
        ask(&proxy, "disable server b/new\n");
        let end = Instant::now() + Duration::from_secs(20);
        while !ask(&proxy, "del server b/new\n").starts_with("Server deleted.") {
            assert!(Instant::now() < end, "it never goes");
        }
        assert!(!ask(&proxy, "show servers state\n").contains(" new "));
    }
}

#[test]
fn frontends_are_held_and_bounded() {
    let text = "frontend f\n bind 127.0.0.1:{port}\n http-request return status 200\n";
    let proxy = file(text).start();
    let status = || {
        let text = ask(&proxy, "show stat f 1 -1\n");
        let fields: Vec<String> = text.lines().nth(1).unwrap().split(',').map(str::to_owned).collect();
        (fields[17].clone(), fields[6].clone())
    };
    assert_eq!(status().0, "OPEN");
    ask(&proxy, "disable frontend f\n");
    assert_eq!(status().0, "PAUSED");
    // Whoever connects now waits, and is answered once the frontend goes on.
    let mut waiting: Vec<TcpStream> = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port().number())).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        waiting.push(stream);
    }
    assert!(waiting.iter_mut().all(|stream| stream.read(&mut [0]).is_err()), "nobody is answered");
    ask(&proxy, "enable frontend f\n");
    for mut stream in waiting {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Both bounds let one connection in; the next is answered when it has gone.
    for (bound, free) in [
        ("set maxconn frontend f 1\n", "set maxconn frontend f 0\n"),
        ("set maxconn global 1\n", "set maxconn global 1000\n"),
    ] {
        ask(&proxy, bound);
        let mut first = Client::connect(&proxy);
        first.request(&Request::get("/")).expect_status(200);
        let mut second = TcpStream::connect(("127.0.0.1", proxy.port().number())).unwrap();
        second.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(second.read(&mut [0]).is_err(), "{bound}: the first is still there");
        drop(first);
        second.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = String::new();
        second.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{bound}: {answer}");
        ask(&proxy, free);
    }
    assert_eq!(status().1, "0");
}

/// A field of a row of `show stat`.
fn field(proxy: &Running, row: [&str; 2], name: &str) -> String {
    let text = ask(proxy, "show stat\n");
    let mut lines = text.lines();
    let at =
        lines.next().unwrap().split(',').position(|column| column.trim_start_matches("# ") == name).unwrap();
    let found = lines.map(|line| line.split(',').collect::<Vec<_>>()).find(|line| line[..2] == row);
    found.unwrap()[at].to_owned()
}

both_drivers! {
    fn connections_are_listed_and_ended(io: Io) {
        let origin = Origin::script(|c| c.expect("GET /slow").until_closed());
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s1 {origin}\n");
        let proxy = file(&text).io(io).start();
        assert_eq!(ask(&proxy, "show sess\n"), "\n");
        let mut client = Client::connect(&proxy);
        client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(1);
        let listed = ask(&proxy, "show sess\n");
        let id = listed.split(':').next().unwrap().to_owned();
        let begin = format!("{id}: proto=tcpv4 src={} fe=f be=b srv=s1 ts=00 epoch=0 age=", client.local());
        assert!(id.starts_with("0x") && listed.starts_with(&begin), "{listed}");
        let whole = ask(&proxy, &format!("show sess {id}\n"));
        for part in [format!("source={}", client.local()), "frontend=f (mode=http".into(), format!("server=s1 addr={origin}")] {
            assert!(whole.contains(&part), "{part}: {whole}");
        }
        assert_eq!(ask(&proxy, "show sess older 1h\n"), "\n");
        assert_eq!(ask(&proxy, &format!("shutdown session {id}\n")), "\n");
        client.expect_closed();
        let end = Instant::now() + Duration::from_secs(20);
        while ask(&proxy, "show sess\n") != "\n" {
            assert!(Instant::now() < end, "it is still listed");
        }
        assert_eq!(ask(&proxy, &format!("shutdown session {id}\n")), "No such session (use 'show sess').\n\n");
    }

    fn counters_begin_anew(io: Io) {
        let origin = Origin::named("one", "one");
        let text = format!("frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s1 {origin}\n");
        let proxy = file(&text).io(io).start();
        let mut kept = Client::connect(&proxy);
        for _ in 0..3 {
            kept.request(&Request::get("/")).expect_status(200);
        }
        let count = |name| ["f,FRONTEND", "b,s1", "b,BACKEND"].map(|row| {
            let (proxy_name, row) = row.split_once(',').unwrap();
            field(&proxy, [proxy_name, row], name)
        });
        assert_eq!(count("hrsp_2xx"), ["3", "3", "3"]);
        ask(&proxy, "clear counters\n");
        assert_eq!(count("hrsp_2xx"), ["3", "3", "3"]);
        assert_eq!(count("rate_max"), ["0", "0", "0"]);
        ask(&proxy, "clear counters all\n");
        assert_eq!(count("hrsp_2xx"), ["0", "0", "0"]);
        assert_eq!(count("stot")[1], "0");
        assert_eq!(field(&proxy, ["f", "FRONTEND"], "scur"), "1", "what goes on stays counted");
        kept.request(&Request::get("/")).expect_status(200);
        assert_eq!(count("hrsp_2xx"), ["1", "1", "1"]);
    }
}

#[test]
fn sessions_begin_at_the_pace_that_is_given() {
    // All of these hold for one frontend; each run has another one bound it.
    for (global, of_site, command) in [
        (" maxconnrate 4\n", "", ""),
        (" maxsessrate 4\n", "", ""),
        ("", " rate-limit sessions 4\n", ""),
        ("", "", "set rate-limit sessions global 4\n"),
    ] {
        let text = format!(
            "global\n nbthread 1\n stats socket {{dir}}/cli.sock level admin\n{global}{DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n{of_site} http-request return status 200\n"
        );
        let proxy = Proxy::haproxy(&text).start();
        ask(&proxy, command);
        let began = Instant::now();
        for _ in 0..9 {
            Client::connect(&proxy)
                .request(&Request::get("/").header("Connection", "close"))
                .expect_status(200);
        }
        // Four come at once, and then four a second: nine need more than a second.
        assert!(
            began.elapsed() >= Duration::from_millis(1000),
            "{global}{of_site}{command}: {:?}",
            began.elapsed()
        );
        if !command.is_empty() {
            assert!(ask(&proxy, "show info\n").contains("SessRateLimit: 4\n"));
            ask(&proxy, "set rate-limit sessions global 0\n");
            assert!(ask(&proxy, "show info\n").contains("SessRateLimit: 0\n"));
        }
    }
}

#[test]
fn servers_are_bounded_and_their_checks_are_switched() {
    let (slow, checked) =
        (Origin::script(|c| c.expect("GET /slow").until_closed()), Origin::named("one", "one"));
    let text = format!(
        "frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n timeout queue 300ms\n server s1 {slow} maxconn 100\n\
         backend c\n server s1 {checked} check inter 20ms\nbackend d\n server s1 {checked}\n"
    );
    let proxy = file(&text).start();
    assert_eq!(ask(&proxy, "set maxconn server b/s1 1\n"), "\n");
    assert_eq!(field(&proxy, ["b", "s1"], "slim"), "1");
    let mut first = Client::connect(&proxy);
    first.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.wait_for_requests(1);
    Client::connect(&proxy).request(&Request::get("/slow")).expect_status(503);
    assert!(
        ask(&proxy, "set maxconn server d/s1 1\n").contains("give one `maxconn`"),
        "nobody could wait there"
    );
    // No check comes once they are switched off: what is under way may still end.
    checked.wait_for_connections(2);
    assert_eq!(ask(&proxy, "disable health c/s1\n"), "\n");
    let mut seen = checked.connections();
    let settled = Instant::now() + Duration::from_secs(20);
    let quiet = loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = checked.connections();
        if now == seen {
            break now;
        }
        assert!(Instant::now() < settled, "checks go on");
        seen = now;
    };
    assert_eq!(ask(&proxy, "enable health c/s1\n"), "\n");
    checked.wait_for_connections(quiet + 2);
}

#[test]
fn levels_and_bounds_of_a_socket_hold() {
    let text = format!(
        "global\n stats socket {{dir}}/cli.sock mode 600 level user\n stats socket ipv4@127.0.0.1:{{port_c}} level operator\n stats timeout 1s\n stats maxconn 1\n\
         {DEFAULTS}frontend f\n bind 127.0.0.1:{{port}}\n http-request return status 200\n"
    );
    let proxy = Proxy::haproxy(&text).start();
    let path = proxy.dir().join("cli.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(ask(&proxy, "show cli level\n"), "user\n\n");
    assert_eq!(ask(&proxy, "show env\n"), "Permission denied\n\n");
    // The one connection that there may be is idle: it ends by itself, and the next is answered.
    let mut idle = UnixStream::connect(&path).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(idle.read(&mut [0; 8]).unwrap(), 0, "it was idle for a second");
    let mut tcp = TcpStream::connect(("127.0.0.1", proxy.port_of("port_c").number())).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    tcp.write_all(b"show cli level\n").unwrap();
    let mut said = String::new();
    tcp.read_to_string(&mut said).unwrap();
    assert_eq!(said, "operator\n\n");
    // More than a command can be ends the connection, and no other.
    let mut long = UnixStream::connect(&path).unwrap();
    let _ = (0..2048).try_for_each(|_| long.write_all(&[b'x'; 1024]));
    drop(long);
    assert_eq!(ask(&proxy, "show cli level\n"), "user\n\n");
}

#[test]
fn certificates_are_replaced_by_transaction() {
    let (old, new) = (Certificate::p256(&["localhost"]), Certificate::p256(&["localhost"]));
    let text = "frontend f\n bind 127.0.0.1:{port} ssl crt {dir}/a.pem\n http-request return status 200\n";
    let proxy = file(text).certificate("a", &old).start();
    let name = proxy.dir().join("a.pem").display().to_string();
    assert_eq!(ask(&proxy, "show ssl cert\n"), format!("# filename\n{name}\n\n"));
    let payload = [new.chain_pem(), new.key_pem()].concat();
    let said = ask(&proxy, &format!("set ssl cert {name} <<\n{payload}\n\n"));
    assert!(said.starts_with(&format!("Transaction created for certificate {name}!")), "{said}");
    let trusts = |certificate: &Certificate| {
        let options = TlsOptions::trusting(certificate);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Client::tls(&proxy, &options).request(&Request::get("/")).status
        }))
        .is_ok()
    };
    assert!(trusts(&old) && !trusts(&new), "nothing is committed");
    assert!(ask(&proxy, &format!("commit ssl cert {name}\n")).contains("Success!"));
    assert!(trusts(&new) && !trusts(&old));
    // A key of another certificate is refused, and the transaction can be given up.
    let wrong = [new.chain_pem(), old.key_pem()].concat();
    ask(&proxy, &format!("set ssl cert {name} <<EOF\n{wrong}\nEOF\n"));
    assert!(ask(&proxy, &format!("commit ssl cert {name}\n")).contains(&format!("Can't commit {name}!")));
    assert!(ask(&proxy, &format!("abort ssl cert {name}\n")).starts_with("Transaction aborted"));
    assert!(trusts(&new));
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_socket_for_commands_may_be_handed_over() {
    // As HAProxy's own test harness starts it: the socket for commands is a descriptor, the file names no frontend yet.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.cfg");
    let text = format!(
        "    global\n\tstats socket \"{0}/s\" level admin mode 600\n    stats socket \"fd@${{cli}}\" level admin\n",
        folder.path().display()
    );
    std::fs::write(&path, text).unwrap();
    let child = Command::new("sh")
        .args(["-c", "exec \"$0\" haproxy -d -f \"$1\" 7<&0 0</dev/null", env!("CARGO_BIN_EXE_weir")])
        .arg(&path)
        .env("cli", "7")
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        .spawn()
        .unwrap();
    let _running = Ended(child);
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"show info\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("Name: HAProxy\nVersion: 3.4.0-weir"), "{said}");
}

#[test]
fn clients_that_people_use_are_served() {
    let proxy = file(BACKENDS).start();
    let path = proxy.dir().join("cli.sock");
    let socat = Command::new("sh")
        .args(["-c", "echo 'show cli level' | socat stdio UNIX-CONNECT:\"$0\""])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&socat.stdout), "admin\n\n");
    // The exporter of Prometheus reads both tables, and says what it could not read.
    let port = weir_testkit::Port::lease();
    let exporter = Command::new("prometheus-haproxy-exporter")
        .arg(format!("--haproxy.scrape-uri=unix:{}", path.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Ended(exporter);
    let end = Instant::now() + Duration::from_secs(30);
    let text = loop {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port.number()))?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        match asked() {
            Ok(text) => break text,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    };
    for line in [
        "haproxy_up 1",
        "haproxy_exporter_csv_parse_failures_total 0",
        "haproxy_server_weight{backend=\"b\",server=\"s1\"} 10",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}: {text}");
    }
}

/// What the process has open, a frontend that ends, and waiting for a server that nothing keeps.
#[test]
fn the_process_shows_what_is_open_and_waits_for_servers() {
    let proxy = file(BACKENDS).start();
    let shown = ask(&proxy, "show fd\n");
    let listener = format!("l.st=RDY fam=ipv4 lport={}", proxy.port().number());
    assert!(shown.contains(&listener) && shown.contains("cli.sock"), "{shown}");
    let number =
        shown.lines().find(|line| line.contains(&listener)).unwrap().split(':').next().unwrap().trim();
    let one = ask(&proxy, &format!("show fd {number}\n"));
    assert!(one.lines().filter(|line| !line.is_empty()).count() == 1 && one.contains(&listener), "{one}");
    assert_eq!(
        ask(&proxy, "shutdown frontend f;shutdown frontend f\n"),
        "\nFrontend was already shut down.\n\n"
    );
    let wait = |what: &str| ask(&proxy, &format!("wait 10s srv-removable {what}\n"));
    assert_eq!(wait("c/x"), "Done.\n\n");
    assert_eq!(wait("b/s1"), "Only servers in maintenance mode can be deleted.\n\n");
    assert_eq!(wait("b/none"), ask(&proxy, "disable server b/none\n"));
    // The next command of the line is answered after it.
    assert_eq!(ask(&proxy, "wait 1ms srv-removable c/x; show cli level\n"), "Done.\n\nadmin\n\n");
}

/// One that something is under way at is waited for.
#[test]
fn a_server_in_use_is_waited_for() {
    let gate = weir_testkit::Gate::new();
    let origin = Origin::script(|c| c.expect("GET /").wait_for(&gate).respond(200, "late"));
    let proxy = file(&format!(
        "frontend f\n bind 127.0.0.1:{{port}}\n default_backend b\nbackend b\n server s1 {origin}\n"
    ))
    .start();
    let mut client = Client::connect(&proxy);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    origin.wait_for_requests(1);
    assert_eq!(ask(&proxy, "disable server b/s1\n"), "\n");
    assert_eq!(ask(&proxy, "wait 100ms srv-removable b/s1\n"), "Wait delay expired.\n\n");
    gate.open();
    assert_eq!(ask(&proxy, "wait 30s srv-removable b/s1\n"), "Done.\n\n");
    client.read().expect_body("late");
}

/// The table in docs/haproxy.md, from the table of the commands.
#[test]
fn the_manual_lists_every_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/haproxy.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- commands:begin -->\n", "<!-- commands:end -->");
    let (before, rest) = page.split_once(begin).expect("the page has a table");
    let (_, after) = rest.split_once(end).expect("and its end");
    let mut table = String::from("| command | level | |\n|---|---|---|\n");
    for command in COMMANDS {
        let (level, what) = match command.status {
            Status::Built(_) if command.differs.is_empty() => (command.level.word(), command.help.to_owned()),
            Status::Built(_) => {
                (command.level.word(), format!("{}; differs: {}", command.help, command.differs))
            }
            Status::Absent(why) => ("", format!("absent: {why}")),
        };
        table +=
            &format!("| `{}` | {level} | {what} |\n", command.usage.replace('|', "\\|").replace("  ", " "));
    }
    let wanted = format!("{before}{begin}{table}{end}{after}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert!(page == wanted || std::env::var_os("UPDATE_EXPECT").is_some(), "run with UPDATE_EXPECT=1");
}

/// What programs that manage the process do: look who there is, ask the one that carries the traffic, reload.
#[test]
fn a_master_shows_its_processes_passes_commands_on_and_reloads() {
    let mut proxy = file(BACKENDS)
        .foreign_flags()
        .argument("-W")
        .argument("-S")
        .argument("unix@master.sock,level,admin")
        .start();
    // Its ports listen before the master answers.
    proxy.wait_for_log(" serves");
    let path = proxy.dir().join("master.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let ask = |text: &str| ask_at(&path, text);
    let shown = ask("show proc\n");
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["#<PID>", "<type>", "<reloads>", "<uptime>", "<version>"]);
    assert_eq!(lines[1][1..5], ["master", "0", "[failed:", "0]"], "{shown}");
    assert_eq!((lines[1][0], lines[2][..].join(" ")), (&*proxy.pid().to_string(), "# workers".to_owned()));
    assert_eq!(lines[3][1], "worker");
    let worker = lines[3][0].to_owned();
    assert_eq!(ask("@1 show cli level\n"), "admin\n\n");
    assert_eq!(
        ask(&format!("@!{worker} set weight b/s1 7;@1 get weight b/s1;show cli level\n")),
        "\n7 (initial 10)\n\nadmin\n\n"
    );
    assert_eq!(ask("@9 show info\n"), "Can't find the target PID matching the prefix '@9'\n\n");
    assert_eq!(ask("operator;@1 set weight b/s1 8;reload\n"), "\nPermission denied\n\nPermission denied\n\n");
    assert_eq!(
        ask("prompt\n@1\nshow cli level\n@master\nquit\n"),
        format!("master> {worker}> admin\n\n{worker}> master> ")
    );
    assert!(ask("nonsense\n").starts_with("Unknown command."));
    // A file that cannot be served changes nothing but the count of failures.
    let good = std::fs::read_to_string(proxy.config()).unwrap();
    std::fs::write(proxy.config(), "frontend f\n nonsense\n").unwrap();
    assert!(ask("reload\n").starts_with("Success=0\n--\n"));
    std::fs::write(proxy.config(), good.replace("weight 20", "weight 30")).unwrap();
    assert!(ask("reload\n").starts_with("Success=1\n--\n"));
    assert_eq!(ask("@1 get weight b/s2\n"), "30 (initial 30)\n\n");
    assert!(ask("show proc\n").contains(" 1 [failed: 1] "), "{}", ask("show proc\n"));
    assert!(proxy.process().ended().is_none());
}
