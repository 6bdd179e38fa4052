//! Floors inside a crate: which folder may name which, and how far imports may run in a circle.
//!
//! Owns: reading the paths that source text names, resolving them to files, the two rules.
//! Never: knows the crates and their floors; `tidy`'s table does.
//! Driven by: `tidy`, for each crate with a row.
//! Why: Rust lets the modules of a crate name one another freely, so a layout that is not checked says less each month.
//! The text alone is read: `use` trees, and paths that begin at `crate`, `super`, `self`, an imported module or a child.
//! Names that a module gives on (`pub use`) are followed to the file that defines them. Unit tests may look anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crate's root in a table of floors.
const ROOT: &str = "lib";

/// A module's path within its crate.
type Module = Vec<String>;

/// Checks that no more than `most` files of a crate import one another in a circle.
pub(crate) fn circles(name: &str, src: &Path, most: usize, findings: &mut Vec<String>) {
    let house = House::read(src);
    for circle in house.circles().iter().filter(|circle| circle.len() > most) {
        let files: Vec<&str> = circle.iter().map(|module| house.shown(module)).collect();
        findings.push(format!(
            "crates/{name}: {} files import one another in a circle, {most} are the most: {}",
            files.len(),
            files.join(", ")
        ));
    }
}

/// Checks that no module of a crate imports one on a higher floor. `floors`: its top-level modules, lowest first, those
/// of one floor together. The crate's root stands above them all, unless it is among them as [`ROOT`].
pub(crate) fn check(name: &str, src: &Path, floors: &[&[&str]], findings: &mut Vec<String>) {
    let house = House::read(src);
    for top in house.tops() {
        if !floors.iter().any(|floor| floor.contains(&top)) {
            findings.push(format!(
                "crates/{name}: {top} stands on no floor of xtask's table (and ARCHITECTURE.md's)"
            ));
        }
    }
    for gone in floors.iter().flat_map(|floor| floor.iter()) {
        if *gone != ROOT && !house.tops().any(|top| top == *gone) {
            findings.push(format!("crates/{name}: xtask's table of floors has {gone}, the crate does not"));
        }
    }
    let floor_of = |top: &str| floors.iter().position(|floor| floor.contains(&top));
    let level = |module: &Module| match module.first() {
        None => floor_of(ROOT).unwrap_or(floors.len()),
        Some(top) => floor_of(top).unwrap_or(0),
    };
    for (from, to) in house.imports() {
        if level(from) < level(to) {
            let (from, to) = (house.shown(from), house.shown(to));
            findings.push(format!("crates/{name}: {from} imports {to}, which stands on a higher floor"));
        }
    }
}

/// The modules of a crate, and what they name.
struct House {
    rooms: BTreeMap<Module, Room>,
}

/// One file.
struct Room {
    /// Below the crate's `src`.
    shown: String,
    /// What it names, as written and with its own scope resolved to the crate.
    paths: Vec<Module>,
    /// Names that it gives on, and where they come from; `*` for all of a module.
    given: Vec<(String, Module)>,
}

impl House {
    fn read(src: &Path) -> Self {
        let mut rooms = BTreeMap::new();
        let mut texts = Vec::new();
        for file in rust_files(src) {
            let below = file.strip_prefix(src).unwrap_or(&file).to_path_buf();
            let Some(module) = module_of(&below) else { continue };
            texts.push((
                module,
                below.display().to_string(),
                std::fs::read_to_string(&file).unwrap_or_default(),
            ));
        }
        let known: BTreeSet<Module> = texts.iter().map(|(module, ..)| module.clone()).collect();
        for (module, shown, text) in texts {
            let named = Named::of(&module, &tokens(&text), &known);
            rooms.insert(module, Room { shown, paths: named.paths, given: named.given });
        }
        Self { rooms }
    }

    /// Names of the modules right below the root.
    fn tops(&self) -> impl Iterator<Item = &str> {
        self.rooms.keys().filter(|module| module.len() == 1).map(|module| module[0].as_str())
    }

    fn shown(&self, module: &Module) -> &str {
        self.rooms.get(module).map_or("?", |room| &room.shown)
    }

