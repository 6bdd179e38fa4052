//! Paths to routes, as nginx's `location` chooses.
//!
//! Owns: [`PathIndex`], one a level: a site's, and one inside each route with children.
//! Never: decodes or normalizes a path; callers did.
//! Driven by: [`crate::Plan::find`].
//! Why: nginx walks a tree; a sorted list with links from each prefix to the next shorter one needs one binary search
//! and a few steps, and 16 bytes an entry beside its text.
//!
//! ```text
//! exact ──hit──────────────────────────────────────────────→ that route
//!   └ longest prefix ── children of it, same rules ──exact or pattern──→ inner route
//!        └ patterns of this level, unless the prefix stops them ──→ children of the pattern's route
//!             └ innermost prefix found
//! ```

use std::sync::Arc;

use serde::Serialize;
use smallvec::SmallVec;

use crate::host::show_names;
use crate::{ByteMap, Captures, MatchFailed, Pattern, Route, RouteIx};

/// Routes of one level.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathIndex {
    #[serde(serialize_with = "show_names", skip_serializing_if = "ByteMap::is_empty")]
    exact: ByteMap<RouteIx>,
    /// Paths without the final slash that an exact path has: redirected to it.
    #[serde(serialize_with = "show_names", skip_serializing_if = "ByteMap::is_empty")]
    unslashed: ByteMap<RouteIx>,
    /// Sorted by path.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    prefixes: Box<[PrefixEntry]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    patterns: Box<[(Arc<Pattern>, RouteIx)]>,
    /// Which lengths paths have that are redirected, as [`length_bit`]s: for others nothing is searched.
    #[serde(skip)]
    redirects: u64,
}

#[derive(Clone, Debug, Serialize)]
struct PrefixEntry {
    #[serde(serialize_with = "crate::show::bytes")]
    path: Box<[u8]>,
    route: RouteIx,
    /// The longest entry that is a proper prefix of this one, or [`NONE`].
    #[serde(skip)]
    parent: u32,
    stop: bool,
    auto_redirect: bool,
}

const NONE: u32 = u32::MAX;

/// A prefix to put into an index.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// The prefix.
    pub path: Box<[u8]>,
    /// What it leads to.
    pub route: RouteIx,
    /// Patterns are not tried if this is the longest (`^~`).
    pub stop: bool,
    /// The path without its final slash is redirected to it.
    pub auto_redirect: bool,
}

