//! Stick tables that several processes share: Weirs with one another, and with Debian's haproxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use weir_http::peers::{Field, Hello, Kind, Message, TableDefinition, Value, read, write};
use weir_testkit::{Client, Io, Port, Proxy, Request, Running, both_drivers, console};

/// Two members of a group, `a` and `b`, each with a frontend that counts.
struct Pair {
    ports: [Port; 2],
}

impl Pair {
    fn new() -> Self {
        Self { ports: [Port::lease(), Port::lease()] }
    }

    fn member(&self, name: &str) -> Proxy {
        let [a, b] = &self.ports;
        // Whoever starts waits for the ports that its file leases, and the other one's is not listened on yet.
        let numbers = [a, b].map(|port| port.number().to_string());
        let text = "global\n nbthread 1\n stats socket {dir}/cli.sock level admin\n\
            defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
            peers group\n peer a 127.0.0.1:PORT_A\n peer b 127.0.0.1:PORT_B\n\
             table named type string len 20 size 1k expire 10m store gpc(3),gpc_rate(2,10s)\n\
            frontend f\n bind 127.0.0.1:{port}\n http-request track-sc0 src table t\n\
             http-request track-sc1 path table group/named\n http-request sc-inc-gpc(2,1)\n http-request sc-set-gpt0(0) 7\n http-request return status 200\n\
            backend t\n stick-table type ip size 100k expire 10m store gpt0,conn_cur,http_req_cnt,http_req_rate(10s),bytes_out_cnt peers group\n";
        let text = text.replace("PORT_A", &numbers[0]).replace("PORT_B", &numbers[1]);
        Proxy::haproxy(&text).foreign_flags().argument("-L").argument(name)
    }
}

fn table(proxy: &Running, name: &str) -> String {
    console::ask_at(&proxy.dir().join("cli.sock"), &format!("show table {name}\n"))
}

/// Waits until a table shows this.
fn shows(proxy: &Running, name: &str, part: &str) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let text = table(proxy, name);
        if text.contains(part) {
            return text;
        }
        assert!(
            Instant::now() < end,
            "{part} never came: {text}\n{}",
            console::ask_at(&proxy.dir().join("cli.sock"), "show peers\n")
        );
        std::thread::yield_now();
    }
}

fn ask(proxy: &Running, path: &str, times: usize) {
    let mut client = Client::connect(proxy);
    for _ in 0..times {
        client.request(&Request::get(path)).expect_status(200);
    }
}

/// What one counts the other shows, those that were there before it came, too.
fn share(first: &Running, start_second: impl FnOnce() -> Running) {
    ask(first, "/early", 3);
    let second = start_second();
    let text = shows(&second, "t", "http_req_cnt=3 ");
    assert!(
        text.contains("key=127.0.0.1 ")
            && text.contains(" gpt0=7 ")
            && text.contains("http_req_rate(10000)=3 "),
        "{text}"
    );
    assert!(text.contains(" conn_cur=0 "), "connections are everyone's own: {text}");
    let text = shows(&second, "group/named", "key=/early ");
    assert!(text.contains("gpc2=3") && text.contains("gpc0=0"), "{text}");
    // And the other way round.
    ask(&second, "/later", 2);
    let text = shows(first, "group/named", "key=/later ");
    shows(first, "group/named", "gpc2=2");
    assert!(text.contains("key=/early "), "{text}");
    shows(first, "t", "http_req_cnt=5 ");
    ask(first, "/early", 1);
    shows(&second, "t", "http_req_cnt=6 ");
}

both_drivers! {
    fn weirs_share_tables(io: Io) {
        let pair = Pair::new();
        let first = pair.member("a").io(io).start();
        share(&first, || pair.member("b").io(io).start());
    }

    fn a_weir_learns_from_haproxy_and_teaches_it(io: Io) {
        let pair = Pair::new();
        let first = pair.member("a").by_rival().start();
        share(&first, || pair.member("b").io(io).start());
    }

    fn haproxy_learns_from_a_weir_and_teaches_it(io: Io) {
        let pair = Pair::new();
        let first = pair.member("a").io(io).start();
        share(&first, || pair.member("b").by_rival().start());
    }
}

