use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Name {
    Exact(String),
    Suffix(String),
    Prefix(String),
    Regex(String),
}

fn build(names: &[Name]) -> NameIndex<u32> {
    let mut index = NameIndex::new(u32::MAX);
    for (at, name) in (0u32..).zip(names) {
        match name {
            Name::Exact(text) => drop(index.add_exact(text, at)),
            Name::Suffix(text) => drop(index.add_suffix(text, at)),
            Name::Prefix(text) => drop(index.add_prefix(text, at)),
            Name::Regex(text) => {
                index.add_pattern(Arc::new(Pattern::new(text, false, |_| None).unwrap()), at)
            }
        }
    }
    index
}

/// The order of "Server names" in nginx's documentation: exact, longest `*.x`, longest `x.*`, first pattern.
fn naive(names: &[Name], host: &str) -> u32 {
    let numbered = || (0u32..).zip(names);
    let exact = numbered().find(|(_, name)| matches!(name, Name::Exact(text) if text == host));
    if let Some((at, _)) = exact {
        return at;
    }
    let mut best: Option<(usize, u32)> = None;
    for (at, name) in numbered() {
        if let Name::Suffix(text) = name
            && host.ends_with(&format!(".{text}"))
            && best.is_none_or(|(len, _)| text.len() > len)
        {
            best = Some((text.len(), at));
        }
    }
    if let Some((_, at)) = best {
        return at;
    }
    for (at, name) in numbered() {
        if let Name::Prefix(text) = name
            && host.starts_with(&format!("{text}."))
            && best.is_none_or(|(len, _)| text.len() > len)
        {
            best = Some((text.len(), at));
        }
    }
    if let Some((_, at)) = best {
        return at;
    }
    let pattern = numbered().find(
        |(_, name)| matches!(name, Name::Regex(text) if regex::Regex::new(text).unwrap().is_match(host)),
    );
    pattern.map_or(u32::MAX, |(at, _)| at)
}

fn host() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,2}", 1..5).prop_map(|labels| labels.join("."))
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        host().prop_map(Name::Exact),
        host().prop_map(Name::Suffix),
        host().prop_map(Name::Prefix),
        prop::sample::select(vec!["^a", "b$", r"^(a+)\.b", r"\.a\."])
            .prop_map(|text| Name::Regex(text.into())),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_documented_order(names in prop::collection::vec(name(), 0..12), hosts in prop::collection::vec(host(), 8)) {
        let index = build(&names);
        for host in hosts {
            let found = index.lookup(host.as_bytes()).unwrap();
            prop_assert_eq!(found.value, naive(&names, &host), "{}", host);
            prop_assert_eq!(found.is_default, found.value == u32::MAX);
        }
    }
}

#[test]
fn the_examples_of_the_documentation() {
    let names = [
        Name::Exact("example.org".into()),
        Name::Suffix("example.org".into()),
        Name::Prefix("mail".into()),
        Name::Regex(r"^(?<user>.+)\.example\.net$".into()),
        Name::Exact(String::new()),
    ];
    let index = build(&names);
    let check = |host: &str| index.lookup(host.as_bytes()).unwrap().value;
    assert_eq!(check("example.org"), 0);
    assert_eq!(check("example.org."), 0, "a final dot is ignored");
    assert_eq!(check("www.sub.example.org"), 1);
    assert_eq!(check("mail.example.com"), 2);
    assert_eq!(check("joe.example.net"), 3);
    assert_eq!(check(""), 4, "requests without Host");
    assert_eq!(check("other"), u32::MAX);
    let found = index.lookup(b"joe.example.net").unwrap();
    let (_, captures) = found.matched.unwrap();
    assert_eq!(captures.text(1, b"joe.example.net"), b"joe");
}

#[test]
fn a_host_of_dots_costs_little() {
    let mut index = NameIndex::new(0);
    index.add_suffix("example.org", 1);
    index.add_prefix("mail", 2);
    let hostile = vec![b'.'; 1 << 20];
    let start = std::time::Instant::now();
    for _ in 0..100 {
        assert_eq!(index.lookup(&hostile).unwrap().value, 0);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(2));
}
