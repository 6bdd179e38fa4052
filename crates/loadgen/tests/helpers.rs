//! The generator's own servers, and agents.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use weir_loadgen::agent::{Agency, AgentOptions, Agents, lead};
use weir_loadgen::hold::Held;
use weir_loadgen::report::{Report, WarningCode};
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::{IoChoice, Options, Rate, RunError, run};
use weir_testkit::{Client, Io, Origin, Port, both_drivers};

fn any() -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap()]
}

fn choice(io: Io) -> IoChoice {
    match io.possible() {
        Io::Auto => IoChoice::Auto,
        Io::Uring => IoChoice::Uring,
        Io::Epoll => IoChoice::Epoll,
    }
}

fn load(url: String) -> Options {
    Options {
        urls: vec![url],
        threads: 1,
        connections: 4,
        duration: Duration::from_millis(400),
        ..Options::default()
    }
}

#[track_caller]
fn good(options: Options) -> Report {
    let report = run(options, &mut ()).unwrap();
    assert!(report.total.requests > 0 && report.total.errors.sum() == 0, "{:?}", report.total.errors);
    report
}

both_drivers! {
    fn pages_have_their_sizes_over_http_https_and_echo(io: Io) {
        let server = Server::start(ServeOptions {
            http: any(),
            https: any(),
            echo: any(),
            sizes: vec![0, 1024, 300_000],
            threads: 2,
            io: choice(io),
            ..ServeOptions::default()
        })
        .unwrap();
        let page = |path: &str| Client::connect(server.http[0]).get(path).expect_status(200).body.len();
        assert_eq!((page("/"), page("/1k.bin"), page("/300000")), (0, 1024, 300_000));
        Client::connect(server.http[0]).get("/7").expect_status(404);
        for url in [format!("http://{}/1k", server.http[0]), format!("https://{}/300000", server.https[0])] {
            let report = good(load(url));
            assert_eq!(report.total.status.codes.keys().copied().collect::<Vec<_>>(), [200]);
        }
        good(load(format!("tcp://{}", server.echo[0])));
        // Bodies of requests are taken in.
        good(Options { body: Some(vec![b'x'; 200_000]), ..load(format!("http://{}/1k", server.http[0])) });
        let chunked = vec![("Transfer-Encoding".to_owned(), "chunked".to_owned())];
        let body = Some(b"3\r\nabc\r\n0\r\n\r\n".to_vec());
        good(Options { headers: chunked, body, ..load(format!("http://{}/1k", server.http[0])) });
    }

    fn answers_can_be_late_wrong_and_last(io: Io) {
        let base = ServeOptions { http: any(), io: choice(io), ..ServeOptions::default() };
        let server = Server::start(ServeOptions {
            delay: Duration::from_millis(3),
            error_rate: 0.25,
            close_rate: 0.1,
            ..base
        })
        .unwrap();
        let report = good(load(format!("http://{}/128", server.http[0])));
        let total = &report.total;
        assert!(total.latency.min_us >= 3000.0, "{:?}", total.latency);
        let share = |n: u64| n as f64 / total.requests as f64;
        assert!((share(total.status.failed()) - 0.25).abs() < 0.05, "{:?}", total.status);
        assert!((share(total.connections.closed_by_server) - 0.1).abs() < 0.05, "{:?}", total.connections);
    }
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = Server::start(ServeOptions { http: vec![addr], ..ServeOptions::default() }).err().unwrap();
    assert!(error.contains(&addr.to_string()), "{error}");
}

const TOKEN: &str = "a token of the test";

fn agent(scripts: bool) -> String {
    let listen = "127.0.0.1:0".parse().unwrap();
    let agents = Agents::bind(AgentOptions { listen, token: TOKEN.into(), scripts }).unwrap();
    let address = agents.address().unwrap().to_string();
    std::thread::spawn(move || agents.serve(|_| {}));
    address
}

fn led(options: &Options, agents: &[&str], token: &str) -> Result<Report, RunError> {
    let agents = agents.iter().map(|&agent| agent.to_owned()).collect();
    lead(options, &Agency { agents, token: token.into() }, &mut ())
}

#[test]
fn agents_share_a_run_and_their_reports_add_up() {
    let origin = Origin::named("a", "hello");
    let options = Options {
        connections: 5,
        duration: Duration::from_secs(1),
        rates: vec![Rate { from: 300.0, to: 300.0 }],
        ..load(format!("http://{origin}/"))
    };
    let (one, two, three) = (agent(false), agent(false), agent(false));
    let report = led(&options, &[&one, &two, &three], TOKEN).unwrap();
    assert!((295..=300).contains(&report.total.requests), "{}", report.total.requests);
    assert_eq!((report.settings.connections, report.total.rate_wanted), (5, Some(300.0)));
    assert_eq!(report.total.latency.count, report.total.requests);
    assert_eq!(report.agents.len(), 3);
    let each: u64 = report.agents.iter().map(|agent| agent.report.as_ref().unwrap().total.requests).sum();
    assert_eq!(each, report.total.requests);
    assert_eq!(origin.connections(), 5);
    // An agent is free for the next run.
    assert!(led(&options, &[&one], TOKEN).is_ok());
}