    /// Each pair of files of which one names what the other defines.
    fn imports(&self) -> BTreeSet<(&Module, &Module)> {
        let mut found = BTreeSet::new();
        for (module, room) in &self.rooms {
            for path in &room.paths {
                if let Some(to) = self.definer(path, 0).filter(|to| *to != module) {
                    found.insert((module, to));
                }
            }
        }
        found
    }

    /// The file that defines what a path names.
    fn definer(&self, path: &[String], depth: usize) -> Option<&Module> {
        // Names given on in a ring define nothing.
        if depth > 8 {
            return None;
        }
        let mut at = 0;
        while at < path.len() && self.rooms.contains_key(&path[..=at]) {
            at += 1;
        }
        let (module, room) = self.rooms.get_key_value(&path[..at])?;
        let Some(name) = path.get(at) else { return Some(module) };
        for (given, from) in &room.given {
            if given == "*" {
                // Whether the name comes from there cannot be seen; that the file may be needed can.
                return self.definer(from, depth + 1);
            }
            if given == name {
                let further: Module = from.iter().chain(&path[at + 1..]).cloned().collect();
                return self.definer(&further, depth + 1);
            }
        }
        Some(module)
    }

    /// Files that reach one another, largest sets first.
    fn circles(&self) -> Vec<Vec<&Module>> {
        let mut to: BTreeMap<&Module, Vec<&Module>> = BTreeMap::new();
        for (from, target) in self.imports() {
            to.entry(from).or_default().push(target);
        }
        let reach = |start| {
            let mut seen: BTreeSet<&Module> = BTreeSet::new();
            let mut next = vec![start];
            while let Some(module) = next.pop() {
                for &target in to.get(module).map_or(&[][..], Vec::as_slice) {
                    if seen.insert(target) {
                        next.push(target);
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.rooms.keys().map(|module| (module, reach(module))).collect();
        let mut circles: Vec<Vec<&Module>> = Vec::new();
        for (module, from_here) in &reached {
            if !from_here.contains(*module) || circles.iter().any(|circle| circle.contains(module)) {
                continue;
            }
            let back = |other: &&&Module| reached.get(**other).is_some_and(|seen| seen.contains(*module));
            circles.push(from_here.iter().filter(back).copied().collect());
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// What one file names.
struct Named {
    paths: Vec<Module>,
    given: Vec<(String, Module)>,
}

impl Named {
    fn of(module: &Module, tokens: &[Token], known: &BTreeSet<Module>) -> Self {
        let mut named = Self { paths: Vec::new(), given: Vec::new() };
        // Names of modules that this file brought into scope.
        let mut aliases: BTreeMap<String, Module> = BTreeMap::new();
        for child in known.iter().filter(|child| child.len() == module.len() + 1 && child.starts_with(module))
        {
            aliases.insert(child[module.len()].clone(), child.clone());
        }
        let mut at = 0;
        let mut inline = Vec::new();
        while at < tokens.len() {
            match &tokens[at] {
                Token::Word(word)
                    if word == "use" && !matches!(tokens.get(at + 1), Some(Token::Sign('<'))) =>
                {
                    let gives = is_public(&tokens[..at]);
                    let mut trees = Vec::new();
                    at = use_tree(tokens, at + 1, &mut Vec::new(), &mut trees);
                    for (path, name) in trees {
                        let Some(path) = from_root(module, &path, &aliases) else { continue };
                        if known.contains(&path) {
                            aliases.insert(name.clone(), path.clone());
                        }
                        if gives {
                            named.given.push((name, path));
                        } else {
                            named.paths.push(path);
                        }
                    }
                }
                Token::Word(_) => {
                    let (path, next) = inline_path(tokens, at);
                    let names = path.len() > 1 && !is_scope(&tokens[..at]);
                    at = next;
                    if names {
                        inline.push(path);
                    }
                }
                Token::Sign(_) | Token::Join => at += 1,
            }
        }
        named.paths.extend(inline.iter().filter_map(|path| from_root(module, path, &aliases)));
        named
    }
}

/// A path as the crate's root would write it; `None`: it leads out of the crate.
fn from_root(module: &Module, path: &[String], aliases: &BTreeMap<String, Module>) -> Option<Module> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => {
            let mut above = module.clone();
            above.pop()?;
            while rest.first().is_some_and(|next| next == "super") {
                above.pop()?;
                rest = &rest[1..];
            }
            above
        }
        name => aliases.get(name)?.clone(),
    };
    base.extend_from_slice(rest);
    Some(base)
}

/// Whether what follows is given on: `pub`, with or without a scope.
fn is_public(before: &[Token]) -> bool {
    match before {
        [.., Token::Word(word)] => word == "pub",
        [.., Token::Sign(')')] => {
            let open = before.iter().rposition(|token| *token == Token::Sign('('));
            open.and_then(|open| open.checked_sub(1))
                .is_some_and(|at| matches!(&before[at], Token::Word(word) if word == "pub"))
        }
        _ => false,
    }
}

/// Whether what follows says who may see something (`pub(in …)`): that is no import.
fn is_scope(before: &[Token]) -> bool {
    matches!(before, [.., Token::Word(public), Token::Sign('('), Token::Word(within)] if public == "pub" && within == "in")
}

/// Reads one tree of a `use`; the place behind it. Each leaf is a path and the name that it has here.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &mut Module, out: &mut Vec<(Module, String)>) -> usize {
    let depth = prefix.len();
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) if word == "as" => {
                if let (Some(Token::Word(name)), Some(leaf)) = (tokens.get(at + 1), out.last_mut()) {
                    leaf.1.clone_from(name);
                }
                at += 2;
            }
            Some(Token::Word(word)) => {
                if matches!(tokens.get(at + 1), Some(Token::Join)) {
                    prefix.push(word.clone());
                    at += 2;
                } else {
                    let leaf: Module = match word.as_str() {
                        "self" if !prefix.is_empty() => prefix.clone(),
                        _ => prefix.iter().cloned().chain([word.clone()]).collect(),
                    };
                    out.push((leaf.clone(), leaf.last().cloned().unwrap_or_default()));
                    at += 1;
                }
            }
            Some(Token::Sign('*')) => {
                out.push((prefix.clone(), "*".into()));
                at += 1;
            }
            Some(Token::Sign('{')) => {
                at += 1;
                while !matches!(tokens.get(at), None | Some(Token::Sign('}'))) {
                    at = use_tree(tokens, at, prefix, out);
                    if matches!(tokens.get(at), Some(Token::Sign(','))) {
                        at += 1;
                    }
                }
                at += 1;
            }
            _ => break,
        }
    }
    prefix.truncate(depth);
    at
}

/// A path in the middle of code, and the place behind it.
fn inline_path(tokens: &[Token], mut at: usize) -> (Module, usize) {
    let mut path = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push(word.clone());
        at += 1;
        if !matches!((tokens.get(at), tokens.get(at + 1)), (Some(Token::Join), Some(Token::Word(_)))) {
            break;
        }
        at += 1;
    }
    (path, at)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Join,
    Sign(char),
}

