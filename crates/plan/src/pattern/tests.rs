use super::*;

fn compile(source: &str) -> Pattern {
    let slot = |name: &str| name.strip_prefix('v').and_then(|number| number.parse().ok()).map(Slot);
    Pattern::new(source, false, slot).unwrap()
}

fn groups(source: &str, subject: &str) -> Option<Vec<String>> {
    let captures = compile(source).matches(subject.as_bytes()).unwrap()?;
    let text = |group| String::from_utf8(captures.text(group, subject.as_bytes()).to_vec()).unwrap();
    Some((0..captures.len()).map(text).collect())
}

#[test]
fn captures_are_ranges_of_the_subject() {
    assert_eq!(
        groups("^/a/(.*)/(x)?$", "/a/b/c/"),
        Some(vec!["/a/b/c/".into(), "b/c".into(), String::new()])
    );
    assert_eq!(groups("^/a", "/b"), None);
    let captures = compile("b(x)?").matches(b"abc").unwrap().unwrap();
    assert_eq!(captures.range(0), Some(1..2));
    assert_eq!(captures.range(1), None, "a group that took no part");
    assert_eq!(captures.range(9), None, "a group that is not there");
}

#[test]
fn more_groups_than_nine_are_kept() {
    let all = groups("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "abcdefghijk").unwrap();
    assert_eq!(all.len(), 12);
    assert_eq!(all[11], "k");
}

#[test]
fn named_groups_give_slots_in_both_engines() {
    for source in ["^(?<v1>a)(?P<other>b)(?<v3>c)", "^(?<v1>a)(?<other>b)(?<v3>c)(?!d)"] {
        assert_eq!(compile(source).named(), [(1, Slot(1)), (3, Slot(3))], "{source}");
    }
    assert!(compile("^(?<v1>a)").is_linear());
}

#[test]
fn what_only_pcre_has_goes_there() {
    for source in [
        r"^/(?!api)",
        r"(a)\1",
        r"a++b",
        r"a{2}+b",
        r"a?+b",
        r"(?>a)b",
        r"\Aa\Z",
        r"\Qa.b\E",
        r"a\Kb",
        r"[[a]",
        r"x{,3}",
        r"\v",
    ] {
        assert!(!compile(source).is_linear(), "{source}");
    }
    for source in [
        r"\.(jpe?g|png)$",
        r"^/(?:a|b)/[^/\[]+$",
        r"[\w.-]+",
        r"[[:alpha:]]",
        r"[]a]",
        r"(?i)x",
        r"a{2,3}\/",
        r"a+?b*?c??d{2}?",
        r"(?:a+)+",
    ] {
        assert!(compile(source).is_linear(), "{source}");
    }
}

#[test]
fn pcre_captures_and_looks_around() {
    assert_eq!(groups(r"^/(?!api/)(\w+)", "/images/x"), Some(vec!["/images".into(), "images".into()]));
    assert_eq!(groups(r"^/(?!api/)(\w+)", "/api/x"), None);
    assert_eq!(groups(r"(\w)\1", "abccd"), Some(vec!["cc".into(), "c".into()]));
}

#[test]
fn bytes_not_characters() {
    assert!(compile("^.$").is_match(b"\xff").unwrap());
    assert!(!compile("^.$").is_match("ä".as_bytes()).unwrap(), "two bytes");
    assert!(compile("ä").is_match("ä".as_bytes()).unwrap());
    assert!(compile("[ä]x").is_match(b"\xa4x").unwrap(), "a set of the two bytes of ä");
    assert!(!compile(r"^\w+$").is_match("ä".as_bytes()).unwrap());
}

#[test]
fn utf_is_read_where_a_pattern_asks_for_it() {
    let pattern = compile("(*UTF8)^.$");
    assert!(pattern.is_match("ä".as_bytes()).unwrap());
    assert!(!pattern.is_match("äö".as_bytes()).unwrap());
    assert!(!compile(r"(*UTF8)^\w$").is_match("ä".as_bytes()).unwrap(), "only (*UCP) makes it a letter");
    assert!(compile(r"(*UCP)(*UTF8)^\w$").is_match("ä".as_bytes()).unwrap());
}

#[test]
fn what_is_no_utf_8_is_matched_as_bytes() {
    // A stray byte leads past no pattern.
    for source in ["(*UTF8)^/admin/.+$", "(*UTF8)^/admin/", "^/admin/", "^/admin/(?!x)", "^/admin/.*(?<!x)$"]
    {
        assert!(compile(source).is_match(b"/admin/\xff").unwrap(), "{source}");
        assert!(compile(source).matches(b"/admin/\xff\xc3").unwrap().is_some(), "{source}");
        assert!(!compile(source).is_match(b"/other/\xff").unwrap(), "{source}");
    }
    // A pattern of characters that no byte is has no other form: neither yes nor no.
    let wide = compile(r"(*UTF8)^/\x{4e2d}");
    assert!(wide.is_match("/中".as_bytes()).unwrap());
    assert!(wide.is_match(b"/\xff").is_err());
}

#[test]
fn the_end_is_not_before_a_newline() {
    for source in [r"\.sql$", r"(?<!x)\.sql$", r"(*UTF8)\.sql$", r"\.(sql$|bak$)(?!x)"] {
        let pattern = compile(source);
        assert!(pattern.is_match(b"/a.sql").unwrap(), "{source}");
        // As guards would want it: `/a.sql%0a` is another file than `/a.sql`, and is not said to end in `.sql`.
        assert!(!pattern.is_match(b"/a.sql\n").unwrap(), "{source}");
    }
    for source in ["(?m)a$", "(?m)(?<!x)a$"] {
        assert!(compile(source).is_match(b"a\nb").unwrap(), "{source}: lines were asked for");
    }
}

#[test]
fn case_is_ignored_where_asked_for() {
    let pattern = Pattern::new(r"\.PHP$", true, |_| None).unwrap();
    assert!(pattern.is_match(b"/index.php").unwrap());
    assert!(!compile(r"\.PHP$").is_match(b"/index.php").unwrap());
    let pcre = Pattern::new(r"(?<!x)\.PHP$", true, |_| None).unwrap();
    assert!(pcre.is_match(b"/page.php").unwrap() && !pcre.is_match(b"/x.php").unwrap());
}

#[test]
fn errors_tell_place_and_cause() {
    let error = Pattern::new("^/(a|b", false, |_| None).unwrap_err();
    assert_eq!(error.offset, Some(6));
    assert!(error.message.contains("closing parenthesis"), "{}", error.message);
    let error = Pattern::new("a**", false, |_| None).unwrap_err();
    assert!(error.offset.is_some_and(|at| at <= 3), "{error:?}");
    assert!(error.message.contains("quantifier"), "{}", error.message);
}

#[test]
fn a_hostile_subject_neither_stalls_pcre_nor_counts_as_no_match() {
    let pattern = compile(r"^(a+)+(?!b)c$");
    // It holds what the pattern must end with, else PCRE sees at once that nothing can match.
    let subject = [vec![b'a'; 60], b"bc".to_vec()].concat();
    let start = std::time::Instant::now();
    let failed = pattern.is_match(&subject).unwrap_err();
    assert_eq!(failed.to_string(), "pattern \"^(a+)+(?!b)c$\" gave up: match limit exceeded");
    assert_eq!(pattern.matches(&subject), Err(failed));
    assert!(start.elapsed() < std::time::Duration::from_secs(2));
}

#[test]
fn later_matches_are_found_from_a_byte() {
    for source in ["a.", "a.(?!x)"] {
        let pattern = compile(source);
        assert_eq!(pattern.matches_from(b"abac", 1).unwrap().unwrap().range(0), Some(2..4), "{source}");
        assert_eq!(pattern.matches_from(b"abac", 9), Ok(None), "{source}");
    }
}
