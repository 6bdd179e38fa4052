//! FastCGI, with PHP's own server behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use weir_testkit::{Client, Io, Process, Proxy, Request, both_drivers, eventually, programs};

const SCRIPT: &str = "<?php header('X-Script: ' . $_SERVER['SCRIPT_NAME']); if (isset($_GET['status'])) http_response_code((int)$_GET['status']);
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['QUERY_STRING'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', file_get_contents('php://input');
if (isset($_GET['big'])) echo str_repeat('x', 300000);";

/// PHP's process manager on a socket in `dir`.
fn php(dir: &std::path::Path) -> Process {
    let found = std::fs::read_dir("/usr/sbin").unwrap().flatten().map(|e| e.path());
    let program = found
        .filter(|p| p.to_string_lossy().contains("/php-fpm"))
        .max()
        .expect("php-fpm (`cargo xtask deps` installs it)");
    let config = dir.join("fpm.conf");
    let socket = dir.join("php.sock");
    // As root it wants to be told that this is meant; otherwise it may not change users.
    let text = format!(
        "[global]\nerror_log = {0}/fpm.log\ndaemonize = no\n[www]\nlisten = {1}\nlisten.mode = 0666\npm = static\npm.max_children = 2\n{2}",
        dir.display(),
        socket.display(),
        if is_root() { "user = root\ngroup = root\n" } else { "" }
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-F").arg("-n").arg("-y").arg(&config);
    if is_root() {
        command.arg("-R");
    }
    let server = programs::server(command);
    eventually("php-fpm to listen", || std::os::unix::net::UnixStream::connect(&socket).ok());
    server
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

const CONF: &str =
    "worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:{port}; root {dir}/html;
    location ~ ^(.+\\.php)(/.*)?$ {
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        fastcgi_pass unix:{dir}/php.sock; fastcgi_index index.php;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
    } } }";

both_drivers! {
    fn php_answers(io: Io) {
        let proxy = Proxy::nginx(CONF).io(io).file("html/a.php", SCRIPT).start();
        let mut client = Client::connect(&proxy);
        client.get("/a.php").expect_status(502);
        let _php = php(proxy.dir());
        client.get("/a.php?x=1").expect_status(200).expect_header("X-Script", "/a.php").expect_body("GET x=1  ");
        client.get("/a.php/info/x?y").expect_body("GET y /info/x ");
        client.get("/a.php?status=404").expect_status(404);
        let body = vec![b'b'; 100_000];
        let posted = client.request(&Request::post("/a.php", &body));
        assert_eq!(posted.expect_status(200).body.len(), "POST   ".len() + body.len());
        let posted = client.request(&Request::post("/a.php", "chunks").chunked());
        posted.expect_body("POST   chunks");
        assert_eq!(client.get("/a.php?big").body.len(), "GET big  ".len() + 300_000);
        client.request(&Request::head("/a.php")).expect_status(200).expect_body("");
    }
}