/// Splits source text; comments, literals and unit tests are left out.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(&char) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match char {
            '/' if next == Some('/') => at += chars[at..].iter().take_while(|&&c| c != '\n').count(),
            '"' => at = behind_string(&chars, at),
            'r' if matches!(next, Some('"' | '#')) && is_raw_string(&chars, at) => {
                at = behind_raw_string(&chars, at);
            }
            '\'' => at = behind_quote(&chars, at),
            ':' if next == Some(':') => {
                all.push(Token::Join);
                at += 2;
            }
            char if char.is_alphabetic() || char == '_' => {
                let word: String =
                    chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                at += word.chars().count();
                all.push(Token::Word(word));
            }
            char => {
                if !char.is_whitespace() {
                    all.push(Token::Sign(char));
                }
                at += 1;
            }
        }
    }
    without_tests(&all)
}

fn behind_string(chars: &[char], mut at: usize) -> usize {
    at += 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn is_raw_string(chars: &[char], at: usize) -> bool {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    chars.get(at + 1 + hashes) == Some(&'"')
}

fn behind_raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let mut end = at + hashes + 2;
    while end < chars.len() {
        let closes = chars[end] == '"' && chars[end + 1..].iter().take(hashes).all(|c| *c == '#');
        end += 1;
        if closes {
            return end + hashes;
        }
    }
    end
}

