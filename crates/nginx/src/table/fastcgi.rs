//! Words about FastCGI (nginx.org, ngx_http_fastcgi_module).

use std::sync::Arc;

use super::entry::Kind::{Flag, Number, Size, Text, Time};
use super::entry::places::{H, HSL, LI};
use super::entry::{Entry, MANY};
use crate::lower::Scope;
use crate::lower::args::{bytes, count, limit, on, time};
use crate::lower::scope::FastCgiScope;
use crate::lower::{fastcgi, upstream_settings as settings};
use weir_model::settings::UpstreamSettings;

const CACHE: &str = "caching is not built yet; every request goes to the upstream";
const STORE: &str = "storing answers as files is not built";
const ALWAYS: &str = "Weir forwards bytes as they come";

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("fastcgi_pass", LI, Text, "", "Sends requests to a FastCGI server.").place(fastcgi::pass),
    Entry::new("fastcgi_param", HSL, (2, 3), "", "A parameter.").repeats().scope(fastcgi::param),
    Entry::one("fastcgi_index", HSL, Text, "", "Appended to paths that end with `/`.")
        .scope(|_, s, d| s.fastcgi_mut().index = Some(d.arg(0).to_owned())),
    Entry::one("fastcgi_split_path_info", HSL, Text, "", "Splits script and path info.")
        .scope(fastcgi::split_path_info),
    Entry::one("fastcgi_keep_conn", HSL, Flag, "off", "Keeps connections.")
        .scope(|_, s, d| s.fastcgi_mut().keep_connection = on(d)),
    Entry::new("fastcgi_bind", HSL, (1, 2), "", "Local address towards upstreams.")
        .not_yet("local addresses towards FastCGI servers are not built"),
    Entry::one("fastcgi_catch_stderr", HSL, Text, "", "Treats texts on standard error as failures.")
        .repeats()
        .not_yet("standard error of FastCGI servers is only logged"),
    Entry::one("fastcgi_send_lowat", HSL, Size, "0", "Low-water mark of sockets.")
        .tuning("it has no effect on Linux"),
];

impl Scope {
    pub(crate) fn fastcgi_mut(&mut self) -> &mut FastCgiScope {
        Arc::make_mut(&mut self.fastcgi)
    }
}
