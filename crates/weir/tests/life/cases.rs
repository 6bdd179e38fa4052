//! Starts, signals, reloads and ends.

use std::io::Write;
use std::net::TcpListener;

use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Certificate, Port, eventually, programs};

use crate::Case;
use crate::scene::{NOBODY, Scene, alive, code_of, exists, facts, is_root, try_facts, until_gone};

pub(crate) const ALL: &[Case] = &[
    ("run_serves_and_tells_the_service_manager", run_serves_and_tells_the_service_manager),
    ("the_daemons_parent_waits_for_the_ports", the_daemons_parent_waits_for_the_ports),
    ("a_port_in_use_ends_the_start_with_its_reason", a_port_in_use_ends_the_start_with_its_reason),
    ("nginxs_signals_by_its_own_flags", nginxs_signals_by_its_own_flags),
    ("a_broken_or_empty_file_changes_nothing", a_broken_or_empty_file_changes_nothing),
    ("weir_reload_tells_the_outcome", weir_reload_tells_the_outcome),
    ("listeners_come_and_go_by_difference", listeners_come_and_go_by_difference),
    ("workers_go_down_and_up_again", workers_go_down_and_up_again),
    ("logs_are_opened_again_by_name", logs_are_opened_again_by_name),
    ("haproxys_signals", haproxys_signals),
    ("haproxy_takes_over_from_old_processes", haproxy_takes_over_from_old_processes),
    ("haproxy_in_the_background", haproxy_in_the_background),
    ("haproxys_pid_file_is_of_daemons_and_masters", haproxys_pid_file_is_of_daemons_and_masters),
    ("haproxy_becomes_whom_its_file_names", haproxy_becomes_whom_its_file_names),
    ("the_keeper_starts_a_killed_data_plane_again", the_keeper_starts_a_killed_data_plane_again),
    (
        "certificates_are_read_after_privileges_were_dropped",
        certificates_are_read_after_privileges_were_dropped,
    ),
    ("the_keeper_reloads_listeners_and_drains", the_keeper_reloads_listeners_and_drains),
    ("an_orphaned_data_plane_ends", an_orphaned_data_plane_ends),
    ("an_unknown_user_is_an_error", an_unknown_user_is_an_error),
    ("more_open_files_than_granted_is_a_warning", more_open_files_than_granted_is_a_warning),
    ("reloads_that_overlap_are_all_answered", reloads_that_overlap_are_all_answered),
];

fn config(scene: &Scene, name: &str) -> String {
    scene.path(name).display().to_string()
}

fn run_serves_and_tells_the_service_manager() {
    let scene = Scene::new();
    scene.nginx("worker_processes 2;", "");
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    let facts = scene.facts();
    assert_eq!((facts["generation"].as_str(), facts["workers"].as_str()), ("1", "2"));
    assert_eq!(scene.pid() as u32, process.pid());
    process.signal(Signal::HUP);
    scene.until_told("RELOADING=1", &process);
    scene.until_told("READY=1", &process);
    scene.until("generation", "2");
    process.signal(Signal::TERM);
    scene.until_told("STOPPING=1", &process);
    assert_eq!(code_of(&mut process), Some(0));
    assert!(!exists(&scene.path("weir.pid")));
}

fn the_daemons_parent_waits_for_the_ports() {
    let scene = Scene::new();
    scene.nginx("", "");
    let file = config(&scene, "nginx.conf");
    let (code, printed) = scene.run(&["nginx", "-c", &file, "-g", "daemon on; master_process on;"]);
    assert_eq!(code, 0, "{printed}");
    // No waiting here: the ports must be bound and the pid file written by now.
    let pid = scene.pid();
    assert!(scene.facts().contains_key("generation"));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit(") ").next().unwrap().split(' ').collect::<Vec<_>>();
    assert_eq!(after[3].parse::<i32>().unwrap(), pid, "it leads a session of its own");
    let (code, printed) = scene.run(&["nginx", "-c", &file, "-s", "quit"]);
    assert_eq!(code, 0, "{printed}");
    until_gone(pid);
    assert!(!exists(&scene.path("weir.pid")));
}

