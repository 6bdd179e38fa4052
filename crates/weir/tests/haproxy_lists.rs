//! Maps and lists of ACLs that change while running: by commands, compared with Debian's haproxy, and by rules; what requests
//! make of them, on all workers; what a reload leaves of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_testkit::{Client, Io, Proxy, Request, Running, both_drivers, console};

const HOSTS: &str = "# hosts\na.example one\nb.example two words\n";

fn file(rules: &str) -> String {
    format!(
        "global\n nbthread 2\n stats socket {{dir}}/cli.sock level admin\n\
         defaults\n mode http\n timeout connect 2s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind 127.0.0.1:{{port}}\n{rules}"
    )
}

/// A list of each kind, and what requests are told of them.
const USED: &str = " acl blocked src -f {dir}/nets\n acl inner path_beg -i -f {dir}/paths /inner\n\
    http-request return status 403 if { hdr(x-from),map_ip({dir}/sources) -m str bad }\n\
    http-request deny if blocked\n\
    http-request return status 200 content-type text/plain string inner if inner\n\
    http-request return status 200 content-type text/plain lf-string %[hdr(host),map({dir}/hosts,none)]/%[path,map_reg({dir}/shapes,-)]\n";

fn used() -> Proxy {
    Proxy::haproxy(&file(USED))
        .file("hosts", HOSTS)
        .file("nets", "10.0.0.0/8\n")
        .file("paths", "/Admin\n")
        .file("sources", "10.0.0.0/8 bad\n10.1.0.0/16 good\n")
        .file("shapes", "^/x[0-9]+$ number\n")
}

/// All that is answered until the other side ends.
fn ask(proxy: &Running, text: &str) -> String {
    console::ask(proxy, text)
}

/// A command about one of the lists, which is called by its file's name alone.
fn told(proxy: &Running, line: &str) -> String {
    let place = proxy.dir().display().to_string();
    let text = ask(proxy, &format!("{}\n", line.replace("DIR", &place)));
    // The numbers of entries are addresses in memory there.
    let lines = text.lines().map(|line| match line.strip_prefix("0x") {
        Some(entry) => format!("REF {}", entry.split_once(' ').unwrap().1),
        None => line.replace(&place, "DIR"),
    });
    lines.collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
}

/// What requests to several connections are told, one after the other: all workers are among those that answer.
fn served(proxy: &Running, request: &Request) -> String {
    let told = |_| {
        let response = Client::connect(proxy).request(request);
        format!("{} {}", response.status, response.text())
    };
    let all: Vec<String> = (0..12).map(told).collect();
    assert!(all.iter().all(|one| *one == all[0]), "workers disagree: {all:?}");
    all[0].clone()
}

fn host(name: &str, path: &str) -> Request {
    Request::get(path).host(name)
}