/// A route found.
#[derive(Clone, Debug)]
pub struct Found<'p> {
    /// The route.
    pub route: RouteIx,
    /// Bytes of the path that the route's own exact or prefix match took; the whole path for patterns; 0 for a
    /// fallback.
    pub matched_len: usize,
    /// Patterns that matched on the way, outermost first. All set their named variables; numbered captures are those
    /// of the last. The subject is the path.
    pub matches: SmallVec<[(&'p Arc<Pattern>, Captures); 1]>,
    /// The route's prefix is the path plus `/`: answer with a 301 to it.
    pub redirect_slash: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing here.
    Declined,
    /// A prefix; patterns may still win.
    Prefix { stop: bool },
    /// Final.
    Final,
    /// Final, and the slash is missing.
    Redirect,
}

impl PathIndex {
    /// Builds a level. Of entries with equal text the first stands.
    ///
    /// `exact` says for each path whether it is redirected to when its final slash is missing.
    pub fn new(
        exact: Vec<(Box<[u8]>, RouteIx, bool)>,
        mut prefixes: Vec<Prefix>,
        patterns: Vec<(Arc<Pattern>, RouteIx)>,
    ) -> Self {
        // Stable, so that of equal paths the first written stays first and `dedup_by` keeps it.
        prefixes.sort_by(|a, b| a.path.cmp(&b.path));
        prefixes.dedup_by(|later, first| later.path == first.path);
        let mut whole = ByteMap::default();
        let mut unslashed = ByteMap::default();
        for (path, route, auto_redirect) in exact {
            if let Some(bare) = path.strip_suffix(b"/").filter(|bare| auto_redirect && !bare.is_empty()) {
                unslashed.entry(bare.into()).or_insert(route);
            }
            whole.entry(path).or_insert(route);
        }
        let slashed = prefixes.iter().filter(|prefix| prefix.auto_redirect).map(|prefix| &prefix.path);
        let bare =
            slashed.map(|path| path.len().wrapping_sub(1)).chain(unslashed.keys().map(|path| path.len()));
        let redirects = bare.fold(0, |lengths, length| lengths | length_bit(length));
        let mut entries: Vec<PrefixEntry> = Vec::with_capacity(prefixes.len());
        for Prefix { path, route, stop, auto_redirect } in prefixes {
            let mut parent = entries.len().checked_sub(1).map_or(NONE, |last| last as u32);
            while parent != NONE && !path.starts_with(&entries[parent as usize].path) {
                parent = entries[parent as usize].parent;
            }
            entries.push(PrefixEntry { path, route, parent, stop, auto_redirect });
        }
        Self { exact: whole, unslashed, prefixes: entries.into(), patterns: patterns.into(), redirects }
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    /// Routes of this level.
    pub fn routes(&self) -> impl Iterator<Item = RouteIx> + '_ {
        let prefixes = self.prefixes.iter().map(|entry| entry.route);
        self.exact.values().copied().chain(prefixes).chain(self.patterns.iter().map(|entry| entry.1))
    }

    /// Finds the route of a path; `fallback` if nothing matches. Children are those of `routes`.
    ///
    /// # Errors
    /// A pattern gave up before the route was certain.
    #[inline]
    pub fn lookup<'p>(
        &'p self,
        path: &[u8],
        routes: &'p [Route],
        fallback: RouteIx,
    ) -> Result<Found<'p>, MatchFailed> {
        let mut found =
            Found { route: fallback, matched_len: 0, matches: SmallVec::new(), redirect_slash: false };
        found.redirect_slash = self.search(path, routes, &mut found)? == Step::Redirect;
        Ok(found)
    }

    fn search<'p>(
        &'p self,
        path: &[u8],
        routes: &'p [Route],
        found: &mut Found<'p>,
    ) -> Result<Step, MatchFailed> {
        let mut step = self.fixed(path, found);
        let mut stop = false;
        if let Step::Prefix { stop: stops } = step {
            stop = stops;
            step = inner(path, routes, found)?.unwrap_or(step);
        }
        if matches!(step, Step::Final | Step::Redirect) || stop {
            return Ok(step);
        }
        for (pattern, route) in &self.patterns {
            if let Some(captures) = pattern.matches(path)? {
                found.matches.push((pattern, captures));
                (found.route, found.matched_len) = (*route, path.len());
                inner(path, routes, found)?;
                return Ok(Step::Final);
            }
        }
        Ok(step)
    }

    /// Exact text, else the longest prefix.
    fn fixed(&self, path: &[u8], found: &mut Found<'_>) -> Step {
        if !self.exact.is_empty()
            && let Some(&route) = self.exact.get(path)
        {
            (found.route, found.matched_len) = (route, path.len());
            return Step::Final;
        }
        let after = self.prefixes.partition_point(|entry| *entry.path <= *path);
        let longest = self.longest_prefix(path, after);
        // nginx redirects only where no entry is the path itself; a shorter prefix does not prevent it.
        if self.redirects & length_bit(path.len()) != 0
            && longest.is_none_or(|entry| entry.path.len() < path.len())
            && let Some(route) = self.with_slash(path, after)
        {
            (found.route, found.matched_len) = (route, path.len());
            return Step::Redirect;
        }
        let Some(entry) = longest else { return Step::Declined };
        (found.route, found.matched_len) = (entry.route, entry.path.len());
        Step::Prefix { stop: entry.stop }
    }

    /// `after`: the first entry above the path.
    fn longest_prefix(&self, path: &[u8], after: usize) -> Option<&PrefixEntry> {
        // The last entry not above the path: every entry that is a prefix of the path is a prefix of it, too.
        let mut entry = self.prefixes.get(after.checked_sub(1)?)?;
        if path.starts_with(&entry.path) {
            return Some(entry);
        }
        let common = entry.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        while entry.path.len() > common {
            entry = self.prefixes.get(entry.parent as usize)?;
        }
        Some(entry)
    }

    fn with_slash(&self, path: &[u8], after: usize) -> Option<RouteIx> {
        // The path with a slash is above the path itself.
        let above = self.prefixes.get(after..).unwrap_or_default();
        let compare = |entry: &PrefixEntry| match entry.path.split_at_checked(path.len()) {
            Some((start, rest)) => start.cmp(path).then_with(|| rest.cmp(b"/")),
            // Too short to be equal: the first byte that differs decides, or the length.
            None => (*entry.path).cmp(path),
        };
        let at = above.binary_search_by(compare).ok();
        let prefix = at.and_then(|at| above.get(at)).filter(|entry| entry.auto_redirect);
        prefix.map(|entry| entry.route).or_else(|| self.unslashed.get(path).copied())
    }
}

/// A bit for paths of this length, and of some others.
fn length_bit(length: usize) -> u64 {
    1 << (length % 64)
}

/// Searches the children of the route found so far; `None` if it has none or none matches.
fn inner<'p>(path: &[u8], routes: &'p [Route], found: &mut Found<'p>) -> Result<Option<Step>, MatchFailed> {
    let Some(children) = routes.get(found.route.at()).and_then(|route| route.children.as_deref()) else {
        return Ok(None);
    };
    let step = children.search(path, routes, found)?;
    Ok((step != Step::Declined).then_some(step))
}

#[cfg(test)]
mod tests;