fn a_port_in_use_ends_the_start_with_its_reason() {
    let scene = Scene::new();
    scene.nginx("", "");
    let _held = TcpListener::bind(("127.0.0.1", scene.port.number())).unwrap();
    let file = config(&scene, "nginx.conf");
    for globals in ["daemon on;", "daemon off;"] {
        let (code, printed) = scene.run(&["nginx", "-c", &file, "-g", globals]);
        assert_eq!(code, 1, "{printed}");
        let expected =
            format!("nginx: [emerg] bind() to 127.0.0.1:{} failed (98: Address", scene.port.number());
        assert!(printed.contains(&expected), "{printed}");
        assert!(!exists(&scene.path("weir.pid")));
    }
}

fn nginxs_signals_by_its_own_flags() {
    let scene = Scene::new();
    let file = scene.nginx("daemon off;", "").display().to_string();
    let mut process = scene.start(&["nginx", "-c", &file]);
    let send = |word: &str| assert_eq!(scene.run(&["nginx", "-c", &file, "-s", word]), (0, String::new()));
    send("reload");
    scene.until("generation", "2");
    send("reopen");
    scene.until_logged("logs are open again");
    send("stop");
    assert_eq!(code_of(&mut process), Some(0));
    let (code, printed) = scene.run(&["nginx", "-c", &file, "-s", "reload"]);
    assert_eq!(code, 1);
    assert!(printed.starts_with("nginx: [error] open() \""), "{printed}");
}

fn a_broken_or_empty_file_changes_nothing() {
    let scene = Scene::new();
    scene.nginx("", "");
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    for text in ["http { lisn 80; }\n", "", "events {}\n"] {
        scene.write("nginx.conf", text);
        std::fs::write(scene.path("error.log"), "").unwrap();
        process.signal(Signal::HUP);
        scene.until_logged("refused");
        assert_eq!(scene.facts()["generation"], "1", "after {text:?}");
    }
    scene.nginx("", "");
    process.signal(Signal::HUP);
    eventually("a later generation", || (scene.facts()["generation"] != "1").then_some(()));
    process.expect_clean_exit(Signal::QUIT);
}

