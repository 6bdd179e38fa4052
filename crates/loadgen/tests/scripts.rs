//! wrk's Lua scripts: what each of their functions is for, as the scripts that come with wrk use them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use weir_loadgen::report::Report;
use weir_loadgen::{Options, Rate, RunError, ScriptFile, run};
use weir_testkit::Origin;

/// A script in a file that lives as long as the test.
struct File {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.lua");
    std::fs::write(&path, text).unwrap();
    File { _dir: dir, path }
}

fn try_script(origin: &Origin, text: &str, change: impl FnOnce(&mut Options)) -> Result<Report, RunError> {
    let script = file(text);
    let mut options = Options {
        urls: vec![format!("http://{origin}/start")],
        threads: 1,
        connections: 2,
        duration: Duration::from_millis(500),
        script: Some(ScriptFile::read(&script.path).unwrap()),
        ..Options::default()
    };
    change(&mut options);
    run(options, &mut ())
}

#[track_caller]
fn script(origin: &Origin, text: &str, change: impl FnOnce(&mut Options)) -> Report {
    let report = try_script(origin, text, change).unwrap();
    assert!(report.total.requests > 0 && report.total.errors.sum() == 0, "{:?}", report.total);
    report
}

#[test]
fn the_table_says_what_is_sent() {
    let origin = Origin::named("a", "");
    let text = r#"
        wrk.method = "POST"
        wrk.body   = "a=1&b=2"
        wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
    "#;
    script(&origin, text, |options| options.headers = vec![("X-Own".into(), "1".into())]);
    let request = &origin.requests()[0];
    assert_eq!((request.line(), &request.body[..]), ("POST /start", &b"a=1&b=2"[..]));
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!((request.header("content-length"), request.header("x-own")), (Some("7"), Some("1")));
    assert_eq!(request.header("host"), Some(origin.to_string().as_str()));
}

#[test]
fn each_request_can_be_another() {
    let origin = Origin::named("a", "");
    let text = r#"
        n = 0
        request = function()
            wrk.headers["X-N"] = n
            local path = "/" .. n
            n = n + 1
            return wrk.format(nil, path)
        end
    "#;
    script(&origin, text, |_| {});
    let requests = origin.requests();
    let lines: BTreeSet<&str> = requests.iter().map(|request| request.line()).collect();
    assert_eq!(lines.len(), requests.len(), "no path came twice");
    for request in &requests {
        assert_eq!(request.line(), format!("GET /{}", request.header("x-n").unwrap()));
    }
}

#[test]
fn batches_of_requests_are_pipelined_and_all_counted() {
    let origin = Origin::named("a", "x");
    let text = r#"
        init = function(args)
            local all = {}
            for i, path in ipairs({"/1", "/2", "/3"}) do all[i] = wrk.format(nil, path) end
            batch = table.concat(all)
        end
        request = function() return batch end
    "#;
    let report = script(&origin, text, |options| {
        options.connections = 1;
        options.rates = vec![Rate { from: 20.0, to: 20.0 }];
    });
    let requests = origin.requests();
    assert_eq!(report.total.requests, 30, "ten batches of three");
    assert_eq!(report.total.latency.count, 30);
    assert!(requests.chunks(3).all(|three| three[0].line() == "GET /1" && three[2].line() == "GET /3"));
    let text = text.replace("\"/3\"", "\"/3\", \"/4\"");
    let report = script(&origin, &text, |options| {
        options.connections = 1;
        options.batch = true;
        options.rates = vec![Rate { from: 20.0, to: 20.0 }];
    });
    assert_eq!((report.total.requests, report.total.latency.count), (40, 10), "a latency for each batch");
}

#[test]
fn answers_are_seen_and_can_decide_what_comes_next() {
    let origin = Origin::script(|c| c.keep_answering(200, &[("X-Token", "secret")], "the body"));
    let text = r#"
        local token
        request = function() return wrk.format("GET", token and "/in" or "/login") end
        response = function(status, headers, body)
            if not token and status == 200 and body == "the body" then
                token = headers["X-Token"]
                wrk.headers["X-Token"] = token
            end
        end
    "#;
    script(&origin, text, |options| options.connections = 1);
    let requests = origin.requests();
    assert_eq!(requests[0].line(), "GET /login");
    assert!(requests[1..].iter().all(|r| r.line() == "GET /in" && r.header("x-token") == Some("secret")));
}