both_drivers! {
    fn commands_answer_as_haproxy_s_do(io: Io) {
        let [ours, theirs] = [used().io(io).start(), used().by_rival().start()];
        for line in [
            "show map DIR/hosts", "show acl DIR/nets", "show acl DIR/paths", "show map nope", "show acl nope", "show map #99",
            "get map DIR/hosts a.example", "get map DIR/hosts A.example", "get map DIR/hosts", "get map", "get acl DIR/nets 10.1.1.1",
            "get acl DIR/nets 11.1.1.1", "get acl DIR/nets xx", "get map DIR/sources 10.1.2.3", "get map DIR/shapes /x12", "get acl DIR/paths /x",
            "add map DIR/hosts k v", "add map DIR/hosts k", "add map DIR/hosts", "add map", "add map nope a b", "add acl DIR/nets 1.2.3",
            "add acl DIR/nets", "add acl", "add acl DIR/nets 11.0.0.0/8", "show acl DIR/nets", "get acl DIR/nets 11.1.1.1",
            "set map DIR/hosts k v2", "set map DIR/hosts nokey v2", "set map DIR/hosts #0xfffffffff v", "set map DIR/hosts k", "set map", "show map DIR/hosts",
            "del map DIR/hosts nokey", "del map DIR/hosts k", "del map DIR/hosts", "del map DIR/hosts #0xfffffffff", "del map", "del acl",
            "del acl DIR/nets 11.0.0.0/8", "add map DIR/hosts a.example again", "get map DIR/hosts a.example", "show map DIR/hosts",
            "prepare map", "prepare map DIR/hosts", "add map @1 DIR/hosts new nv", "add map @9 DIR/hosts new nv", "show map @1 DIR/hosts",
            "show map DIR/hosts", "commit map @9 DIR/hosts", "commit map DIR/hosts", "commit map", "commit map @1 DIR/hosts",
            "commit map @1 DIR/hosts", "show map DIR/hosts", "add map DIR/hosts <<\nx y z\nw\n", "show map DIR/hosts", "add map DIR/hosts <<\nq r s\n# t\n",
            "show map DIR/hosts", "clear map @1 DIR/hosts", "show map DIR/hosts", "clear map @7 DIR/hosts", "clear map", "clear acl", "clear acl DIR/paths",
            "show acl DIR/paths", "prepare acl DIR/nets", "commit acl @1 DIR/nets", "show acl DIR/nets",
        ] {
            assert_eq!(told(&ours, line), told(&theirs, line), "{line}");
        }
        // HAProxy lets everybody change lists; its manual does not.
        assert_eq!(told(&ours, "user;add map DIR/hosts a b"), "\nPermission denied");
        // In the overview, HAProxy says in which lines a list is used; and it counts patterns within the file as lists.
        let overview = |proxy: &Running, line: &str| {
            let text = told(proxy, line);
            let files = text.lines().filter(|line| line.contains("(DIR/"));
            let words = files.map(|line| (line.split(' ').nth(1).unwrap().to_owned(), line.split_once("curr_ver").unwrap().1.to_owned()));
            let mut all: Vec<(String, String)> = words.collect();
            all.sort();
            all
        };
        assert_eq!(overview(&ours, "show map"), overview(&theirs, "show map"));
        assert_eq!(overview(&ours, "show map").len(), 3);
    }

    fn requests_see_changes_at_once_on_all_workers(io: Io) {
        let proxy = used().io(io).start();
        assert_eq!(served(&proxy, &host("b.example", "/")), "200 two words/-");
        told(&proxy, "add map DIR/hosts c.example three;set map DIR/hosts b.example two;del map DIR/hosts a.example;add map DIR/shapes ^/y root");
        assert_eq!(served(&proxy, &host("c.example", "/x1")), "200 three/number");
        assert_eq!(served(&proxy, &host("b.example", "/y")), "200 two/root");
        assert_eq!(served(&proxy, &host("a.example", "/")), "200 none/-");
        // Without regard to case, as the ACL says, and beside the pattern that the configuration has itself.
        assert_eq!(served(&proxy, &host("b.example", "/admin/x")), "200 inner");
        assert_eq!(served(&proxy, &host("b.example", "/INNER")), "200 inner");
        told(&proxy, "del acl DIR/paths /Admin;add acl DIR/paths /Yard");
        assert_eq!(served(&proxy, &host("b.example", "/admin/x")), "200 two/-");
        assert_eq!(served(&proxy, &host("b.example", "/yARD")), "200 inner");
        let from = |address: &str| Request::get("/").header("X-From", address);
        assert_eq!(served(&proxy, &from("10.1.1.1")), "200 none/-");
        assert!(served(&proxy, &from("10.2.1.1")).starts_with("403"));
        told(&proxy, "add map DIR/sources 10.1.1.0/24 bad");
        assert!(served(&proxy, &from("10.1.1.1")).starts_with("403"));
        told(&proxy, "add acl DIR/nets 127.0.0.0/8");
        assert!(served(&proxy, &host("b.example", "/")).starts_with("403"));
        told(&proxy, "clear acl DIR/nets");
        assert_eq!(served(&proxy, &host("b.example", "/")), "200 two/-");
        // Thousands at once are taken up as a whole.
        let many: String = (0..6000).map(|n| format!("m{n}.example v{n}\n")).collect();
        assert_eq!(told(&proxy, &format!("add map DIR/hosts <<\n{many}")), "");
        assert_eq!(served(&proxy, &host("m5999.example", "/")), "200 v5999/-");
    }

    fn a_version_takes_the_place_of_another_as_a_whole(io: Io) {
        let proxy = used().io(io).start();
        assert_eq!(told(&proxy, "prepare map DIR/hosts"), "New version created: 1");
        told(&proxy, "add map @1 DIR/hosts a.example new");
        assert_eq!(served(&proxy, &host("a.example", "/")), "200 one/-");
        told(&proxy, "commit map @1 DIR/hosts");
        assert_eq!(served(&proxy, &host("a.example", "/")), "200 new/-");
        assert_eq!(served(&proxy, &host("b.example", "/")), "200 none/-");
    }

    fn rules_change_lists(io: Io) {
        let rules = " http-request set-map({dir}/hosts) %[hdr(x-key)] %[hdr(x-value)] if { path /set }\n\
            http-request del-map({dir}/hosts) %[hdr(x-key)] if { path /del }\n\
            http-request add-acl({dir}/banned) %[hdr(x-key)] if { path /ban }\n\
            http-request del-acl({dir}/banned) %[hdr(x-key)] if { path /free }\n\
            http-request deny if { hdr(x-key) -f {dir}/banned }\n\
            http-request return status 200 content-type text/plain lf-string %[hdr(x-key),map({dir}/hosts,none)]\n";
        let proxy = Proxy::haproxy(&file(rules)).io(io).file("hosts", HOSTS).file("banned", "").start();
        let once = |path: &str| {
            let request = Request::get(path).header("X-Key", "k").header("X-Value", "v1");
            let response = Client::connect(&proxy).request(&request);
            if response.status == 200 { response.text() } else { response.status.to_string() }
        };
        assert_eq!(once("/"), "none");
        assert_eq!(once("/set"), "v1", "rules after it see it already");
        assert_eq!(served(&proxy, &Request::get("/").header("X-Key", "k")), "200 v1");
        once("/set");
        assert_eq!(told(&proxy, "show map DIR/hosts").lines().count(), 3, "it is set, not added again");
        assert_eq!(once("/del"), "none");
        assert_eq!(once("/ban"), "403");
        once("/ban");
        assert_eq!(told(&proxy, "show acl DIR/banned"), "REF k");
        assert!(served(&proxy, &Request::get("/").header("X-Key", "k")).starts_with("403"));
        assert_eq!(once("/free"), "none");
    }
}

