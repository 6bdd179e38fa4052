//! What must hold for any stored form: it comes to an end, and what was made of a password is verified by it.
//!
//! Owns: the property. Never: makes inputs, or verifies forms that take long by their own word; `cargo xtask fuzz` does the
//! former, and an operator who writes the latter means it.

/// A stored form, and a password behind its first line feed.
pub fn form(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (stored, password) = text.split_once('\n').unwrap_or((&text, ""));
    // Every round of a form takes the whole password: a longer one says nothing more, slowly.
    let password = &password[..password.floor_char_boundary(256)];
    let _ = (crate::cost(stored), crate::fault(stored));
    if !is_quick(stored) {
        return;
    }
    let _ = crate::verify(stored, password.as_bytes());
    if let Some(made) = crate::crypt(stored, password.as_bytes()) {
        let same = crate::crypt(&made, password.as_bytes());
        assert_eq!(same.as_deref(), Some(&made[..]), "what was made is read as something else");
    }
}

/// Whether its own settings make a form quick to verify.
fn is_quick(stored: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(rest) = stored.strip_prefix("$sha1$") {
        return digits(rest) < 5;
    }
    if let Some((_, rest)) = stored.split_once("$rounds=") {
        return digits(rest) < 5;
    }
    match stored.as_bytes() {
        [b'$', b'2', _, b'$', cost @ ..] => cost.starts_with(b"04$"),
        [b'$', b'y', b'$', ..] => crate::yescrypt::memory(stored).is_none_or(|bytes| bytes <= 1 << 20),
        // Passes in four digits, lowest first.
        [b'_', _, _, high @ ..] => high.starts_with(b".."),
        _ => true,
    }
}
