//! What stands in place of variables that name certificates.

use weir_plan::NamedCertificate;

use crate::exchange::Traffic;
use crate::worker::named_tls::Named;

/// Evaluates them.
pub(crate) fn named(traffic: &impl Traffic, certificate: &NamedCertificate) -> Named {
    let text = |template| super::text(traffic, template);
    Named { chain: text(&certificate.chain), key: text(&certificate.key) }
}
