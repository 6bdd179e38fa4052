//! Logs through real files, pipes and sockets.
#![allow(clippy::unwrap_used)] // a test may: clippy.toml sees only `#[test]` functions

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_control::ConnectionId;
use weir_telemetry::log::{
    BufferOptions, ErrorLog, Facility, HubOptions, Level, LogBuffer, LogClock, LogHub, Severity,
    SyslogAddress, SyslogHeader, TargetSpec,
};

const NOW: u64 = 1_795_231_384_449;
const SOON: Duration = Duration::from_secs(10);

fn hub() -> (LogHub, Arc<Mutex<Vec<String>>>) {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let notify = Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
    (LogHub::start(HubOptions { notify, ..HubOptions::default() }).unwrap(), notices)
}

fn file(path: &Path) -> TargetSpec {
    TargetSpec::File(path.to_owned())
}

fn put(buffer: &mut LogBuffer, text: &str) {
    let mut clock = LogClock::utc();
    buffer.line(NOW, None, || clock.at(NOW), |out| out.extend_from_slice(text.as_bytes()));
}

#[test]
fn lines_gather_and_are_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let (hub, _) = hub();
    let target = hub.target(file(&path)).unwrap();
    let options = BufferOptions { bytes: 10, age: Duration::from_secs(5) };
    let mut buffer = LogBuffer::new(Arc::clone(&target), options);
    assert_eq!(buffer.poll_timeout(), None);
    put(&mut buffer, "one");
    assert_eq!(buffer.poll_timeout(), Some(NOW + 5000));
    assert!(hub.flush(SOON));
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    put(&mut buffer, "two-two");
    assert_eq!(buffer.poll_timeout(), None, "ten bytes have gathered");
    put(&mut buffer, "three");
    buffer.flush();
    assert!(hub.flush(SOON));
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo-two\nthree\n");
    put(&mut buffer, "last");
    drop(buffer);
    assert!(hub.flush(SOON));
    assert!(fs::read_to_string(&path).unwrap().ends_with("last\n"), "nothing is lost at the end");
}

#[test]
fn many_writers_never_mix_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let (hub, _) = hub();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let target = hub.target(file(&path)).unwrap();
            scope.spawn(move || {
                let mut buffer =
                    LogBuffer::new(target, BufferOptions { bytes: 500, ..BufferOptions::default() });
                for n in 0..1000 {
                    put(&mut buffer, &format!("worker {worker} line {n} {}", "x".repeat(n % 50)));
                }
            });
        }
    });
    assert!(hub.flush(SOON));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 4000);
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let n: usize = words[3].parse().unwrap();
        assert_eq!((words[0], words[4].len()), ("worker", n % 50), "{line}");
    }
    assert_eq!(hub.dropped(), 0);
}

#[test]
fn rotation_reopens_after_writing_the_old_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("a.log"), dir.path().join("a.log.1"));
    let (hub, notices) = hub();
    let mut buffer = LogBuffer::new(hub.target(file(&path)).unwrap(), BufferOptions::default());
    put(&mut buffer, "before");
    buffer.flush();
    hub.flush(SOON);
    fs::rename(&path, &old).unwrap();
    put(&mut buffer, "between");
    buffer.flush();
    hub.reopen();
    put(&mut buffer, "after");
    buffer.flush();
    assert!(hub.flush(SOON));
    assert_eq!(fs::read_to_string(&old).unwrap(), "before\nbetween\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");

    // The directory goes: lines still reach the file that is open.
    drop(dir);
    hub.reopen();
    put(&mut buffer, "nowhere");
    buffer.flush();
    assert!(hub.flush(SOON));
    assert_eq!((hub.dropped(), notices.lock().unwrap().len()), (0, 1));
}

#[test]
fn a_full_device_drops_counts_and_says_it_once() {
    let (hub, notices) = hub();
    let mut buffer =
        LogBuffer::new(hub.target(file(Path::new("/dev/full"))).unwrap(), BufferOptions::default());
    for _ in 0..3 {
        put(&mut buffer, "lost");
        buffer.flush();
    }
    assert!(hub.flush(SOON));
    assert_eq!(hub.dropped(), 3);
    let notices = notices.lock().unwrap();
    assert!(notices.len() == 1 && notices[0].contains("/dev/full"), "{notices:?}");
}

#[test]
fn what_cannot_be_opened_is_an_error() {
    let (hub, _) = hub();
    assert!(hub.target(file(Path::new("/nonexistent/dir/x.log"))).is_err());
}

