//! Answers that rules make: `deny`, `return`, `auth`, redirects.
//!
//! Owns: the words of `status … content-type … string …` and of `location|prefix|scheme …`.

use std::path::Path;

use weir_diag::{Diagnostic, Span};
use weir_model::{Condition, Op, Respond, RespondBody, Subject, Template, Test, Var, Words};

use super::rules::{Deed, Read, Reader, split, standard};
use crate::draft::ErrorAnswer;
use crate::read::Word;

impl Reader<'_, '_> {
    pub(super) fn challenge(&mut self, arguments: &[Word]) -> Option<Respond> {
        let realm = match arguments {
            [] => "Private".to_owned(),
            [key, realm] if key.as_str() == "realm" => realm.text.clone(),
            [first, ..] => {
                self.findings.bad_value(first, "`realm` and its text are expected here");
                return None;
            }
        };
        let value = format!("Basic realm=\"{}\"", realm.replace('\\', "\\\\").replace('"', "\\\""));
        let mut respond = standard(401);
        respond.headers.push(("WWW-Authenticate".into(), Template::literal(value)));
        Some(respond)
    }

    /// The words of an answer: pairs of keys and values, up to the first word that is none.
    pub(super) fn answer_words<'w>(&self, words: &'w [Word]) -> (&'w [Word], &'w [Word]) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += match word.as_str() {
                "if" | "unless" => break,
                "hdr" => 3,
                "default-errorfiles" => 1,
                _ => 2,
            };
        }
        words.split_at(at.min(words.len()))
    }

    /// What `return` answers: without a body it has none, unless error pages are asked for.
    pub(super) fn content(&mut self, words: &[Word]) -> Option<Respond> {
        let mut respond = self.answer(words, 200)?;
        let pages = words.iter().any(|word| word.as_str() == "default-errorfiles");
        if matches!(respond.body, RespondBody::Standard) && !pages {
            respond.body = RespondBody::Text(Template::default());
            respond.content_type = Some(Template::default());
            respond.error_pages = false;
        }
        Some(respond)
    }

    /// `status N content-type T string S hdr N V …`.
    pub(super) fn answer(&mut self, words: &[Word], status: u16) -> Option<Respond> {
        let mut respond = standard(status);
        let mut pages = None;
        let mut words = words.iter();
        while let Some(key) = words.next() {
            if key.as_str() == "default-errorfiles" {
                continue;
            }
            let Some(value) = words.next() else {
                self.findings.bad_value(key, format!("`{}` lacks its value", key.text));
                return None;
            };
            match key.as_str() {
                "status" | "deny_status" => {
                    respond.status = self.findings.value(value, |text| match text.parse::<u16>() {
                        Ok(status @ 200..=599) => Ok(status),
                        _ => Err(format!("`{text}` is no status; those are 200 to 599")),
                    })?;
                }
                "content-type" => respond.content_type = Some(Template::literal(value.text.clone())),
                "string" => respond.body = RespondBody::Text(Template::literal(value.text.clone())),
                "lf-string" => respond.body = RespondBody::Text(self.template(value, false)?),
                "file" => respond.body = RespondBody::File(value.text.clone().into()),
                "hdr" => {
                    let template = self.template(words.next()?, false)?;
                    respond.headers.push((value.text.clone(), template));
                }
                "lf-file" => respond.body = RespondBody::Text(self.text_of(value)?),
                "errorfile" => respond.body = RespondBody::Whole(value.text.clone().into()),
                "errorfiles" => pages = Some(value),
                _ => {
                    let known = [
                        "status",
                        "content-type",
                        "string",
                        "lf-string",
                        "file",
                        "hdr",
                        "errorfile",
                        "errorfiles",
                        "lf-file",
                    ];
                    self.findings.bad_choice(key, "word of an answer", &known);
                    return None;
                }
            }
        }
        respond.error_pages = pages.is_none() && matches!(respond.body, RespondBody::Standard);
        if let Some(name) = pages {
            respond.body = self.page_of(name, respond.status)?;
            respond.content_type.get_or_insert_default();
        }
        Some(respond)
    }

    /// `lf-file FILE`: its text is a log format.
    fn text_of(&mut self, file: &Word) -> Option<Template> {
        let read = self.scope.files.read(Path::new(file.as_str())).map_err(|error| error.to_string());
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned()));
        match text {
            Ok(text) => self.template(&Word { text, span: file.span }, false),
            Err(why) => {
                self.findings.bad_value(file, format!("`{}` cannot be read: {why}", file.text));
                None
            }
        }
    }

    /// `errorfiles NAME`: what that section says of the status; where it says nothing, there is no body.
    fn page_of(&mut self, name: &Word, status: u16) -> Option<RespondBody> {
        let Some(pages) = self.scope.draft.http_errors.get(&name.text) else {
            self.findings.bad_value(name, format!("there is no section `http-errors {}`", name.text));
            return None;
        };
        Some(match pages.get(&status) {
            Some(ErrorAnswer::File(path)) => RespondBody::Whole(path.clone()),
            Some(ErrorAnswer::Redirect(place, _)) => RespondBody::Redirect(Template::literal(place.clone())),
            None => RespondBody::Text(Template::default()),
        })
    }

    /// `location|prefix|scheme VALUE code N OPTIONS [if …]`.
    pub(super) fn redirect(&mut self, words: &[Word], span: Span) -> Option<Read> {
        let (arguments, tail) = split(words, 0);
        let mut redirect = Redirect::default();
        let mut iter = arguments.iter();
        while let Some(key) = iter.next() {
            match key.as_str() {
                "drop-query" => redirect.drop_query = true,
                "keep-query" => redirect.keep_query = true,
                "ignore-empty" => redirect.ignore_empty = true,
                "append-slash" => redirect.append_slash = true,
                "location" | "prefix" | "scheme" | "code" | "set-cookie" | "set-cookie-fmt"
                | "clear-cookie" => {
                    let Some(value) = iter.next() else {
                        self.findings.bad_value(key, format!("`{}` lacks its value", key.text));
                        return None;
                    };
                    self.redirect_word(&mut redirect, key, value)?;
                }
                _ => {
                    let known = [
                        "location",
                        "prefix",
                        "scheme",
                        "code",
                        "drop-query",
                        "append-slash",
                        "ignore-empty",
                        "set-cookie",
                        "clear-cookie",
                    ];
                    self.findings.bad_choice(key, "word of a redirect", &known);
                    return None;
                }
            }
        }
        let Some(location) = redirect.location(self, span) else {
            self.findings.push(
                Diagnostic::error(
                    "haproxy::missing-argument",
                    "a redirect needs `location`, `prefix` or `scheme`",
                )
                .at(span),
            );
            return None;
        };
        let mut respond = standard(redirect.code.unwrap_or(302));
        respond.error_pages = false;
        respond.body = RespondBody::Redirect(location);
        respond.headers = std::mem::take(&mut redirect.cookies);
        let condition = self.condition(tail)?;
        let mut ops = vec![Op::Respond(respond.clone())];
        if redirect.appends_slash() {
            // Only a path without a slash at its end gets one.
            let mut longer = respond;
            longer.body = RespondBody::Redirect(redirect.with_slash()?);
            let ends = Words { any_of: vec![Template::literal("/")], ignore_case: false };
            let whole = Condition::Test { subject: Subject::Value(redirect.path()), test: Test::Ends(ends) };
            let otherwise = vec![Op::Respond(longer)];
            ops = vec![Op::When { condition: whole, then: ops, otherwise }];
        }
        Some(Read { condition, deed: Deed::Ops(ops) })
    }

    fn redirect_word(&mut self, redirect: &mut Redirect, key: &Word, value: &Word) -> Option<()> {
        match key.as_str() {
            "code" => match value.text.parse::<u16>() {
                Ok(code @ (301 | 302 | 303 | 307 | 308)) => redirect.code = Some(code),
                _ => {
                    self.findings.bad_value(value, "a redirect's code is 301, 302, 303, 307 or 308");
                    return None;
                }
            },
            "set-cookie" | "set-cookie-fmt" => {
                let mut cookie = self.template(value, false)?;
                cookie.push_literal("; path=/;");
                redirect.cookies.push(("Set-Cookie".into(), cookie));
            }
            "clear-cookie" => {
                let name = value.text.split('=').next().unwrap_or("");
                let cookie = format!("{name}=; path=/; Max-Age=0;");
                redirect.cookies.push(("Set-Cookie".into(), Template::literal(cookie)));
            }
            kind => redirect.target = Some((kind.to_owned(), self.template(value, false)?)),
        }
        Some(())
    }
}