/// One that comes back has what the others kept, and a reload breaks no conversation.
#[test]
fn one_that_comes_back_is_taught() {
    let pair = Pair::new();
    let mut stays = pair.member("a").argument("-W").start();
    let leaves = pair.member("b").start();
    ask(&leaves, "/one", 4);
    shows(&stays, "group/named", "gpc2=4");
    leaves.stop();
    stays.reload_same();
    let back = pair.member("b").start();
    shows(&back, "group/named", "gpc2=4");
    let shown = console::ask_at(&back.dir().join("cli.sock"), "show peers group\n");
    assert!(shown.contains("id=a(remote,active)") && shown.contains("last_status=ESTA"), "{shown}");
    assert_eq!(console::ask_at(&back.dir().join("cli.sock"), "show peers none\n"), "No such peers\n\n");
}

/// Whoever is no peer is told so, and nonsense ends the conversation and nothing else.
#[test]
fn strangers_and_nonsense_are_refused() {
    let pair = Pair::new();
    let proxy = pair.member("a").start();
    let say = |words: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", pair.ports[0].number())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(words).unwrap();
        let mut heard = Vec::new();
        // It may be a reset: not all that was said is read.
        let _ = stream.read_to_end(&mut heard);
        heard
    };
    assert_eq!(say(b"HAProxyS 2.1\na\nstranger 1 1\n"), b"504\n");
    assert_eq!(say(b"HAProxyS 2.1\nc\nb 1 1\n"), b"503\n");
    assert_eq!(say(b"HAProxyS 3.0\na\nb 1 1\n"), b"502\n");
    assert_eq!(say(b"GET / HTTP/1.1\nHost: a\n\n"), b"501\n");
    for nonsense in [
        &b"HAProxyS 2.1\na\nb 1 1\n\x0a\x82\x02\xff\xff"[..],
        b"HAProxyS 2.1\na\nb 1 1\n\x0a\x80\xf0\xff\xff\xff\x7f",
        b"HAProxyS 2.1\na\nb 1 1\n\x0a\x82\x0c\x02\x03/t1\x06\x20\x04\xf0\xd9\xdc\x0c\x0a\x80\x02\0\0",
    ] {
        let heard = say(nonsense);
        assert!(heard.starts_with(b"200\n") && heard.windows(2).any(|two| two[0] == 1), "{heard:?}");
    }
    // Updates of a table that nobody defined, and of one that has another form, are passed over.
    let mut stream = TcpStream::connect(("127.0.0.1", pair.ports[0].number())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(b"HAProxyS 2.1\na\nb 1 1\n\x0a\x80\x05\0\0\0\x01\x01\x0a\x82\x07\x02\x01t\x05\x10\x04\0")
        .unwrap();
    stream.write_all(b"\0\0").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\0\x01") && !heard.ends_with(b"\0\x02") {
        let mut piece = [0; 256];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{heard:?}");
        heard.extend_from_slice(&piece[..count]);
    }
    assert!(!table(&proxy, "t").contains("key="), "nothing was learnt");
}

/// A peer `b` that says what its test says, of a table of texts with one count.
struct Scripted {
    stream: TcpStream,
    input: Vec<u8>,
    table: Option<TableDefinition<'static>>,
}