#[test]
fn delays_are_kept() {
    let origin = Origin::named("a", "");
    let report = script(&origin, "delay = function() return 50 end", |options| options.connections = 1);
    assert!((8..=10).contains(&report.total.requests), "{}", report.total.requests);
}

#[test]
fn threads_are_set_up_initialised_and_asked_at_the_end() {
    let origin = Origin::named("a", "");
    let out = file("");
    // `done` tells a file what it saw: globals that setup gave, arguments of init, counts of each thread, the summary.
    let text = format!(
        r#"
        local threads, id = {{}}, 1
        setup = function(thread)
            thread:set("id", id)
            thread:set("list", {{ "x", {{ deep = true }} }})
            table.insert(threads, thread)
            id = id + 1
        end
        init = function(args) count = 0; arg = args[1]; deep = list[2].deep end
        request = function() count = count + 1; return wrk.request() end
        done = function(summary, latency, requests)
            local f = io.open("{}", "w")
            local sum = 0
            for i, thread in ipairs(threads) do
                sum = sum + thread:get("count")
                f:write(thread:get("id"), " ", thread:get("arg"), " ", tostring(thread:get("deep")), "\n")
            end
            f:write(sum >= summary.requests and "all" or "few", " ", summary.errors.read, "\n")
            f:write(tostring(latency.min <= latency:percentile(50) and latency:percentile(50) <= latency.max), "\n")
            f:write(tostring(latency.mean > 0 and requests.mean > 0 and summary.bytes > 0), "\n")
            local value, n = latency(1)
            f:write(tostring(value > 0 and n > 0 and #latency > 0), "\n")
            f:close()
        end
        "#,
        out.path.display()
    );
    script(&origin, &text, |options| {
        options.threads = 2;
        options.script_args = vec!["hello".into()];
    });
    let told = std::fs::read_to_string(&out.path).unwrap();
    assert_eq!(told, "1 hello true\n2 hello true\nall 0\ntrue\ntrue\ntrue\n");
}

#[test]
fn a_script_can_stop_its_thread() {
    let origin = Origin::named("a", "");
    let text = r#"
        local n = 0
        response = function() n = n + 1; if n == 25 then wrk.thread:stop() end end
    "#;
    let report = script(&origin, text, |options| {
        options.connections = 1;
        options.duration = Duration::from_secs(60);
    });
    assert_eq!(report.total.requests, 25);
    assert!(report.total.elapsed_s < 30.0, "{}", report.total.elapsed_s);
}

#[test]
fn threads_can_be_sent_to_other_addresses() {
    let (one, two) = (Origin::named("1", ""), Origin::named("2", ""));
    let text = format!(
        r#"
        local turn = 0
        setup = function(thread)
            turn = turn + 1
            if turn == 2 then
                local found = wrk.lookup("127.0.0.1", "{}")
                assert(wrk.connect(found[1]))
                thread.addr = found[1]
            end
            assert(tostring(thread.addr):find("127.0.0.1:"))
        end
        "#,
        two.port()
    );
    script(&one, &text, |options| options.threads = 2);
    assert!(!one.requests().is_empty() && !two.requests().is_empty());
}

#[test]
fn mistakes_in_scripts_are_told_with_their_place() {
    let origin = Origin::named("a", "");
    let told = |text: &str| try_script(&origin, text, |_| {}).unwrap_err().to_string();
    assert!(told("\nnonsense here").contains("test.lua:2:"), "{}", told("\nnonsense here"));
    let late = "local n = 0\nrequest = function() n = n + 1; if n > 5 then error('enough') end; return wrk.request() end";
    assert!(told(late).contains("test.lua:2: enough"), "{}", told(late));
    assert!(told("request = function() return 'GET /' end").contains("an incomplete request"));
    assert!(told("function response() local x = nil; x() end").contains("test.lua:1"));
}
