//! `show`, `get`, `add`, `set`, `del`, `clear`, `prepare` and `commit` for maps (`VALUES`) and lists of ACLs.

use weir_control::lists::{Named, Refused};

use super::context::{Cx, KeyList};

type Said = Result<String, String>;

fn said(said: Said) -> String {
    said.unwrap_or_else(|why| why)
}

fn word<const VALUES: bool>() -> &'static str {
    if VALUES { "map" } else { "ACL" }
}

/// What a command is about: a version where one is named, and what follows it.
struct Asked<'a> {
    version: Option<Result<u32, ()>>,
    words: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    fn of(cx: &'a Cx<'_>) -> Self {
        let mut words: Vec<&str> = cx.arguments.iter().map(String::as_str).collect();
        let version = words.first().and_then(|first| first.strip_prefix('@'));
        let version = version.map(|digits| digits.parse().map_err(drop));
        if version.is_some() {
            words.remove(0);
        }
        Self { version, words }
    }

    /// A word; empty where there is none.
    fn word(&self, at: usize) -> &'a str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The version; `None` where none is named.
    fn version(&self, wrong: &str) -> Result<Option<u32>, String> {
        self.version.transpose().map_err(|()| wrong.to_owned())
    }
}

/// A list by its file or number.
fn list<const VALUES: bool>(cx: &Cx<'_>, name: &str) -> Result<KeyList, String> {
    let mut all = cx.runtime.lists().into_iter().filter(|list| list.values == VALUES);
    let found = match name.strip_prefix('#') {
        Some(number) => all.find(|list| number.parse() == Ok(list.number)),
        None => all.find(|list| list.name == name),
    };
    found.ok_or_else(|| format!("Unknown {} identifier. Please use #<id> or <file>.\n", word::<VALUES>()))
}

/// Entries by their key, or by the number that `show` gives one.
fn named(word: &str) -> Named<'_> {
    let id = word.strip_prefix("#0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    id.map_or(Named::Key(word), Named::Id)
}

fn refused(why: Refused, missing: &str) -> String {
    match why {
        Refused::Missing => missing.to_owned(),
        Refused::Version => "Version number in the future, please use 'prepare map' before.\n".to_owned(),
        Refused::Full => "The list is full.\n".to_owned(),
    }
}

pub(super) fn show<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(shown::<VALUES>(cx))
}

fn shown<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    let asked = Asked::of(cx);
    if asked.word(0).is_empty() {
        return Ok(overview::<VALUES>(cx));
    }
    let list = list::<VALUES>(cx, asked.word(0))?.list;
    let Ok(version) = asked.version.transpose() else { return Ok(String::new()) };
    let mut text = String::new();
    for entry in list.entries(version) {
        match VALUES {
            true => text.push_str(&format!("{:#x} {} {}\n", entry.id, entry.key, entry.value)),
            false => text.push_str(&format!("{:#x} {}\n", entry.id, entry.key)),
        }
    }
    Ok(text)
}

fn overview<const VALUES: bool>(cx: &Cx<'_>) -> String {
    let mut text = String::from("# id (file) description\n");
    for one in cx.runtime.lists().iter().filter(|list| list.values == VALUES) {
        let figures = one.list.figures();
        text.push_str(&format!(
            "{} ({}) {}. curr_ver={} next_ver={} entry_cnt={}\n",
            one.number, one.name, one.about, figures.current, figures.newest, figures.entries
        ));
    }
    text
}

pub(super) fn get<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(found::<VALUES>(cx))
}

fn found<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    let (name, value) = (cx.argument(0), cx.argument(1));
    if name.is_empty() || value.is_empty() {
        return Err(format!("Missing {} identifier and/or key.\n", word::<VALUES>()));
    }
    let list = list::<VALUES>(cx, name)?;
    let matched = if VALUES { "found" } else { "match" };
    let mut text = String::new();
    for found in cx.runtime.look_up(list.number, value) {
        let case = if found.ignore_case { "insensitive" } else { "sensitive" };
        text.push_str(&format!("type={}, case={case}, {matched}=", found.how));
        let index = if found.tried { "list" } else { "tree" };
        match &found.entry {
            None => text.push_str("no"),
            Some(entry) if VALUES => text.push_str(&format!(
                "yes, idx={index}, key=\"{}\", value=\"{}\", type=\"str\"",
                entry.key, entry.value
            )),
            Some(entry) => text.push_str(&format!("yes, idx={index}, pattern=\"{}\"", entry.key)),
        }
        text.push('\n');
    }
    Ok(text)
}

