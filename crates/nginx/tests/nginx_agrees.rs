//! Debian's nginx and Weir take and refuse the same files, where both should. Skipped where there is no nginx.

#![allow(clippy::unwrap_used, reason = "a test helper may stop the test")]

use std::path::Path;
use std::process::Command;

use weir_nginx::{Disk, Options, load};

/// Bodies of `http`, and whether they are right.
const HTTP: &[(&str, bool)] = &[
    (
        "server { listen 127.0.0.1:18080; server_name a b *.c d.* .e ~^f\\d+$; location / { return 200 x; } }",
        true,
    ),
    ("server { listen 127.0.0.1:18080 default_server backlog=511 reuseport; listen 127.0.0.1:18081; }", true),
    ("server { listen 127.0.0.1:18080 deferred so_keepalive=30m::10; }", true),
    ("server { listen 127.0.0.1:18080; listen 127.0.0.1:18080; }", false),
    (
        "server { listen 127.0.0.1:18080 default_server; } server { listen 127.0.0.1:18080 default_server; }",
        false,
    ),
    ("server { listen 127.0.0.1:18080 backlog=1; } server { listen 127.0.0.1:18080 backlog=2; }", false),
    ("server { listen 127.0.0.1:x; }", false),
    ("server { listen 127.0.0.1:18080 fast; }", false),
    ("server { listen 127.0.0.1:18080 ssl; }", false),
    ("server { server_name a*b.c; listen 127.0.0.1:18080; }", true),
    ("server { location / { } location / { } }", false),
    ("server { location /a { location /b { } } }", false),
    ("server { location /a { location /a/b { } location ~ x { } } }", true),
    ("server { location = /a { location /a/b { } } }", false),
    ("server { location @a { } location / { try_files $uri @a; } }", true),
    ("server { location / { location @a { } } }", false),
    (
        "server { location ~ \\.php$ { } location ~* \"^/a{2,3}$\" { } location ^~ /x { } location =/y { } location ~z { } }",
        true,
    ),
    ("server { location ~ ( { } }", false),
    ("server { location ! /x { } }", false),
    (
        "server { location / { proxy_pass http://127.0.0.1:1; } location /a/ { proxy_pass http://127.0.0.1:1/b/; } }",
        true,
    ),
    ("server { location ~ x { proxy_pass http://127.0.0.1:1/b/; } }", false),
    ("server { location / { if ($arg_a) { proxy_pass http://127.0.0.1:1/b/; } } }", false),
    ("server { location / { proxy_pass 127.0.0.1:1; } }", false),
    ("server { location / { proxy_pass http://unix:/tmp/x.sock:/a/; } }", true),
    (
        "upstream u { server 127.0.0.1:1 weight=2 max_fails=3 fail_timeout=30s max_conns=5 backup; server 127.0.0.2; keepalive 8; } server { location / { proxy_pass http://u; } }",
        true,
    ),
    ("upstream u { server 127.0.0.1:1; } server { location / { proxy_pass http://u:81; } }", false),
    ("upstream u { }", false),
    ("upstream u { server 127.0.0.1:1; } upstream u { server 127.0.0.1:1; }", false),
    ("upstream u { server 127.0.0.1:1 weight=0; }", false),
    ("upstream u { server 127.0.0.1:1 wieght=1; }", false),
    (
        "upstream u { least_conn; server 127.0.0.1:1; } upstream v { hash $request_uri consistent; server 127.0.0.1:1; } upstream w { random two least_conn; server 127.0.0.1:1; zone w 64k; } upstream x { ip_hash; server 127.0.0.1:1; }",
        true,
    ),
    (
        "map $http_host $a { default 0; ~^x 1; \"~*^Y\" $host; hostnames; *.b.c 2; } server { return 200 $a; }",
        true,
    ),
    ("map $http_host $a { x; }", false),
    ("map $http_host a { x 1; }", false),
    ("map $http_host $a { x 1; x 2; }", false),
    (
        "geo $a { default 0; 10.0.0.0/8 1; ::1 2; } split_clients $remote_addr $b { 50% a; * b; } server { return 200 $a$b; }",
        true,
    ),
    ("geo $a { ten 1; }", false),
    ("split_clients $remote_addr $b { 60% a; 50% b; }", false),
    ("server { return 200 $nothing; }", false),
    ("server { return 200 $arg_x$http_x_y$cookie_z$sent_http_a$upstream_http_b; }", true),
    ("server { location ~ ^/(?<name>.*)$ { return 200 $name; } }", true),
    (
        "server { set $a 1; if ($a = 1) { return 200; } if ($a != x) { set $b 2; } if (-f $uri) { break; } if (!-e $request_filename) { rewrite ^ /x last; } }",
        true,
    ),
    ("server { if ($a = 1) { return 200; } }", false),
    ("server { set $a 1; if ($a == 1) { return 200; } }", false),
    ("server { set $a 1; if $a { return 200; } }", false),
    ("server { set $host 1; }", false),
    ("server { set a 1; }", false),
    ("server { if ($arg_a) { proxy_pass http://127.0.0.1; } }", false),
    ("server { location / { if ($arg_a ~* \"^(x|y)$\") { add_header A $1; root /tmp; } } }", true),
    (
        "server { rewrite ^/a/(.*)$ /b/$1? last; rewrite ^/c http://x/ permanent; rewrite ^/d /e redirect; }",
        true,
    ),
    ("server { rewrite ^/a /b lost; }", false),
    ("server { rewrite ^/a; }", false),
    ("server { return; }", false),
    ("server { return foo; }", false),
    ("server { return 301 https://$host$request_uri; }", true),
    ("server { return https://$host$request_uri; }", true),
    (
        "server { error_page 404 /404.html; error_page 500 502 =200 /x; error_page 503 = @b; error_page 403 http://x/; location @b { } }",
        true,
    ),
    ("server { error_page 200 /x; }", false),
    ("server { error_page 499 /x; }", false),
    ("server { error_page 404; }", false),
    ("server { try_files $uri; }", false),
    ("server { try_files $uri $uri/ /index.php?$args; }", true),
    ("server { try_files $uri =404; location /x { try_files a =zzz; } }", false),
    ("server { add_header A b always; add_header C $host; add_header D; }", false),
    ("server { add_header A b sometimes; }", false),
    (
        "server { expires 30d; location /a { expires modified +24h; } location /b { expires @15h30m; } location /c { expires -1; } location /d { expires max; } location /e { expires epoch; } }",
        true,
    ),
    ("server { expires soon; }", false),
    (
        "log_format x escape=json '{\"a\":\"$remote_addr\"}'; access_log off; server { access_log /dev/null x buffer=4k flush=5s if=$arg_a; }",
        true,
    ),
    ("server { access_log /dev/null nothing; }", false),
    ("log_format x escape=yes '$host';", false),
    ("log_format x '$host'; log_format x '$uri';", false),
    (
        "server { access_log syslog:server=127.0.0.1,facility=local7,tag=n,severity=info combined; error_log stderr warn; }",
        true,
    ),
    ("server { error_log stderr wrn; }", false),
    (
        "limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s; server { location / { limit_req zone=a burst=5 nodelay; limit_req_status 429; } }",
        true,
    ),
    ("limit_req_zone $binary_remote_addr zone=a:1m rate=10; server { }", true),
    ("limit_req_zone $binary_remote_addr rate=10r/s;", false),
    ("server { limit_req zone=a; }", false),
    (
        "limit_conn_zone $binary_remote_addr zone=b:1m; server { limit_conn b 5; limit_conn_status 429; }",
        true,
    ),
    ("limit_conn_zone $binary_remote_addr zone=b:1m; server { limit_conn b 0; }", false),
    (
        "server { allow 10.0.0.0/8; allow ::1; deny all; satisfy any; auth_basic \"x y\"; auth_basic_user_file /tmp/x; }",
        true,
    ),
    ("server { allow 10.0.0.0/33; }", false),
    ("server { satisfy some; }", false),
    ("set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on; server { }", true),
    ("set_real_ip_from ten;", false),
    (
        "gzip on; gzip_types text/css application/json; gzip_comp_level 6; gzip_min_length 1k; gzip_proxied any; gzip_vary on; gzip_disable msie6; server { }",
        true,
    ),
    ("gzip maybe;", false),
    ("gzip on; gzip on;", false),
    ("gzip_comp_level 12;", false),
    (
        "client_max_body_size 10m; client_body_timeout 10s; keepalive_timeout 65 60; keepalive_requests 100; large_client_header_buffers 4 16k; send_timeout 1h30m; server { }",
        true,
    ),
    ("client_max_body_size 10x;", false),
    ("keepalive_timeout 1h6;", true),
    ("keepalive_timeout ten;", false),
    (
        "server { root /tmp; index a.html b.html; autoindex on; location /x/ { alias /y/; } location /z { internal; } }",
        true,
    ),
    ("server { location / { root /a; alias /b; } }", false),
    ("server { alias /b; }", false),
    (
        "server { types { text/html html htm; } default_type text/plain; location / { types { } default_type x/y; } }",
        true,
    ),
    ("server { location = /s { stub_status; } location = /t { stub_status on; } }", true),
    ("server { location / { limit_except GET POST { deny all; } } }", true),
    (
        "server { location / { proxy_set_header Host $host; proxy_set_header A \"\"; proxy_http_version 1.1; proxy_redirect off; proxy_buffers 8 16k; proxy_buffer_size 16k; proxy_next_upstream error timeout http_502 non_idempotent; proxy_pass http://127.0.0.1; } }",
        true,
    ),
    (
        "server { location / { proxy_pass http://127.0.0.1; proxy_redirect default; proxy_redirect ~^http://a(.*) $1; } }",
        true,
    ),
    ("server { location / { proxy_http_version 3; } }", false),
    ("server { location / { proxy_next_upstream sometimes; } }", false),
    (
        "server { resolver 127.0.0.1 valid=30s ipv6=off; location / { proxy_pass http://$host$uri; proxy_cookie_path / /a; proxy_cookie_domain a.b c.d; } }",
        true,
    ),
    ("server { resolver 127.0.0.1 vlaid=30s; }", false),
    (
        "server { location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; fastcgi_split_path_info ^(.+\\.php)(/.+)$; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info if_not_empty; } }",
        true,
    ),
    ("server { location / { fastcgi_pass nowhere; } }", false),
    ("server { location / { fastcgi_split_path_info ^(.+)$; } }", false),
    (
        "server { listen 127.0.0.1:18080; charset utf-8; server_tokens off; etag off; if_modified_since before; max_ranges 1; merge_slashes off; underscores_in_headers on; }",
        true,
    ),
    ("sever { }", false),
    ("server { lisen 80; }", false),
    ("listen 80;", false),
    ("server { server { } }", false),
    ("server { location / { server_name x; } }", false),
    ("server { server_name a; server_name; }", false),
    ("server { root a b; }", false),
    ("server { root /a; root /b; }", false),
    ("server { index; }", false),
    ("server { root /a }", false),
    ("server { root /a; ", false),
    ("server { root \"/a; } }", false),
    ("server { root \"/a\"b; }", false),
    ("server { root /a;; }", false),
    ("server { return 200 'it\\'s'; } # the end", true),
    ("server { return 200 \"${host}$uri\"; return 200 '$'; }", false),
    ("include /nowhere/x.conf;", false),
    ("include /nowhere/*.conf;", true),
    ("server { valid_referers; }", false),
    (
        "server { sendfile on; tcp_nopush on; tcp_nodelay on; aio threads; directio 4m; open_file_cache max=10; lingering_close always; reset_timedout_connection on; }",
        true,
    ),
    (
        "server { disable_symlinks if_not_owner from=/tmp; limit_rate 10k; limit_rate_after 1m; limit_rate_after 2m; }",
        false,
    ),
    (
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5; ssl_session_cache shared:a:1m; ssl_session_timeout 10m; ssl_prefer_server_ciphers on; server { }",
        true,
    ),
    ("ssl_protocols TLSv9;", false),
    ("ssl_session_cache shared:a;", false),
];

