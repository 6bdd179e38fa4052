//! Each form beside crypt(3) and OpenSSL, over passwords of all lengths.

use std::process::Command;

use super::*;

/// Passwords that reach each branch: empty, around block sizes, with bytes that are no ASCII, as long as allowed.
fn passwords() -> Vec<Vec<u8>> {
    let long = |length: usize| (0..length).map(|at| b'!' + (at * 7 % 90) as u8).collect();
    let mut all: Vec<Vec<u8>> = [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 71, 72, 73, 200, LONGEST]
        .into_iter()
        .map(long)
        .collect();
    all.push(Vec::new());
    all.push("pässwörd ✓".as_bytes().to_vec());
    all.push(vec![0xff; 9]);
    all
}

/// What the system's crypt(3) makes of passwords.
fn by_system(setting: &str, passwords: &[Vec<u8>]) -> Vec<String> {
    let script = "my $s = shift; print crypt(pack('H*', $_), $s), \"\\n\" for map { substr($_, 1) } @ARGV;";
    let hex = |bytes: &Vec<u8>| bytes.iter().fold("x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let out =
        Command::new("perl").args(["-e", script, setting]).args(passwords.iter().map(hex)).output().unwrap();
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn forms_are_those_of_crypt() {
    let settings = [
        "$1$abcdefgh$",
        "$1$a$",
        "$5$saltstring$",
        "$5$rounds=1234$a$",
        "$6$saltstring$",
        "$6$rounds=1000$0123456789abcdef$",
        "$6$$",
        "$2y$04$abcdefghijklmnopqrstuu",
        "$2b$05$./ABCDEFGHIJKLMNOPQRSO",
        "$2a$04$zzzzzzzzzzzzzzzzzzzzzu",
        "ab",
        "./",
        "zZ",
        "_/...abcd",
        "_J9..rasm",
        "$sha1$25$wnUR8T1U$",
        "$sha1$1$./$",
        // Costs 1, 2 and 5 (Debian's default), without a salt, and with short and long ones.
        "$y$j75$saltsalt$",
        "$y$j85$....$",
        "$y$j75$$",
        "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$",
        "$y$j75$0123456789012345678901234567890123456789012345678901234567890123456789012345678901234.$",
    ];
    for setting in settings {
        let mut passwords = passwords();
        if setting.starts_with("$y$j9T") {
            // Sixteen megabytes each.
            passwords.truncate(4);
        }
        let stored = by_system(setting, &passwords);
        assert_eq!(stored.len(), passwords.len(), "{setting}");
        for (password, stored) in passwords.iter().zip(&stored) {
            assert!(stored.len() > 12, "crypt(3) does not know {setting}");
            assert!(verify(stored, password), "{stored} {password:02x?}");
            let mut other = password.clone();
            other.insert(0, b'#');
            // DES sees eight bytes, bcrypt 72; the first is always among them.
            assert!(!verify(stored, &other), "{stored} {other:02x?}");
            assert_eq!(cost(stored), Cost::Dear);
        }
    }
}

#[test]
fn forms_are_those_of_openssl() {
    for form in ["-apr1", "-1", "-5", "-6"] {
        for password in
            ["secret", "x", "a rather long password of more than sixty-four bytes, to be sure of it"]
        {
            let out = Command::new("openssl")
                .args(["passwd", form, "-salt", "s4lt.S4l", password])
                .output()
                .unwrap();
            let stored = String::from_utf8(out.stdout).unwrap();
            assert!(verify(stored.trim(), password.as_bytes()), "{form} {stored}");
            assert!(!verify(stored.trim(), b"other"), "{form} {stored}");
        }
    }
}

/// As `htpasswd -s` and slappasswd(8) write them.
#[test]
fn cheap_forms() {
    assert!(verify("{PLAIN}secret", b"secret"));
    assert!(!verify("{PLAIN}secret", b"secre"));
    assert!(verify("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", b"secret"));
    assert!(!verify("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", b"Secret"));
    assert!(!verify("{SHA}", b""), "no digest is no password");
    let salted = STANDARD.encode([&Sha1::digest(b"secretsalt")[..], b"salt"].concat());
    assert!(verify(&format!("{{SSHA}}{salted}"), b"secret"));
    assert!(!verify(&format!("{{SSHA}}{salted}"), b"secretsalt"));
    assert!(!verify("{SSHA}c2hvcnQ=", b""), "too short for a digest");
    let long = vec![b'x'; 6000];
    assert!(verify(&format!("{{PLAIN}}{}", "x".repeat(6000)), &long), "comparing needs no bound");
    assert_eq!(cost("{PLAIN}x"), Cost::Cheap);
}

/// crypt(3) refuses them too, with `*0`.
#[test]
fn too_long_for_crypt() {
    let long = vec![b'x'; LONGEST + 1];
    assert!(
        !by_system("$6$a$", std::slice::from_ref(&long))[0].starts_with("$6$"),
        "crypt(3) has another bound"
    );
    for setting in ["$6$a$", "$1$a$", "$2y$04$abcdefghijklmnopqrstuu", "ab", "_/...abcd"] {
        let whole = vec![b'x'; LONGEST];
        let stored = &by_system(setting, std::slice::from_ref(&whole))[0];
        assert!(verify(stored, &whole) && !verify(stored, &long), "{setting}");
        assert!(!verify(stored, b"x\0x") && !is_hashable(b"x\0x"));
    }
}

/// What is no stored form matches nothing, and breaks nothing.
#[test]
fn nonsense_matches_nothing() {
    let broken = [
        "",
        "x",
        "!",
        "*0",
        "!!",
        "ab",
        "$",
        "$1",
        "$1$",
        "$6$",
        "$6$rounds=$a$b",
        "$6$rounds=1$a$b",
        "$6$rounds=01000$a$b",
        "$6$rounds=9999999999$a$b",
        "$5$rounds=1000",
        "$2y$",
        "$2y$99$abcdefghijklmnopqrstuu",
        "$2y$4$abcdefghijklmnopqrstuu",
        "$2y$04$abc",
        "$2y$04$abcdefghijklmnopqrst!u",
        "$y$j9T$abc$def",
        "$y$",
        "$y$j9T",
        "$y$j9T$",
        "$y$j9T$a$",
        "$y$j9T$zzz$",
        "$y$zzzzzz$abc$def",
        "$y$j9zzzzz$abc$def",
        "$y$.9T$abc$def",
        "$y$jzz$abc$def",
        "$y$jjj$abc$def",
        "$y$j9T1zzzzzzz$abc$def",
        "$y$äöü$abc$def",
        "$7$x",
        "_",
        "_....abcd",
        "_J9..ras",
        "$sha1$",
        "$sha1$0$a$b",
        "$sha1$x$a$b",
        "äö",
        "$1$äöüäö$x",
        "$2y$04$äöüäöüäöüäöüäöüä",
        "_äöüäöü",
        "secret",
    ];
    for stored in broken {
        for password in [&b""[..], b"secret", b"x"] {
            assert!(!verify(stored, password), "{stored}");
        }
    }
}

/// What an operator has to be told of: nobody gets in by it, however right the password.
#[test]
fn faults_are_those_that_no_password_matches() {
    // Cost 8 takes 128 MB, cost 11 a gigabyte.
    for stored in ["$y$jCT$abcd$def", "$y$jFT$abcd$def", "$y$jjj$abcd$def"] {
        assert_eq!(fault(stored), Some(Fault::TooLarge), "{stored}");
    }
    for stored in ["$argon2id$v=19$m=65536,t=2,p=1$c$h", "$7$x$y", "$gy$j9T$a$b", "$3$$x"] {
        assert_eq!(fault(stored), Some(Fault::Unknown), "{stored}");
    }
    let fine =
        ["$y$j9T$abcd$def", "$y$jBT$abcd$def", "$6$a$b", "{PLAIN}$a$b", "!", "*", "x", "!$argon2id$x$"];
    for stored in fine {
        assert_eq!(fault(stored), None, "{stored}");
    }
}