#[test]
fn a_pipe_that_nobody_reads_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let (fifo, plain) = (dir.path().join("pipe"), dir.path().join("plain.log"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let (hub, notices) = hub();
    let mut stalled = LogBuffer::new(hub.target(file(&fifo)).unwrap(), BufferOptions::default());
    let mut good = LogBuffer::new(hub.target(file(&plain)).unwrap(), BufferOptions::default());
    let began = Instant::now();
    for _ in 0..20_000 {
        put(&mut stalled, &"x".repeat(100));
        put(&mut good, "good");
    }
    stalled.flush();
    good.flush();
    assert!(hub.flush(SOON) && began.elapsed() < SOON);
    assert!(stalled.target().dropped() > 1000);
    assert_eq!(good.target().dropped(), 0);
    assert_eq!(fs::read_to_string(&plain).unwrap().lines().count(), 20_000);
    assert_eq!(notices.lock().unwrap().len(), 1);
    drop(reader);
}

#[test]
fn syslog_by_datagrams() {
    let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
    daemon.set_read_timeout(Some(SOON)).unwrap();
    let (hub, _) = hub();
    let target = hub.target(TargetSpec::Syslog(SyslogAddress::Udp(daemon.local_addr().unwrap()))).unwrap();
    let header = SyslogHeader {
        form: weir_telemetry::log::SyslogForm::Rfc3164,
        facility: Facility::Local0,
        host: None,
        tag: "haproxy".into(),
        pid: Some(7),
        newline: true,
    };
    let mut buffer = LogBuffer::syslog(target, BufferOptions::default(), header, Severity::Info);
    put(&mut buffer, "first");
    put(&mut buffer, "second");
    buffer.flush();
    let mut room = [0; 200];
    for text in ["first", "second"] {
        let size = daemon.recv(&mut room).unwrap();
        let want = format!("<134>Nov 21 03:23:04 haproxy[7]: {text}\n");
        assert_eq!(String::from_utf8_lossy(&room[..size]), want);
    }
}

#[test]
fn a_syslog_daemon_may_go_and_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (hub, notices) = hub();
    let target = hub.target(TargetSpec::Syslog(SyslogAddress::Unix(path.clone()))).unwrap();
    let header = SyslogHeader {
        form: weir_telemetry::log::SyslogForm::Rfc3164,
        facility: Facility::Local7,
        host: None,
        tag: "nginx".into(),
        pid: None,
        newline: false,
    };
    let mut buffer = LogBuffer::syslog(target, BufferOptions::default(), header, Severity::Info);
    put(&mut buffer, "nobody hears");
    buffer.flush();
    assert!(hub.flush(SOON));
    assert_eq!(hub.dropped(), 1);
    let daemon = UnixDatagram::bind(&path).unwrap();
    put(&mut buffer, "heard");
    buffer.flush();
    let mut room = [0; 200];
    let size = daemon.recv(&mut room).unwrap();
    assert_eq!(&room[..size], b"<190>Nov 21 03:23:04 nginx: heard");
    assert!(hub.flush(SOON));
    assert_eq!(notices.lock().unwrap().len(), 2, "once when it failed, once when it was over");
}

#[test]
fn error_lines_as_nginx_writes_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("error.log");
    let (hub, _) = hub();
    let log = ErrorLog::new(hub.target(file(&path)).unwrap(), Level::Warn, None, LogClock::utc());
    assert!(!log.wants(Level::Notice));
    log.log(NOW, Level::Notice, None, format_args!("not this"));
    log.log(NOW, Level::Error, Some(ConnectionId(45)), format_args!("a\nb {}", 1));
    log.log(NOW, Level::Warn, None, format_args!("plain"));
    for _ in 0..100 {
        log.log(NOW, Level::Error, Some(ConnectionId(1)), format_args!("again"));
    }
    log.log(NOW + 1000, Level::Error, None, format_args!("later"));
    assert!(hub.flush(SOON));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let pid = std::process::id();
    let shape = |line: &str| {
        let (head, rest) = line.split_once(&format!("{pid}#")).unwrap();
        let (_, rest) = rest.split_once(": ").unwrap();
        format!("{head}{rest}")
    };
    assert_eq!(shape(lines[0]), "2026/11/21 03:23:04 [error] *45 a b 1");
    assert_eq!(shape(lines[1]), "2026/11/21 03:23:04 [warn] plain");
    assert_eq!(lines.len(), 2 + 20 + 2);
    assert!(lines[22].contains("80 lines like those"), "{}", lines[22]);
    assert_eq!(shape(lines[23]), "2026/11/21 03:23:05 [error] later");
}

#[test]
fn a_writer_goes_on_when_it_panicked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let notify = Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
    let opener = Arc::new(|path: &Path| {
        assert!(!path.ends_with("panic"), "a test asked for this panic");
        fs::File::create(path)
    });
    let hub = LogHub::start(HubOptions { notify, opener, ..HubOptions::default() }).unwrap();
    let mut buffer = LogBuffer::new(hub.target(file(&path)).unwrap(), BufferOptions::default());
    assert!(hub.target(file(&dir.path().join("panic"))).is_err());
    put(&mut buffer, "after");
    buffer.flush();
    assert!(hub.flush(SOON));
    assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
    assert_eq!(notices.lock().unwrap().len(), 1, "it is told");
}

#[test]
fn a_dropped_target_is_closed_and_can_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let (hub, _) = hub();
    for round in 0..3 {
        let mut buffer = LogBuffer::new(hub.target(file(&path)).unwrap(), BufferOptions::default());
        put(&mut buffer, &round.to_string());
    }
    // Lines on their way hold their target: the writer lets go of it, and thereby asks for its end, before it answers.
    assert!(hub.flush(SOON));
    assert_eq!(fs::read_to_string(&path).unwrap(), "0\n1\n2\n");
    assert!(hub.flush(SOON), "what was asked for until then is done");
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|to| to == &path)
        .count();
    assert_eq!(open, 0);
}
