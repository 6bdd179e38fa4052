//! Words of the module `otel`: traces by OpenTelemetry.
//!
//! Owns: whom spans are told to, which requests are traced, and what becomes of the context that they bring.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::settings::TraceContext;
use weir_model::{Pem, SpanExport, Tracing};

use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

fn export<'l>(lo: &'l mut Lowering<'_>) -> &'l mut SpanExport {
    lo.model.process.spans.get_or_insert_with(|| SpanExport::to(String::new()))
}

/// `otel_exporter { endpoint …; trusted_certificate …; header …; interval …; batch_size …; batch_count …; }`.
pub(crate) fn exporter(lo: &mut Lowering<'_>, d: &Directive) {
    export(lo).origin = Some(d.span);
    for line in d.children() {
        let count = if line.name() == "header" { 2 } else { 1 };
        if line.args.len() != count {
            let text = format!("`{}` takes {count} arguments in `otel_exporter`", line.name());
            lo.report(Diagnostic::error("nginx::arguments", text).at(line.span));
            continue;
        }
        let number = || value::number(line.arg(0)).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        match line.name() {
            "endpoint" => export(lo).endpoint = line.arg(0).to_owned(),
            "trusted_certificate" => {
                let path = lo.conf_path(line.arg(0));
                export(lo).trusted = Some(Pem::file(path, Some(line.args[0].span)));
            }
            "header" => export(lo).headers.push((line.arg(0).to_owned(), line.arg(1).to_owned())),
            "interval" => match value::time(line.arg(0)).filter(|time| !time.is_zero()) {
                Some(time) => export(lo).interval = time,
                None => lo.bad_value(line, 0, "a time such as `5s`"),
            },
            "batch_size" => match number() {
                Some(size) => export(lo).batch_size = size,
                None => lo.bad_value(line, 0, "a number of spans, at least 1"),
            },
            "batch_count" => match number() {
                Some(count) => export(lo).batch_count = count,
                None => lo.bad_value(line, 0, "a number of batches, at least 1"),
            },
            name => {
                let text = format!(
                    "`otel_exporter` knows no `{name}`; it has `endpoint`, `trusted_certificate`, `header`, `interval`, `batch_size`, `batch_count`"
                );
                lo.report(Diagnostic::error("nginx::unknown-directive", text).at(line.span));
            }
        }
    }
    if export(lo).endpoint.is_empty() {
        let text = "`otel_exporter` needs an `endpoint`";
        lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
    }
}

/// `otel_service_name NAME`.
pub(crate) fn service(lo: &mut Lowering<'_>, d: &Directive) {
    export(lo).service = d.arg(0).to_owned();
}

/// `otel_resource_attr NAME VALUE`.
pub(crate) fn resource(lo: &mut Lowering<'_>, d: &Directive) {
    export(lo).resource.push((d.arg(0).to_owned(), d.arg(1).to_owned()));
}

/// `otel_trace on | off | $variable`.
pub(crate) fn trace(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let known = matches!(d.arg(0), "on" | "off") || d.arg(0).starts_with('$');
    if !known {
        return lo.bad_value(d, 0, "`on`, `off` or a variable");
    }
    let when = lo.template(&d.args[0]);
    s.tracing().when = (d.arg(0) != "off").then_some(when);
}

/// `otel_trace_context extract | inject | propagate | ignore`.
pub(crate) fn context(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let (extract, inject) = match d.arg(0) {
        "extract" => (true, false),
        "inject" => (false, true),
        "propagate" => (true, true),
        "ignore" => (false, false),
        _ => return lo.bad_value(d, 0, "`extract`, `inject`, `propagate` or `ignore`"),
    };
    s.tracing().context = TraceContext { extract, inject };
}

/// `otel_span_name NAME`.
pub(crate) fn span_name(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.tracing().name = Some(lo.template(&d.args[0]));
}

/// `otel_span_attr NAME VALUE`.
pub(crate) fn attribute(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let (level, value) = (s.level, lo.template(&d.args[1]));
    s.otel_attributes.push(level, (d.arg(0).to_owned(), value));
}

impl Scope {
    fn tracing(&mut self) -> &mut Tracing {
        Arc::make_mut(self.tracing.get_or_insert_default())
    }
}

/// How requests are traced; `None`: they are not, and nothing is told of a trace.
pub(crate) fn built(s: &Scope) -> Option<Arc<Tracing>> {
    let tracing = s.tracing.as_ref()?;
    let context = tracing.context;
    if tracing.when.is_none() && !context.extract && !context.inject {
        return None;
    }
    let attributes = Vec::clone(s.otel_attributes.items());
    match attributes.is_empty() {
        true => Some(tracing.clone()),
        false => Some(Arc::new(Tracing { attributes, ..Tracing::clone(tracing) })),
    }
}