#[test]
fn changes_last_until_the_file_is_edited() {
    let mut proxy = used().start();
    told(&proxy, "add map DIR/hosts c.example three");
    proxy.reload_same();
    assert_eq!(served(&proxy, &host("c.example", "/")), "200 three/-");
    assert_eq!(told(&proxy, "get map DIR/hosts c.example").split(',').nth(2), Some(" found=yes"));
    proxy.write("hosts", "a.example edited\n");
    proxy.reload_same();
    assert_eq!(served(&proxy, &host("a.example", "/")), "200 edited/-");
    assert_eq!(served(&proxy, &host("c.example", "/")), "200 none/-");
    proxy.wait_for_log("hosts was edited: what was changed of its list while running is forgotten");
}

#[test]
fn a_key_that_is_none_is_an_error_of_the_configuration() {
    let (code, said) = used().file("nets", "10.0.0.0/8\nnonsense\n").check();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("'nonsense' is not a valid IPv4 or IPv6 address"), "{said}");
    let (code, said) = used().file("shapes", "( x\n").check();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("regex '(' is invalid"), "{said}");
}

#[test]
fn files_of_two_columns_serve_acls_by_their_keys() {
    let rules = " http-request return status 200 content-type text/plain string listed if { path -M -f {dir}/pages }\n http-request return status 404\n";
    let proxy = Proxy::haproxy(&file(rules)).file("pages", "/a value\n").start();
    assert_eq!(served(&proxy, &Request::get("/a")), "200 listed");
    assert!(served(&proxy, &Request::get("/b")).starts_with("404"));
    told(&proxy, "add map DIR/pages /b x");
    assert_eq!(served(&proxy, &Request::get("/b")), "200 listed");
}