fn nginx(path: &Path, folder: &Path) -> (bool, String) {
    let output = Command::new("nginx").arg("-t").arg("-p").arg(folder).arg("-c").arg(path).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn both_take_and_refuse_the_same() {
    if Command::new("nginx").arg("-v").output().is_err() {
        eprintln!("skipped: there is no nginx on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let path = folder.path().join("nginx.conf");
    let mut failures = Vec::new();
    for (body, right) in HTTP {
        let temp = folder.path().display();
        let dirs: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|d| format!("{d}_temp_path {temp}/{d};"))
            .concat();
        let log = if body.contains("access_log") { "" } else { "access_log off; " };
        let text =
            format!("pid {temp}/pid; error_log stderr;\nevents {{ }}\nhttp {{ {log}{dirs}\n{body}\n}}\n");
        std::fs::write(&path, &text).unwrap();
        let options = Options { prefix: folder.path().into(), ..Options::default() };
        let loaded = load(&Disk, &path, &options);
        let ours = !loaded.has_errors();
        let (theirs, words) = nginx(&path, folder.path());
        if ours != *right || theirs != *right {
            let drawn: String = loaded
                .diagnostics
                .iter()
                .map(|d| weir_diag::render_terminal(d, &loaded.sources, false))
                .collect();
            failures.push(format!("{body}\n  right: {right}, nginx: {theirs}, weir: {ours}\n{words}{drawn}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), HTTP.len(), failures.join("\n"));
}