fn weir_reload_tells_the_outcome() {
    let scene = Scene::new();
    scene.nginx("", "");
    let _process = scene.start(&["run", "-c", "nginx.conf"]);
    let (code, printed) = scene.run(&["reload", "--pid", "weir.pid"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(scene.facts()["generation"], "2");
    let (code, printed) = scene.run(&["reload", "-c", "nginx.conf"]);
    assert_eq!(code, 0, "{printed}");
    scene.nginx("", "lisn 80;");
    let (code, printed) = scene.run(&["reload", "--pid", "weir.pid"]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("lisn") && printed.contains("refused"), "{printed}");
    assert_eq!(scene.facts()["generation"], "3");
}

fn listeners_come_and_go_by_difference() {
    let scene = Scene::new();
    let other = Port::lease();
    scene.nginx("worker_processes 2;", "");
    let _process = scene.start(&["run", "-c", "nginx.conf"]);
    let reload = || scene.run(&["reload", "--pid", "weir.pid"]);
    scene.nginx("worker_processes 2;", &format!("listen 127.0.0.1:{other};"));
    assert_eq!(reload().0, 0);
    assert_eq!(facts(&other)["sockets"], "2+2");
    scene.nginx("worker_processes 2;", "");
    assert_eq!(reload().0, 0);
    assert!(try_facts(&other).is_none(), "a removed listener is closed");
    let _held = TcpListener::bind(("127.0.0.1", other.number())).unwrap();
    let third = Port::lease();
    scene.nginx("", &format!("listen 127.0.0.1:{third}; listen 127.0.0.1:{other};"));
    let (code, printed) = reload();
    assert_eq!(code, 1);
    assert!(printed.contains(&format!("bind() to 127.0.0.1:{other} failed")), "{printed}");
    assert!(try_facts(&third).is_none(), "a refused reload leaves no listener");
    assert_eq!(scene.facts()["generation"], "3");
}

fn workers_go_down_and_up_again() {
    let scene = Scene::new();
    scene.nginx("worker_processes 2;", "");
    let _process = scene.start(&["run", "-c", "nginx.conf"]);
    for (workers, sockets) in [("1", "2"), ("2", "2"), ("3", "3")] {
        scene.nginx(&format!("worker_processes {workers};"), "");
        assert_eq!(scene.run(&["reload", "--pid", "weir.pid"]).0, 0);
        let facts = scene.facts();
        assert_eq!((facts["workers"].as_str(), facts["sockets"].as_str()), (workers, sockets));
    }
}

fn logs_are_opened_again_by_name() {
    let scene = Scene::new();
    scene.nginx("", "");
    let process = scene.start(&["run", "-c", "nginx.conf"]);
    scene.facts();
    let (log, old) = (scene.path("access.log"), scene.path("access.log.1"));
    std::fs::rename(&log, &old).unwrap();
    process.signal(Signal::USR1);
    eventually("a line in the new file", || {
        scene.facts();
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("generation=1")).then_some(())
    });
    assert!(std::fs::read_to_string(old).unwrap().contains("generation=1"));
}

fn haproxys_signals() {
    let scene = Scene::new();
    let file = scene.haproxy("").display().to_string();
    let words = ["haproxy", "-Ws", "-f", &file];
    let mut process = scene.start(&words);
    assert_eq!(scene.pid() as u32, process.pid());
    process.signal(Signal::USR2);
    scene.until("generation", "2");
    process.signal(Signal::HUP);
    scene.until("generation", "3");
    process.signal(Signal::USR1);
    assert_eq!(code_of(&mut process), Some(0));
    let mut process = scene.start(&words);
    process.signal(Signal::TERM);
    assert_eq!(code_of(&mut process), Some(143));
    let mut process = scene.start(&["haproxy", "-db", "-f", &file]);
    process.signal(Signal::HUP);
    process.wait_for_output("the double is well");
    assert_eq!(scene.facts()["generation"], "1");
    process.signal(Signal::INT);
    assert_eq!(code_of(&mut process), Some(0));
}

fn haproxy_takes_over_from_old_processes() {
    let scene = Scene::new();
    let file = scene.haproxy("").display().to_string();
    let mut old = scene.start(&["haproxy", "-db", "-f", &file]);
    let mut new = scene.start(&["haproxy", "-db", "-f", &file, "-sf", &old.pid().to_string()]);
    assert_eq!(code_of(&mut old), Some(0));
    assert_eq!(scene.facts()["pid"], new.pid().to_string());
    new.expect_clean_exit(Signal::TERM);
}

fn haproxy_in_the_background() {
    let scene = Scene::new();
    let file = scene.haproxy("  daemon").display().to_string();
    let pid_file = config(&scene, "other.pid");
    let (code, printed) = scene.run(&["haproxy", "-f", &file, "-D", "-p", &pid_file]);
    assert_eq!(code, 0, "{printed}");
    let pid: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert_eq!(scene.facts()["pid"], pid.to_string());
    scene.signal(pid, Signal::TERM);
    until_gone(pid);
}

fn haproxys_pid_file_is_of_daemons_and_masters() {
    let scene = Scene::new();
    let file = scene.haproxy("").display().to_string();
    let mut process = scene.start(&["haproxy", "-f", &file]);
    assert!(!exists(&scene.path("weir.pid")), "none in the foreground");
    process.expect_clean_exit(Signal::USR1);
    let mut process = scene.start(&["haproxy", "-W", "-f", &file]);
    assert_eq!(scene.pid() as u32, process.pid());
    process.expect_clean_exit(Signal::USR1);
    scene.haproxy("  master-worker");
    let mut process = scene.start(&["haproxy", "-f", &file]);
    assert_eq!(scene.pid() as u32, process.pid());
    process.expect_clean_exit(Signal::USR1);
}

fn haproxy_becomes_whom_its_file_names() {
    if !other_user("haproxy_becomes_whom_its_file_names") {
        return;
    }
    let scene = Scene::new();
    let jail = scene.path("jail");
    std::fs::create_dir(&jail).unwrap();
    let (nobody, jail) = (NOBODY, jail.display());
    for (global, uid, gid, root) in [
        (format!("  user nobody\n  group nogroup\n  chroot {jail}"), nobody, nobody, jail.to_string()),
        (format!("  uid {nobody}\n  gid {nobody}"), nobody, nobody, "/".to_owned()),
        // What is said first holds: a second line does not bring root back.
        (format!("  user nobody\n  uid 0\n  gid {nobody}\n  group root"), nobody, nobody, "/".to_owned()),
        // A group alone keeps the user.
        ("  group nogroup".to_owned(), 0, nobody, "/".to_owned()),
    ] {
        let file = scene.haproxy(&global).display().to_string();
        let mut process = scene.start(&["haproxy", "-db", "-f", &file]);
        let plane = &scene.facts()["pid"];
        let status = std::fs::read_to_string(format!("/proc/{plane}/status")).unwrap();
        let all = |field: &str, id: u32| {
            let line = status.lines().find(|line| line.starts_with(field)).unwrap();
            assert!(line.split_whitespace().skip(1).all(|one| one == id.to_string()), "{global}\n{line}");
        };
        all("Uid:", uid);
        all("Gid:", gid);
        assert_eq!(std::fs::read_link(format!("/proc/{plane}/root")).unwrap().to_string_lossy(), root);
        process.expect_clean_exit(Signal::TERM);
    }
    let (code, printed) =
        scene.run(&["haproxy", "-c", "-f", &scene.haproxy("  uid nobody").display().to_string()]);
    assert_eq!(code, 1, "a name where a number belongs would be root");
    assert!(printed.contains("`user nobody`"), "{printed}");
}

/// These cases need another user to become. As root of nothing but a namespace there is none, and that is said.
pub(crate) fn other_user(name: &str) -> bool {
    let possible = is_root();
    if !possible {
        eprintln!("{name}: only the machine's root can become another user; not tested here");
    }
    possible
}

fn the_keeper_starts_a_killed_data_plane_again() {
    if !other_user("the_keeper_starts_a_killed_data_plane_again") {
        return;
    }
    let scene = Scene::new();
    scene.nginx("user nobody nogroup; worker_processes 2;", "");
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    let before = scene.facts();
    assert_eq!(before["uid"], NOBODY.to_string());
    assert_ne!(before["pid"], process.pid().to_string());
    assert_eq!(scene.pid() as u32, process.pid(), "the pid file names the keeper");
    for _ in 0..3 {
        let victim: i32 = scene.facts()["pid"].parse().unwrap();
        scene.signal(victim, Signal::KILL);
        // The sockets stay open in the keeper, so this connects even while nobody accepts.
        eventually("another data plane", || {
            try_facts(&scene.port).filter(|facts| facts["pid"] != victim.to_string())
        });
    }
    scene.until_logged("exited on signal 9");
    process.signal(Signal::HUP);
    scene.until("generation", "2");
    process.expect_clean_exit(Signal::QUIT);
}

fn certificates_are_read_after_privileges_were_dropped() {
    if !other_user("certificates_are_read_after_privileges_were_dropped") {
        return;
    }
    let scene = Scene::new();
    let write_key = |name: &str| {
        let certificate = Certificate::p256(&["localhost"]);
        scene.write(&format!("{name}.crt"), certificate.chain_pem());
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let path = scene.path(&format!("{name}.key"));
        let mut file = options.write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(certificate.key_pem().as_bytes()).unwrap();
    };
    write_key("a");
    let tls = Port::lease();
    let server = |name: &str| {
        format!(
            "listen 127.0.0.1:{tls} ssl; ssl_certificate {{dir}}/{name}.crt; ssl_certificate_key {{dir}}/{name}.key;"
        )
    };
    scene.nginx("user nobody nogroup;", &server("a"));
    let _process = scene.start(&["run", "-c", "nginx.conf"]);
    assert_eq!(scene.facts()["certificates"], "1");
    write_key("b");
    scene.nginx("user nobody nogroup;", &server("b"));
    let (code, printed) = scene.run(&["reload", "--pid", "weir.pid"]);
    assert_eq!(code, 0, "{printed}");
    let facts = scene.facts();
    assert_eq!((facts["generation"].as_str(), facts["uid"].as_str()), ("2", "65534"));
}

fn the_keeper_reloads_listeners_and_drains() {
    if !other_user("the_keeper_reloads_listeners_and_drains") {
        return;
    }
    let scene = Scene::new();
    let other = Port::lease();
    let with = |server: &str| scene.nginx("user nobody nogroup; worker_processes 2;", server);
    with("");
    let mut process = scene.start(&["nginx", "-c", &config(&scene, "nginx.conf"), "-g", "daemon off;"]);
    let first = scene.facts();
    let reload = || scene.run(&["reload", "--pid", "weir.pid"]);
    for _ in 0..2 {
        with(&format!("listen 127.0.0.1:{other};"));
        assert_eq!(reload().0, 0);
        assert_eq!(facts(&other)["sockets"], "2+2");
        with("");
        assert_eq!(reload().0, 0);
        assert!(try_facts(&other).is_none(), "a removed listener is closed in both processes");
    }
    assert_eq!(scene.facts()["pid"], first["pid"], "no reload starts another data plane");
    let plane: i32 = first["pid"].parse().unwrap();
    process.signal(Signal::QUIT);
    assert_eq!(code_of(&mut process), Some(0));
    assert!(!alive(plane));
    assert!(!exists(&scene.path("weir.pid")));
}

fn an_orphaned_data_plane_ends() {
    if !other_user("an_orphaned_data_plane_ends") {
        return;
    }
    let scene = Scene::new();
    scene.nginx("user nobody nogroup;", "");
    let process = scene.start(&["run", "-c", "nginx.conf"]);
    let plane: i32 = scene.facts()["pid"].parse().unwrap();
    process.signal(Signal::KILL);
    until_gone(plane);
}

fn an_unknown_user_is_an_error() {
    if !other_user("an_unknown_user_is_an_error") {
        return;
    }
    let scene = Scene::new();
    let file = scene.nginx("user no-such-user-here; daemon off;", "").display().to_string();
    let (code, printed) = scene.run(&["nginx", "-c", &file]);
    assert_eq!(code, 1);
    assert!(printed.contains("no-such-user-here"), "{printed}");
}

fn more_open_files_than_granted_is_a_warning() {
    let scene = Scene::new();
    // Beyond fs.nr_open, which not even root passes.
    scene.nginx("worker_rlimit_nofile 4000000000;", "");
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    process.wait_for_output("4000000000 open files were asked for and ");
    assert_eq!(scene.facts()["generation"], "1");
    process.expect_clean_exit(Signal::INT);
}

fn reloads_that_overlap_are_all_answered() {
    let scene = Scene::new();
    let user = if is_root() { "user nobody nogroup;" } else { "" };
    scene.nginx(user, "");
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    let asking: Vec<_> = (0..8)
        .map(|_| scene.command(&["reload", "--pid", "weir.pid"]))
        .map(|command| std::thread::spawn(|| programs::run(command)))
        .collect();
    for answer in asking {
        let (code, printed) = answer.join().unwrap();
        assert_eq!(code, 0, "{printed}");
    }
    assert_eq!(scene.facts()["generation"], "9");
    process.expect_clean_exit(Signal::QUIT);
}
