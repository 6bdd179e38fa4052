//! Static files.

use std::sync::Arc;

use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn static_files(&mut self, files: &'m model::StaticFiles) -> Arc<plan::StaticFiles> {
        if let Some(known) = self.shared.files.find(files) {
            return known;
        }
        let compiled = plan::StaticFiles {
            root: self.template(&files.root),
            alias: files.alias,
            index: files.index.iter().map(|name| self.template(name)).collect(),
            listing: files.listing,
            types: self.mime_table(files),
            etag: files.etag,
            if_modified_since: files.if_modified_since,
            max_ranges: files.max_ranges,
            precompressed: files.precompressed.as_slice().into(),
            sendfile: files.sendfile,
            symlinks: files.symlinks,
            random_index: files.random_index,
            video: files.video,
            dav: files.dav.methods.any().then(|| Box::new(files.dav)),
        };
        self.shared.files.keep(files, Arc::new(compiled))
    }

    fn mime_table(&mut self, files: &'m model::StaticFiles) -> Arc<plan::MimeTable> {
        let places = (Arc::as_ptr(&files.types) as usize, Arc::as_ptr(&files.charset_types) as usize);
        let key = (places.0, places.1, files.default_type.as_str(), files.charset.as_deref());
        if let Some(known) = self.shared.mime.get(&key) {
            return known.clone();
        }
        let types =
            files.types.by_extension.iter().map(|(extension, value)| (extension.as_str(), value.as_str()));
        let table = plan::MimeTable::new(types, key.2, key.3, files.charset_types.clone());
        let table = Arc::new(table);
        self.shared.mime.insert(key, table.clone());
        table
    }

    pub(crate) fn try_files(&mut self, try_files: &'m model::TryFiles) -> Arc<plan::TryFiles> {
        if let Some(known) = self.shared.try_files.find(try_files) {
            return known;
        }
        let candidates = try_files.candidates.iter().map(|candidate| {
            let folder = matches!(candidate.pieces.last(), Some(weir_expr::Piece::Literal(text)) if text.ends_with('/'));
            (self.template(candidate), folder)
        });
        let candidates = candidates.collect();
        let last = match &try_files.last {
            model::TryLast::Uri(uri) => plan::TryLast::Uri(self.template(uri)),
            model::TryLast::Named(route) => plan::TryLast::Named(self.route_ix(*route)),
            model::TryLast::Status(status) => plan::TryLast::Status(*status),
        };
        self.shared.try_files.keep(try_files, Arc::new(plan::TryFiles { candidates, last }))
    }
}