/// What a scripted peer hears.
#[derive(Debug, PartialEq)]
enum Told {
    Message(Message<'static>),
    /// The number of an update, its key, its count.
    Entry(u32, String, u64),
}

impl Scripted {
    fn call(port: &Port) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port.number())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(Hello::lines("a", "b", 1).as_bytes()).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"200\n");
        Self { stream, input: Vec::new(), table: None }
    }

    fn say(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        write(message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn teach(&mut self, key: &str, count: u64) {
        let field = Field { kind: 2, count: 1, period: 0 };
        let table = TableDefinition {
            number: 7,
            name: b"/named",
            key: Kind::Text,
            key_size: 21,
            fields: vec![field],
            expire: 0,
        };
        let mut rest = Vec::new();
        table.write_entry(key.as_bytes(), &[Value::Number(count)], &mut rest);
        self.say(&Message::Table(table));
        self.say(&Message::Update { number: Some(1), expires_in: None, rest: &rest });
    }

    /// What comes next, but for signs of life, definitions and what was heard of ours.
    fn next(&mut self) -> Told {
        loop {
            while let Some((message, length)) = read(&self.input).unwrap() {
                let told = match message {
                    Message::Heartbeat | Message::Heard { .. } => None,
                    Message::Table(table) => {
                        self.table = Some(TableDefinition { name: b"", ..table });
                        None
                    }
                    Message::Update { number, rest, .. } => {
                        let entry = self.table.as_ref().unwrap().entry(rest).unwrap();
                        let Value::Number(count) = entry.values[0].2 else { panic!("{entry:?}") };
                        let key = String::from_utf8(entry.key.to_vec()).unwrap();
                        Some(Told::Entry(number.unwrap(), key, count))
                    }
                    Message::SyncRequest => Some(Told::Message(Message::SyncRequest)),
                    Message::SyncFinished => Some(Told::Message(Message::SyncFinished)),
                    Message::SyncPartial => Some(Told::Message(Message::SyncPartial)),
                    Message::SyncConfirmed => Some(Told::Message(Message::SyncConfirmed)),
                    other => panic!("{other:?}"),
                };
                self.input.drain(..length);
                if let Some(told) = told {
                    return told;
                }
            }
            let mut piece = [0; 1024];
            let count = self.stream.read(&mut piece).unwrap();
            assert!(count > 0, "it hung up");
            self.input.extend_from_slice(&piece[..count]);
        }
    }

    fn hears_entry(&mut self, key: &str, count: u64) -> u32 {
        match self.next() {
            Told::Entry(number, known, counted) if known == key && counted == count => number,
            other => panic!("{key} {count}: {other:?}"),
        }
    }

    fn hears(&mut self, message: Message<'static>) {
        assert_eq!(self.next(), Told::Message(message));
    }
}

fn with_scripted() -> (Port, Running) {
    let [a, b] = [Port::lease(), Port::lease()];
    // Nobody listens at b, so it is b that calls.
    let text = "global\n nbthread 1\n stats socket {dir}/cli.sock level admin\n\
        defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
        peers group\n peer a 127.0.0.1:PORT_A\n peer b 127.0.0.1:PORT_B\n\
         table named type string len 20 size 1k expire 10m store gpc0\n\
        frontend f\n bind 127.0.0.1:{port}\n http-request track-sc0 path table group/named\n\
         http-request sc-inc-gpc0(0)\n http-request return status 200\n";
    let text = text.replace("PORT_A", &a.number().to_string()).replace("PORT_B", &b.number().to_string());
    (a, Proxy::haproxy(&text).foreign_flags().argument("-L").argument("a").start())
}

/// Whoever is being taught says nothing before that is over: what it counted meanwhile would be taken for all there is.
#[test]
fn what_is_counted_while_being_taught_comes_after_it() {
    let (port, proxy) = with_scripted();
    ask(&proxy, "/one", 1);
    let mut peer = Scripted::call(&port);
    peer.hears(Message::SyncRequest);
    ask(&proxy, "/one", 1);
    peer.teach("/one", 41);
    peer.teach("/other", 5);
    peer.say(&Message::SyncFinished);
    peer.hears(Message::SyncConfirmed);
    peer.hears_entry("/one", 41);
    ask(&proxy, "/one", 1);
    peer.hears_entry("/one", 42);
}

/// Two that have just begun ask each other: what one of them hears back of its own does not undo what it counted since.
#[test]
fn what_comes_back_while_both_are_taught_is_older() {
    let (port, proxy) = with_scripted();
    ask(&proxy, "/one", 3);
    let mut peer = Scripted::call(&port);
    peer.hears(Message::SyncRequest);
    peer.say(&Message::SyncRequest);
    peer.hears_entry("/one", 3);
    assert!(matches!(peer.next(), Told::Message(Message::SyncFinished | Message::SyncPartial)));
    ask(&proxy, "/one", 1);
    peer.teach("/one", 3);
    peer.teach("/other", 9);
    peer.say(&Message::SyncFinished);
    peer.hears(Message::SyncConfirmed);
    peer.hears_entry("/one", 4);
    assert!(shows(&proxy, "group/named", "key=/other ").contains("gpc0=9"));
}

/// After a reconnection what was not said to be heard is told again, and nothing that was.
#[test]
fn what_was_not_heard_is_told_again() {
    let (port, proxy) = with_scripted();
    let mut peer = Scripted::call(&port);
    peer.hears(Message::SyncRequest);
    peer.say(&Message::SyncFinished);
    peer.hears(Message::SyncConfirmed);
    ask(&proxy, "/one", 2);
    while !matches!(peer.next(), Told::Entry(_, _, 2)) {}
    // It calls again before the conversation is over, and has heard nothing.
    let mut again = Scripted::call(&port);
    let heard = again.hears_entry("/one", 2);
    again.say(&Message::Heard { table: 1, number: heard });
    // What was heard is known once what came behind it was obeyed.
    again.say(&Message::SyncRequest);
    again.hears_entry("/one", 2);
    again.hears(Message::SyncFinished);
    drop(again);
    ask(&proxy, "/two", 1);
    let mut third = Scripted::call(&port);
    third.hears_entry("/two", 1);
}
