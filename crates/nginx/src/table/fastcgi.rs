//! Words about FastCGI (nginx.org, ngx_http_fastcgi_module).

use std::sync::Arc;

use super::entry::Entry;
use super::entry::Kind::{Flag, Size, Text};
use super::entry::places::{HSL, LI};
use crate::take::Scope;
use crate::take::args::on;
use crate::take::scope::FastCgiScope;
use crate::take::{fastcgi, proxy};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("fastcgi_pass", LI, Text, "", "Sends requests to a FastCGI server.").place(fastcgi::pass),
    Entry::new("fastcgi_param", HSL, (2, 3), "", "A parameter.").repeats().scope(fastcgi::param),
    Entry::one("fastcgi_index", HSL, Text, "", "Appended to paths that end with `/`.")
        .scope(|_, s, d| s.fastcgi_mut().index = Some(d.arg(0).to_owned())),
    Entry::one("fastcgi_split_path_info", HSL, Text, "", "Splits script and path info.")
        .scope(fastcgi::split_path_info),
    Entry::one("fastcgi_keep_conn", HSL, Flag, "off", "Keeps connections.")
        .scope(|_, s, d| s.fastcgi_mut().keep_connection = on(d)),
    Entry::new("fastcgi_bind", HSL, (1, 2), "", "Local address towards upstreams.").scope(|lo, s, d| {
        if let Some(bind) = proxy::parse_bind(lo, d) {
            let scope = s.fastcgi_mut();
            (scope.bind, scope.transparent) = bind;
        }
    }),
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