#[derive(Default)]
struct Redirect {
    target: Option<(String, Template)>,
    code: Option<u16>,
    drop_query: bool,
    keep_query: bool,
    ignore_empty: bool,
    append_slash: bool,
    cookies: Vec<(String, Template)>,
}

impl Redirect {
    /// Only a prefix is completed.
    fn appends_slash(&self) -> bool {
        self.append_slash && self.target.as_ref().is_some_and(|(kind, _)| kind == "prefix")
    }

    /// The location of a prefix, with a slash at its end.
    fn with_slash(&self) -> Option<Template> {
        let (_, value) = self.target.as_ref()?;
        let mut location = if value.as_literal() == Some("/") { Template::default() } else { value.clone() };
        location.pieces.extend(self.path().pieces);
        location.push_literal("/");
        Some(location)
    }

    /// What follows a prefix: the path, and the query unless it is dropped.
    fn path(&self) -> Template {
        let mut path = Template::var(Var::RawPath);
        if !self.drop_query {
            path.push_var(Var::IsArgs);
            path.push_var(Var::Query);
        }
        path
    }

    /// What `Location` says.
    fn location(&self, reader: &mut Reader<'_, '_>, span: Span) -> Option<Template> {
        let (kind, value) = self.target.as_ref()?;
        let mut location = match kind.as_str() {
            "prefix" if value.as_literal() == Some("/") => Template::default(),
            "scheme" => {
                let mut location = value.clone();
                location.push_literal("://");
                location.push_var(Var::Header("host".into()));
                location
            }
            _ => value.clone(),
        };
        if kind == "location" {
            if self.keep_query || self.ignore_empty {
                reader.findings.tuning(
                    span,
                    "keep-query and ignore-empty",
                    "the location is sent as written",
                );
            }
            return Some(location);
        }
        location.push_var(Var::RawPath);
        if !self.drop_query {
            location.push_var(Var::IsArgs);
            location.push_var(Var::Query);
        }
        Some(location)
    }
}
