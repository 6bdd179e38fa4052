//! Filters of response bodies.

use std::sync::Arc;

use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn body_filters(&mut self, filters: &'m model::BodyFilters) -> Arc<plan::BodyFilters> {
        if let Some(known) = self.shared.filters.find(filters) {
            return known;
        }
        let model::BodyFilters { replace, unpack, trailers } = filters;
        let compiled = plan::BodyFilters {
            replace: replace.as_ref().map(|replace| self.replace(replace)),
            unpack: unpack.as_ref().map(|gzip| self.gzip(gzip)),
            trailers: trailers.iter().map(|trailer| self.header_edit(trailer)).collect(),
        };
        self.shared.filters.keep(filters, Arc::new(compiled))
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
}
