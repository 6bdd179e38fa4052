//! Reading files and splicing included ones in.
//!
//! Owns: the order of texts, patterns, the bounds on depth, number and size of files.
//! Never: looks at a directive other than `include`, and `state` of an upstream, whose file has its servers.
//! Driven by: [`crate::load`].

use std::path::{Path, PathBuf};

use weir_diag::{Diagnostic, SourceId, Sources, Span};

use crate::decode::decode;
use crate::files::{Files, is_pattern};
use crate::tree::{Directive, MAX_DEPTH as MAX_BLOCKS, parse};

/// Files inside files beyond this are refused; nginx's own limit is its stack.
const MAX_DEPTH: usize = 32;
/// Most files of one configuration.
const MAX_FILES: usize = 100_000;
/// Most bytes of all files, one that is included twice counted twice; spans count in 32 bits, and a Latin-1 file
/// doubles at most.
const MAX_BYTES: usize = 256 << 20;

/// Reads a configuration with everything it includes.
pub(crate) struct Reader<'a> {
    files: &'a dyn Files,
    /// Folder of the main file: relative includes are resolved against it.
    folder: PathBuf,
    open: Vec<PathBuf>,
    /// Every text read.
    pub sources: Sources,
    count: usize,
    bytes: usize,
    /// What was found.
    pub diagnostics: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(files: &'a dyn Files, folder: PathBuf) -> Self {
        let (open, sources, diagnostics) = (Vec::new(), Sources::default(), Vec::new());
        Self { files, folder, open, sources, count: 0, bytes: 0, diagnostics }
    }

    /// Parses a text that is no file (`-g`).
    pub(crate) fn text(&mut self, name: &str, text: &str) -> Vec<Directive> {
        let source = self.sources.add(name, text);
        let tree = parse(text, source, &mut self.diagnostics);
        self.splice(tree, 0)
    }

    /// Parses the main file.
    pub(crate) fn main(&mut self, path: &Path) -> Vec<Directive> {
        self.file(path, None, 0)
    }

    fn file(&mut self, path: &Path, asked: Option<Span>, depth: usize) -> Vec<Directive> {
        let bytes = match self.files.read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unreadable(path, &error, asked);
                return Vec::new();
            }
        };
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_BYTES || self.count > MAX_FILES {
            let text = format!(
                "`{}` goes beyond what can be read: {MAX_FILES} files, 256 MB in all",
                path.display()
            );
            self.report(Diagnostic::error("nginx::too-large", text), asked);
            return Vec::new();
        }
        let source = self.add(path, &bytes);
        let text = self.sources.text(source);
        let tree = parse(&text, source, &mut self.diagnostics);
        self.open.push(path.to_owned());
        let tree = self.splice(tree, depth);
        self.open.pop();
        tree
    }

    fn add(&mut self, path: &Path, bytes: &[u8]) -> SourceId {
        let decoded = decode(bytes);
        let source = self.sources.add(path, decoded.text.into_owned());
        if let Some(at) = decoded.not_utf8_at {
            let at = at as u32;
            self.diagnostics.push(
                Diagnostic::note("nginx::not-utf8", "this file is not UTF-8; it is read as Latin-1")
                    .labelled(Span { source, start: at, end: at + 1 }, "first such byte")
                    .help("words that reach clients or file names are sent as UTF-8; convert the file to be sure"),
            );
        }
        if decoded.byte_order_mark {
            self.diagnostics.push(
                Diagnostic::note("nginx::byte-order-mark", "a byte order mark at the beginning is skipped")
                    .at(Span { source, start: 0, end: 1 })
                    .help("nginx itself refuses such a file; save it without the mark"),
            );
        }
        source
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error, asked: Option<Span>) {
        let text = format!("cannot read `{}`: {error}", path.display());
        self.report(Diagnostic::error("nginx::unreadable", text), asked);
    }

    fn report(&mut self, diagnostic: Diagnostic, asked: Option<Span>) {
        self.diagnostics.push(match asked {
            Some(span) => diagnostic.labelled(span, "included here"),
            None => diagnostic,
        });
    }

    /// Replaces each `include` by what it names, in all blocks. Files and their includes together are bounded in depth
    /// as one file is.
    fn splice(&mut self, tree: Vec<Directive>, depth: usize) -> Vec<Directive> {
        let mut out = Vec::with_capacity(tree.len());
        for mut directive in tree {
            if let Some(children) = directive.block.take() {
                if depth >= MAX_BLOCKS {
                    let text = format!("more than {MAX_BLOCKS} blocks inside one another");
                    self.diagnostics.push(Diagnostic::error("nginx::too-deep", text).at(directive.span));
                    continue;
                }
                let mut children = self.splice(children, depth + 1);
                if directive.name() == "upstream" {
                    self.state(&mut children, depth + 1);
                }
                directive.block = Some(children);
                out.push(directive);
            } else if directive.name() == "include" {
                self.include(&directive, depth, &mut out);
            } else {
                out.push(directive);
            }
        }
        out
    }

    /// Adds the servers of an upstream that are in a file of its own. The file is written while running: at first there is
    /// none.
    fn state(&mut self, children: &mut Vec<Directive>, depth: usize) {
        let Some(state) = children.iter().find(|child| child.name() == "state" && child.args.len() == 1)
        else {
            return;
        };
        let (path, span) = (self.folder.join(state.arg(0)), state.arg_span(0));
        if let Some(server) = children.iter().find(|child| child.name() == "server") {
            let text = "the servers of an upstream are in its file or in its block, not in both";
            let found = Diagnostic::error("nginx::state", text).at(server.span);
            self.diagnostics.push(found.also(span, "the file"));
            return;
        }
        if matches!(self.files.read(&path), Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
            return;
        }
        children
            .extend(self.file(&path, Some(span), depth).into_iter().filter(|line| line.name() == "server"));
    }

    fn include(&mut self, directive: &Directive, depth: usize, out: &mut Vec<Directive>) {
        if directive.args.len() != 1 {
            let text = format!("`include` takes one path, not {}", directive.args.len());
            self.diagnostics.push(Diagnostic::error("nginx::arguments", text).at(directive.span));
            return;
        }
        let path = self.folder.join(directive.arg(0));
        if self.open.len() >= MAX_DEPTH {
            let text = format!("includes are nested more than {MAX_DEPTH} deep");
            self.diagnostics.push(Diagnostic::error("nginx::include-depth", text).at(directive.span));
            return;
        }
        let pattern = path.to_string_lossy();
        let paths = if is_pattern(&pattern) { self.files.glob(&pattern) } else { vec![path] };
        for path in paths {
            if self.open.contains(&path) {
                let text = format!("`{}` includes itself", path.display());
                let cycle = Diagnostic::error("nginx::include-cycle", text).at(directive.span);
                self.diagnostics.push(cycle.help("remove this `include`, or name the files one by one"));
                continue;
            }
            out.append(&mut self.file(&path, Some(directive.arg_span(0)), depth));
        }
    }
}
