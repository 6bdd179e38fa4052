//! Filters of response bodies.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;

/// nginx's default, a page of memory.
const MOST_KEPT: u64 = 4096;

impl<'m> Cx<'m> {
    pub(crate) fn body_filters(&mut self, filters: &'m model::BodyFilters) -> Arc<plan::BodyFilters> {
        if let Some(known) = self.shared.filters.find(filters) {
            return known;
        }
        let model::BodyFilters { charset, replace, unpack, addition, commands, most_kept, trailers } =
            filters;
        let compiled = plan::BodyFilters {
            charset: charset.as_ref().map(|charset| self.charset(charset)),
            replace: replace.as_ref().map(|replace| self.replace(replace)),
            unpack: unpack.as_ref().map(|gzip| self.compression(gzip)),
            addition: addition.as_ref().map(|addition| plan::Addition {
                before: addition.before.as_deref().map(Into::into),
                after: addition.after.as_deref().map(Into::into),
                types: plan::MediaTypes::new(&addition.types),
            }),
            commands: commands.as_ref().map(|commands| self.page_commands(commands)),
            most_kept: most_kept.unwrap_or(MOST_KEPT),
            trailers: trailers.iter().map(|trailer| self.header_edit(trailer)).collect(),
        };
        self.shared.filters.keep(filters, Arc::new(compiled))
    }

    fn charset(&mut self, charset: &'m model::Charset) -> plan::Charset {
        let maps: Box<[_]> = charset
            .maps
            .iter()
            .map(|map| {
                let pairs = map.pairs.iter().map(|(byte, other)| (*byte, &other[..]));
                plan::CharsetMap::new(&map.from, &map.to, pairs)
            })
            .collect();
        let name = self.template(&charset.name);
        let source = charset.source.as_ref().map(|source| self.template(source));
        if let (Some(to), Some(from)) =
            (name.as_literal(), source.as_ref().and_then(plan::Template::as_literal))
            && !from.eq_ignore_ascii_case(to)
            && !maps.iter().any(|map| map.way(from.as_bytes(), to.as_bytes()).is_some())
        {
            let title = format!("no table says how to get from the charset `{from}` to `{to}`");
            self.report_once(&title.clone(), Diagnostic::error("charset::no-map", title));
        }
        plan::Charset {
            name,
            source,
            overrides: charset.overrides,
            types: plan::MediaTypes::new(&charset.types),
            maps,
        }
    }

    fn replace(&mut self, replace: &'m model::Replace) -> plan::Replace {
        let pairs = replace.pairs.iter().map(|(from, to)| (self.template(from), self.template(to)));
        plan::Replace {
            pairs: pairs.collect(),
            types: plan::MediaTypes::new(&replace.types),
            once: replace.once,
            keeps_validators: replace.keeps_validators,
        }
    }

    fn page_commands(&mut self, commands: &'m model::PageCommands) -> Arc<plan::PageCommands> {
        Arc::new(plan::PageCommands {
            types: plan::MediaTypes::new(&commands.types),
            keeps_validators: commands.keeps_validators,
            silent: commands.silent,
            value_length: usize::try_from(commands.value_length).unwrap_or(usize::MAX),
            names: self.vocabulary(&commands.names),
        })
    }

    /// Built-in variables, and those of the configuration, which come first.
    fn vocabulary(&mut self, built_in: &'m model::Vocabulary) -> Arc<plan::Vocabulary> {
        if let Some(known) = self.shared.vocabularies.find(built_in) {
            return known;
        }
        let names = &self.names;
        let resolve = |(name, var): &(String, weir_expr::Var<String>)| {
            let var = var.try_map(&mut |name| names.slot(name).ok_or(())).ok()?;
            Some((name.clone(), var))
        };
        let own =
            names.variables().map(|(name, slot)| (name.to_ascii_lowercase(), weir_expr::Var::User(slot)));
        let whole = built_in.whole.iter().filter_map(resolve).chain(own);
        let made = plan::Vocabulary::new(whole, built_in.prefixes.iter().filter_map(resolve));
        self.shared.vocabularies.keep(built_in, Arc::new(made))
    }
}