/// Behind a character's literal, or behind the sign of a lifetime.
fn behind_quote(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        let rest = chars[at + 3..].iter().take_while(|c| **c != '\'').count();
        return at + 3 + rest + 1;
    }
    if chars.get(at + 2) == Some(&'\'') { at + 3 } else { at + 1 }
}

/// Leaves out modules that are built for tests alone.
fn without_tests(all: &[Token]) -> Vec<Token> {
    let sign = |at: usize, sign: char| all.get(at) == Some(&Token::Sign(sign));
    let word = |at: usize, word: &str| matches!(all.get(at), Some(Token::Word(own)) if own == word);
    let mut kept = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let marked = sign(at, '#') && sign(at + 1, '[') && word(at + 2, "cfg") && word(at + 4, "test");
        if !(marked && word(at + 7, "mod") && sign(at + 9, '{')) {
            kept.push(all[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += 9;
        while at < all.len() {
            depth += i32::from(sign(at, '{')) - i32::from(sign(at, '}'));
            at += 1;
            if depth == 0 {
                break;
            }
        }
    }
    kept
}

/// The module that a file below `src` holds; `None` for unit tests.
fn module_of(below: &Path) -> Option<Module> {
    let mut module: Module = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let file = module.pop()?;
    let stem = file.strip_suffix(".rs")?;
    let is_root = module.is_empty() && matches!(stem, "lib" | "main");
    if stem != "mod" && !is_root {
        module.push(stem.to_owned());
    }
    (!module.iter().any(|part| part == "tests")).then_some(module)
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a crate of these files.
    fn found(files: &[(&str, &str)], floors: &[&[&str]]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut findings = Vec::new();
        check("x", folder.path(), floors, &mut findings);
        circles("x", folder.path(), 2, &mut findings);
        findings
    }

    #[test]
    fn what_looks_up_is_found_however_it_is_written() {
        for text in [
            "use crate::high::Thing;",
            "use crate::{high::{self, Thing as Other}};",
            "fn f() { crate::high::thing() }",
            "use crate::high; fn f(_: &'static str) { high::thing(r#\"\"\"#, '\"') }",
            "use super::high::*;",
        ] {
            let files = [("lib.rs", "mod low; mod high;"), ("low.rs", text), ("high.rs", "")];
            let findings = found(&files, &[&["low"], &["high"]]);
            assert_eq!(findings.len(), 1, "{text}: {findings:?}");
            assert!(findings[0].contains("low.rs imports high.rs"), "{findings:?}");
            assert!(found(&files, &[&["low", "high"]]).is_empty(), "beside one another they may");
        }
    }

    #[test]
    fn comments_strings_and_unit_tests_may_look_anywhere() {
        let text = "// use crate::high::Thing;\nconst S: &str = \"crate::high::X\";\n\
                    #[cfg(test)]\nmod tests { use crate::high::Thing; }\n";
        let files =
            [("lib.rs", ""), ("low.rs", text), ("high.rs", ""), ("low/tests.rs", "use crate::high::X;")];
        assert!(found(&files, &[&["low"], &["high"]]).is_empty());
    }

    #[test]
    fn who_may_see_something_is_no_import() {
        let files = [("lib.rs", ""), ("low.rs", "pub(in crate::high) struct Thing;"), ("high.rs", "")];
        assert!(found(&files, &[&["low"], &["high"]]).is_empty());
    }

    #[test]
    fn names_that_a_module_gives_on_lead_to_their_file() {
        let files = [
            ("lib.rs", ""),
            ("low.rs", "use crate::mid::Thing;"),
            ("mid/mod.rs", "pub(crate) use crate::high::Thing;"),
            ("high.rs", ""),
        ];
        let findings = found(&files, &[&["low", "mid"], &["high"]]);
        assert_eq!(findings, ["crates/x: low.rs imports high.rs, which stands on a higher floor"]);
    }

    #[test]
    fn circles_and_modules_without_a_floor_are_found() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::A;"),
        ];
        let findings = found(&files, &[&["a", "b", "gone"]]);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("c stands on no floor"), "{findings:?}");
        assert!(findings[1].contains("has gone"), "{findings:?}");
        assert!(findings[2].contains("3 files import one another in a circle"), "{findings:?}");
    }
}