#[test]
fn agents_speak_http2_too() {
    let server = Server::start(ServeOptions { http: any(), ..ServeOptions::default() }).unwrap();
    let options = Options { h2: Some(5), ..load(format!("http://{}/1k", server.http[0])) };
    let report = led(&options, &[&agent(false), &agent(false)], TOKEN).unwrap();
    assert!(report.total.requests > 20 && report.total.errors.sum() == 0, "{:?}", report.total);
    assert!(report.agents.iter().all(|agent| agent.report.as_ref().is_some_and(|r| r.total.requests > 0)));
}

#[test]
fn who_does_not_know_the_token_is_refused() {
    let origin = Origin::named("a", "");
    let error = led(&load(format!("http://{origin}/")), &[&agent(false)], "another token").unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    assert_eq!(origin.connections(), 0);
    assert!(Agents::bind(AgentOptions { listen: any()[0], token: "short".into(), scripts: false }).is_err());
}

#[test]
fn scripts_are_for_agents_that_allow_them() {
    let origin = Origin::named("a", "");
    let script = weir_loadgen::ScriptFile { name: "x.lua".into(), text: b"wrk.path = '/lua'".to_vec() };
    let options = Options { script: Some(script), ..load(format!("http://{origin}/")) };
    let error = led(&options, &[&agent(false)], TOKEN).unwrap_err();
    assert!(error.to_string().contains("--allow-scripts"), "{error}");
    assert!(led(&options, &[&agent(true)], TOKEN).is_ok());
    assert_eq!(origin.requests()[0].line(), "GET /lua");
}

#[test]
fn an_agent_that_fails_is_named() {
    let origin = Origin::named("a", "");
    let options = load(format!("http://{origin}/"));
    let good = agent(false);
    // Not there at all: nothing begins.
    let port = Port::lease();
    let gone = format!("127.0.0.1:{port}");
    let error = led(&options, &[&good, &gone], TOKEN).unwrap_err().to_string();
    assert!(error.contains(&gone) && error.contains("connect"), "{error}");
    // Lost on the way: the others' figures stand, and it is named.
    let lossy = lossy_relay(good.parse().unwrap());
    let steady = agent(false);
    let report = led(&options, &[&steady, &lossy], TOKEN).unwrap();
    assert!(report.total.requests > 0);
    assert!(report.agents[1].failure.is_some() && report.agents[0].failure.is_none());
    let warning = report.warnings.iter().find(|warning| warning.code == WarningCode::AgentFailed).unwrap();
    assert!(warning.text.contains(&lossy), "{}", warning.text);
    // The other way round in what cannot be reached: the target.
    let nowhere = load(format!("http://{gone}/"));
    let error = led(&nowhere, &[&steady], TOKEN).unwrap_err().to_string();
    assert!(error.contains("unable to connect"), "{error}");
}

/// Passes on the conversation of a leader and an agent up to the beginning of the run; then the agent is gone.
fn lossy_relay(agent: SocketAddr) -> String {
    use std::io::{Read, Write};
    let pass_on = |mut from: &TcpStream, mut to: &TcpStream| {
        let mut length = [0; 4];
        from.read_exact(&mut length).unwrap();
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut text).unwrap();
        to.write_all(&length).unwrap();
        to.write_all(&text).unwrap();
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (leader, _) = listener.accept().unwrap();
        let agent = TcpStream::connect(agent).unwrap();
        // Hello, the order, Ready, Go.
        for (from, to) in [(&agent, &leader), (&leader, &agent), (&agent, &leader), (&leader, &agent)] {
            pass_on(from, to);
        }
        for stream in [&leader, &agent] {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    address
}

both_drivers! {
    fn held_connections_are_used_once_and_kept(io: Io) {
        let server =
            Server::start(ServeOptions { http: any(), https: any(), sizes: vec![300], io: choice(io), ..ServeOptions::default() })
                .unwrap();
        let open = |url: String, connections| Held::open(Options { urls: vec![url], connections, io: choice(io), ..Options::default() });
        for url in [format!("http://{}/300", server.http[0]), format!("https://{}/300", server.https[0])] {
            let held = open(url, 20).unwrap();
            assert_eq!(held.connections, 20);
        }
        let missing = open(format!("http://{}/7", server.http[0]), 3).err().unwrap();
        assert!(missing.contains("connection 1 of 3: answered 404"), "{missing}");
        let gone = server.http[0];
        drop(server);
        let nobody = open(format!("http://{gone}/300"), 3).err().unwrap();
        assert!(nobody.contains("unable to connect"), "{nobody}");
    }
}

both_drivers! {
    fn a_server_that_closes_is_no_idle_connection(io: Io) {
        let server = Server::start(ServeOptions { http: any(), sizes: vec![1], close_rate: 1.0, io: choice(io), ..ServeOptions::default() })
            .unwrap();
        let url = format!("http://{}/1", server.http[0]);
        let refused = Held::open(Options { urls: vec![url], connections: 2, io: choice(io), ..Options::default() });
        assert!(refused.err().unwrap().contains("not kept open"));
    }
}
