//! Words about files.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::settings::ContentCoding;
use weir_model::{IfModifiedSince, Listing, ListingFormat, MimeTypes, Symlinks, Template};

use super::{Lowering, Place, Scope};
use crate::lexer::Word;
use crate::tree::Directive;

/// A folder: relative to the prefix, unless a variable stands first.
fn folder(lo: &mut Lowering<'_>, word: &Word) -> Template {
    if word.text.starts_with(['/', '$']) {
        return lo.template(word);
    }
    let text = lo.path(&word.text).to_string_lossy().into_owned();
    lo.template_of(&text, word)
}

pub(crate) fn root(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let text = d.arg(0);
    for forbidden in ["$document_root", "${document_root}", "$realpath_root", "${realpath_root}"] {
        if text.contains(forbidden) {
            let text = format!("`root` cannot be made of `{forbidden}`, which is made of it");
            return lo.report(Diagnostic::error("nginx::bad-value", text).at(d.arg_span(0)));
        }
    }
    let mut root = folder(lo, &d.args[0]);
    trim_slash(&mut root);
    let files = Arc::make_mut(&mut s.files);
    files.root = root;
    files.alias = false;
}

/// `root /x/;` means `root /x;`: the path that follows begins with a slash.
fn trim_slash(root: &mut Template) {
    if let Some(weir_expr::Piece::Literal(text)) = root.pieces.last_mut()
        && text.len() > 1
        && text.ends_with('/')
    {
        text.pop();
    }
}

pub(crate) fn alias(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    place.alias = Some((folder(lo, &d.args[0]), d.span));
}

pub(crate) fn index(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let new: Vec<Template> = d.args.iter().map(|word| lo.template(word)).collect();
    let files = Arc::make_mut(&mut s.files);
    if s.index_level != s.level {
        files.index.clear();
        s.index_level = s.level;
    }
    files.index.extend(new);
}

/// `types { type extension …; }`; replaces what was inherited.
pub(crate) fn types(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let mut table: BTreeMap<String, String> =
        if s.types_level == s.level { s.files.types.by_extension.clone() } else { BTreeMap::new() };
    s.types_level = s.level;
    for line in d.children() {
        if line.block.is_some() || line.args.is_empty() {
            let text = format!("`{}` names no file extension", line.name());
            lo.report(
                Diagnostic::error("nginx::arguments", text).at(line.span).help("write `type extension …;`"),
            );
            continue;
        }
        for extension in &line.args {
            let old = table.insert(extension.text.to_ascii_lowercase(), line.name().to_owned());
            if old.is_some_and(|old| old != line.name()) {
                let text = format!("the extension `{}` has two types; the last one holds", extension.text);
                lo.report(Diagnostic::warning("nginx::duplicate-type", text).at(extension.span));
            }
        }
    }
    Arc::make_mut(&mut s.files).types = Arc::new(MimeTypes { by_extension: table });
}

/// Parts of a listing before it is known whether there is one.
pub(crate) struct ListingParts {
    pub on: bool,
    pub format: ListingFormat,
    pub exact_size: bool,
    pub local_time: bool,
}

impl Default for ListingParts {
    fn default() -> Self {
        Self { on: false, format: ListingFormat::Html, exact_size: true, local_time: false }
    }
}

/// Changes the listing. Its parts are inherited even while it is off.
pub(crate) fn listing(s: &mut Scope, change: impl FnOnce(&mut ListingParts)) {
    let mut parts = ListingParts { on: s.files.listing.is_some(), ..s.listing_parts() };
    change(&mut parts);
    let ListingParts { on, format, exact_size, local_time } = parts;
    let listing = Listing { format, exact_size, local_time };
    s.listing = listing;
    Arc::make_mut(&mut s.files).listing = on.then_some(listing);
}

impl Scope {
    fn listing_parts(&self) -> ListingParts {
        let Listing { format, exact_size, local_time } = self.listing;
        ListingParts { on: false, format, exact_size, local_time }
    }
}

pub(crate) fn listing_format(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let format = match d.arg(0) {
        "json" => ListingFormat::Json,
        "jsonp" => ListingFormat::Jsonp,
        "xml" => ListingFormat::Xml,
        _ => ListingFormat::Html,
    };
    listing(s, |parts| parts.format = format);
}

pub(crate) fn if_modified_since(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.files).if_modified_since = match d.arg(0) {
        "off" => IfModifiedSince::Off,
        "before" => IfModifiedSince::Before,
        _ => IfModifiedSince::Exact,
    };
}

/// `gzip_static`, `brotli_static`, `zstd_static`: files that tighter codings made come first.
pub(crate) fn precompressed(s: &mut Scope, d: &Directive, coding: ContentCoding) {
    let known = &mut Arc::make_mut(&mut s.files).precompressed;
    known.retain(|(other, _)| *other != coding);
    if d.arg(0) != "off" {
        known.push((coding, d.arg(0) == "always"));
        known.sort_unstable_by_key(|(coding, _)| *coding);
    }
}

/// `disable_symlinks on|if_not_owner|off [from=part]`.
pub(crate) fn symlinks(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let symlinks = match d.arg(0) {
        "off" => Symlinks::Follow,
        "on" => Symlinks::Refuse,
        "if_not_owner" => Symlinks::IfNotOwner,
        _ => return lo.bad_value(d, 0, "one of `off`, `on`, `if_not_owner`"),
    };
    if d.args.len() > 1 {
        if !d.arg(1).starts_with("from=") {
            return lo.bad_value(d, 1, "`from=` with a path");
        }
        let text = "`from=` has no effect: every part of the path is checked";
        lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.arg_span(1)));
    }
    Arc::make_mut(&mut s.files).symlinks = symlinks;
}
