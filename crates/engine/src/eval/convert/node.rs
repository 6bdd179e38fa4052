//! `Forwarded` fields and the nodes in them: RFC 7239.

/// A parameter of an element: its name and value.
type Parameter<'f> = (&'f [u8], Vec<u8>);

/// The elements of a field, each with its parameters in order; `None`: it is malformed.
pub(super) fn elements(field: &[u8]) -> Option<Vec<Vec<Parameter<'_>>>> {
    let mut elements = vec![Vec::new()];
    let mut rest = field.trim_ascii();
    loop {
        let at = rest.iter().position(|byte| *byte == b'=')?;
        let name = &rest[..at];
        let (value, after) = value(&rest[at + 1..])?;
        let known = [&b"for"[..], b"by", b"host", b"proto"].iter().any(|one| name.eq_ignore_ascii_case(one));
        let element = elements.last_mut()?;
        let again = element.iter().any(|(one, _): &(&[u8], _)| one.eq_ignore_ascii_case(name));
        if !known || again || !sound(name, &value) {
            return None;
        }
        element.push((name, value));
        rest = after;
        match rest.split_first() {
            None => return Some(elements),
            Some((b';', tail)) => rest = tail,
            Some((b',', tail)) => {
                elements.push(Vec::new());
                rest = tail.trim_ascii_start();
            }
            Some(_) => return None,
        }
    }
}

/// A parameter of the first element.
pub(super) fn parameter(field: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let first = elements(field)?.into_iter().next()?;
    first.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Name and port of a node: an address without brackets, a hidden name, or `unknown`.
pub(super) fn parts(node: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (name, rest) = match node.strip_prefix(b"[") {
        Some(inner) => {
            let end = inner.iter().position(|byte| *byte == b']')?;
            std::str::from_utf8(&inner[..end]).ok()?.parse::<std::net::Ipv6Addr>().ok()?;
            (&inner[..end], &inner[end + 1..])
        }
        None => {
            let end = node.iter().position(|byte| *byte == b':').unwrap_or(node.len());
            let name = &node[..end];
            let address = std::str::from_utf8(name).ok()?.parse::<std::net::Ipv4Addr>().is_ok();
            if !(address || name.eq_ignore_ascii_case(b"unknown") || hidden(name)) {
                return None;
            }
            (name, &node[end..])
        }
    };
    match rest.split_first() {
        None => Some((name, None)),
        Some((b':', port)) => {
            let digits = !port.is_empty() && port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
            (digits || hidden(port)).then_some((name, Some(port)))
        }
        Some(_) => None,
    }
}

/// A name that says nothing: `_` and letters.
fn hidden(name: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    name.len() > 1 && name[0] == b'_' && name.iter().all(letter)
}

/// A token or a quoted string, and what follows it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| matches!(byte, b';' | b',')).unwrap_or(text.len());
        let token = &text[..end];
        return weir_http::scan::is_token(token).then(|| (token.to_vec(), &text[end..]));
    };
    let mut out = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((out, &quoted[at + 1..])),
            b'\\' => out.push(*bytes.next()?.1),
            byte => out.push(*byte),
        }
    }
    None
}

/// Whether a value is what its parameter may hold.
fn sound(name: &[u8], value: &[u8]) -> bool {
    match name.to_ascii_lowercase().as_slice() {
        b"for" | b"by" => parts(value).is_some(),
        b"proto" => matches!(value, b"http" | b"https"),
        _ => !value.is_empty() && value.iter().all(|byte| byte.is_ascii_graphic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_the_rfc_says() {
        let field = b"for=127.0.0.1;proto=http, by=\"[::1]:8080\"";
        assert_eq!(elements(field).unwrap().len(), 2);
        assert_eq!(parameter(field, b"proto").unwrap(), b"http");
        assert_eq!(parameter(field, b"by"), None);
        for bad in [
            "",
            "for",
            "for=;proto=http",
            "for=1.2.3.4;for=1.2.3.4",
            "x=y",
            "for=a.b",
            "proto=ftp",
            "for=\"[::1",
        ] {
            assert!(elements(bad.as_bytes()).is_none(), "{bad}");
        }
        assert_eq!(parts(b"[::1]:80").unwrap(), (&b"::1"[..], Some(&b"80"[..])));
        assert_eq!(parts(b"127.0.0.1").unwrap(), (&b"127.0.0.1"[..], None));
        assert_eq!(parts(b"_a:_b").unwrap(), (&b"_a"[..], Some(&b"_b"[..])));
        assert_eq!(parts(b"127.0.0.1:x"), None);
    }
}
