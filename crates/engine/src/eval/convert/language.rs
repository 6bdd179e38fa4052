//! The language that a client likes best: RFC 9110 section 12.5.4.

/// Of the languages offered, with `;` between them, the one of the highest weight; the first of several. A variant that is not
/// offered counts as its base. Else the default, if there is one.
pub(super) fn best(wanted: &[u8], offered: &[u8], default: &[u8]) -> Option<Vec<u8>> {
    let offered = || offered.split(|byte| *byte == b';');
    let mut best: Option<(u16, &[u8])> = None;
    for part in wanted.split(|byte| *byte == b',') {
        let mut fields = part.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let tag = fields.next().unwrap_or_default();
        let weight = fields.next().map_or(Some(1000), weight).unwrap_or(0);
        let base = tag.split(|byte| *byte == b'-').next().unwrap_or_default();
        let Some(found) = offered().find(|one| *one == tag).or_else(|| offered().find(|one| *one == base))
        else {
            continue;
        };
        if weight > best.map_or(0, |(weight, _)| weight) {
            best = Some((weight, found));
        }
    }
    best.map(|(_, found)| found.to_vec()).or_else(|| (!default.is_empty()).then(|| default.to_vec()))
}

/// `q=0.75` as 750.
fn weight(field: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(field).ok()?.strip_prefix("q=")?;
    let number: f32 = text.trim().parse().ok()?;
    (0.0..=1.0).contains(&number).then_some((number * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: &str) -> Option<String> {
        best(wanted.as_bytes(), b"es;fr;en-gb;en", b"")
            .map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn weights_decide_and_bases_stand_in() {
        assert_eq!(check("de, fr;q=0.5, es;q=0.8").unwrap(), "es");
        assert_eq!(check("en-us;q=0.7, fr;q=0.7").unwrap(), "en");
        assert_eq!(check("en-gb").unwrap(), "en-gb");
        assert_eq!(check("fr;q=0, de"), None);
        assert_eq!(check("fr;q=x"), None);
        assert_eq!(best(b"de", b"es", b"en").unwrap(), b"en");
    }
}
