//! Many sites in one file: their configuration, and requests that reach all over it.
//!
//! Owns: the names of sites and locations; the script that asks for them.
//! Never: favours one site: whoever has one site or many is sent the same requests.
//! Driven by: `servers`, for the mode `sites`.

use crate::configs::{Role, listen, nginx_file, nginx_http, nginx_site};
use std::path::Path;

/// Different requests in the script: enough that no cache holds all they touch.
const REQUESTS: u32 = 2_000;

/// The host name of the n-th site.
fn host(n: u32) -> String {
    format!("site{n}.example.com")
}

/// The folder of the n-th location.
pub(crate) fn location(n: u32) -> String {
    format!("l{n}")
}

/// An nginx.conf of so many sites with so many locations each, all of them with the pages below `root`.
pub(crate) fn nginx(role: &Role<'_>, sites: u32, locations: u32, root: &Path) -> String {
    let mut out = String::from(" server_names_hash_max_size 65536;\n server_names_hash_bucket_size 128;\n");
    let places: String = (0..locations).map(|n| format!("  location /{}/ {{ }}\n", location(n))).collect();
    let address = format!("127.0.0.1:{}", role.port);
    for n in 0..sites {
        let body = format!("root {};\n  server_name {};\n{places}", root.display(), host(n));
        let site = nginx_site(role, &body);
        // One listener: nginx wants its options said once only.
        out += &if n == 0 { site } else { site.replace(&listen(role), &address) };
    }
    nginx_file(role, &nginx_http(&out))
}

/// A script in wrk's Lua. Requests are written out beforehand, so that the generator's cost is the same for all of them.
pub(crate) fn script(page: &str, sites: u32, locations: u32) -> String {
    let mut lua = String::from("local r = {}\n");
    for n in 0..REQUESTS {
        // Steps that share no factor with the number of sites reach all over the file.
        let (site, place) = (u64::from(n) * 4_999 % u64::from(sites), n * 7 % locations);
        lua += &format!(
            "r[{}] = wrk.format('GET', '/{}/{page}', {{ Host = '{}' }})\n",
            n + 1,
            location(place),
            host(site as u32)
        );
    }
    lua + &format!("local i = 0\nfunction request()\n i = i % {REQUESTS} + 1\n return r[i]\nend\n")
}
