//! Settings of which the filters of response bodies are made.
//!
//! Owns: the fields with nginx's defaults, and the filters that they make together.
//! Never: reports, or reads a directive; `take::filters` does.
//! Driven by: `Parts`, whose part it is.

use std::sync::Arc;

use weir_model::{Addition, BodyFilters, Charset, HeaderEdit, PageCommands, Replace, Template};

use super::scope::{List, Ruled};

/// What inner blocks inherit.
#[derive(Clone, Debug)]
pub(crate) struct FilterParts {
    /// `charset`.
    pub charset: Option<Template>,
    pub source_charset: Option<Template>,
    pub override_charset: bool,
    pub charset_types: Arc<Vec<String>>,
    /// `sub_filter`.
    pub subs: List<(Template, Template)>,
    pub sub_types: Vec<String>,
    pub sub_once: bool,
    pub sub_last_modified: bool,
    /// `add_before_body`, `add_after_body`.
    pub before: Option<String>,
    pub after: Option<String>,
    pub addition_types: Vec<String>,
    /// `ssi` and its kin.
    pub ssi: bool,
    pub ssi_types: Vec<String>,
    pub ssi_last_modified: bool,
    pub ssi_silent_errors: bool,
    pub ssi_value_length: u64,
    /// `subrequest_output_buffer_size`.
    pub most_kept: Option<u64>,
    /// `add_trailer`.
    pub trailers: Ruled<HeaderEdit>,
}

impl Default for FilterParts {
    fn default() -> Self {
        let html = || vec!["text/html".to_owned()];
        Self {
            charset: None,
            source_charset: None,
            override_charset: false,
            charset_types: Arc::new(super::scope::default_charset_types()),
            subs: List::default(),
            sub_types: html(),
            sub_once: true,
            sub_last_modified: false,
            before: None,
            after: None,
            addition_types: html(),
            ssi: false,
            ssi_types: html(),
            ssi_last_modified: false,
            ssi_silent_errors: false,
            ssi_value_length: 256,
            most_kept: None,
            trailers: Ruled::default(),
        }
    }
}

impl FilterParts {
    /// The filters, if there is any.
    pub(crate) fn build(&self) -> Option<Arc<BodyFilters>> {
        let replace = (!self.subs.items().is_empty()).then(|| Replace {
            pairs: self.subs.items().to_vec(),
            types: self.sub_types.clone(),
            once: self.sub_once,
            keeps_validators: self.sub_last_modified,
        });
        let charset = self.charset.as_ref().map(|name| Charset {
            name: name.clone(),
            source: self.source_charset.clone(),
            overrides: self.override_charset,
            types: self.charset_types.clone(),
            maps: Arc::default(),
        });
        let addition = (self.before.is_some() || self.after.is_some()).then(|| Addition {
            before: self.before.clone(),
            after: self.after.clone(),
            types: self.addition_types.clone(),
        });
        let commands = self.ssi.then(|| PageCommands {
            types: self.ssi_types.clone(),
            keeps_validators: self.ssi_last_modified,
            silent: self.ssi_silent_errors,
            value_length: self.ssi_value_length,
            names: crate::variables::vocabulary(),
        });
        let trailers = self.trailers.items().to_vec();
        let most_kept = self.most_kept;
        let filters = BodyFilters { charset, replace, unpack: None, addition, commands, most_kept, trailers };
        (filters != BodyFilters::default()).then(|| Arc::new(filters))
    }
}