pub(super) fn add<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(added::<VALUES>(cx))
}

fn added<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    let asked = Asked::of(cx);
    let (name, key, value) = (asked.word(0), asked.word(1), asked.word(2));
    let payload = cx.payload.filter(|_| VALUES);
    let enough = match VALUES {
        true => payload.is_some() || !key.is_empty() && !value.is_empty(),
        false => !key.is_empty(),
    };
    if name.is_empty() || !enough {
        return Err(match VALUES {
            true => "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) and a payload\n",
            false => "'add acl' expects two parameters: ACL identifier and pattern.\n",
        }
        .to_owned());
    }
    let list = list::<VALUES>(cx, name)?;
    let version = asked.version("Version number out of range.\n")?;
    let add = |key: &str, value: &str| {
        cx.runtime.check_key(list.number, key).map_err(|why| format!("{why}\n"))?;
        list.list.add(version, key, value).map_err(|why| refused(why, ""))
    };
    let Some(payload) = payload else { return add(key, value).map(|()| String::new()) };
    for line in payload.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let value = value.trim_start();
        if value.is_empty() {
            return Err(format!("Missing value for key '{key}'.\n"));
        }
        add(key, value)?;
    }
    Ok(String::new())
}

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    said(changed(cx))
}

fn changed(cx: &Cx<'_>) -> Said {
    let (name, key, value) = (cx.argument(0), cx.argument(1), cx.argument(2));
    if name.is_empty() || key.is_empty() || value.is_empty() {
        return Err("'set map' expects three parameters: map identifier, key and value.\n".to_owned());
    }
    let list = list::<true>(cx, name)?;
    let which = named(key);
    let missing = match which {
        Named::Key(_) => "entry not found.\n",
        Named::Id(_) => "key or pattern not found.\n",
    };
    list.list.set(which, value).map(|()| String::new()).map_err(|why| refused(why, missing))
}

pub(super) fn del<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(removed::<VALUES>(cx))
}

fn removed<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    let (name, key) = (cx.argument(0), cx.argument(1));
    if name.is_empty() || key.is_empty() {
        return Err(format!(
            "This command expects two parameters: {} identifier and key.\n",
            word::<VALUES>()
        ));
    }
    let list = list::<VALUES>(cx, name)?;
    list.list.remove(named(key)).map(|()| String::new()).map_err(|why| refused(why, "Key not found.\n"))
}

pub(super) fn clear<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(cleared::<VALUES>(cx))
}

fn cleared<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    let asked = Asked::of(cx);
    if asked.word(0).is_empty() {
        return Err(format!("Missing {} identifier.\n", word::<VALUES>()));
    }
    let list = list::<VALUES>(cx, asked.word(0))?;
    list.list.clear(asked.version("Version number out of range.\n")?);
    cx.runtime.refresh_list(list.number);
    Ok(String::new())
}

pub(super) fn prepare<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(
        list::<VALUES>(cx, cx.argument(0))
            .map(|list| format!("New version created: {}\n", list.list.prepare())),
    )
}

pub(super) fn commit<const VALUES: bool>(cx: &mut Cx<'_>) -> String {
    said(committed::<VALUES>(cx))
}

fn committed<const VALUES: bool>(cx: &Cx<'_>) -> Said {
    const WRONG: &str = "Version number out of range.\n";
    let asked = Asked::of(cx);
    let Some(version) = asked.version(WRONG)? else { return Err("Missing version number.\n".to_owned()) };
    let list = list::<VALUES>(cx, asked.word(0))?;
    list.list.commit(version).map_err(|_| WRONG.to_owned())?;
    cx.runtime.refresh_list(list.number);
    Ok(String::new())
}
