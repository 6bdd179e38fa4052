//! Words to compare a value with.
//!
//! Owns: [`Words`] and the ways of comparing.
//! Never: computes a template; the engine does for [`Words::computed`] and asks [`TextTest::holds`].
//! Driven by: conditions of the rule program.
//! Why: lists of HAProxy ACLs run to thousands of words; equality and prefixes are found by binary search.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::Template;

/// Ways of comparing a value with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextTest {
    /// Equal.
    Equals,
    /// Begins with it.
    Begins,
    /// Ends with it.
    Ends,
    /// Contains it.
    Contains,
    /// It is a whole part between `/`, or several of them (HAProxy `-m dir`).
    Segment,
    /// It is a whole label between `.`, or several of them (HAProxy `-m dom`).
    Label,
}

impl TextTest {
    /// True if `value` stands so to `word`; cases are as given.
    pub fn holds(self, value: &[u8], word: &[u8]) -> bool {
        match self {
            Self::Equals => value == word,
            Self::Begins => value.starts_with(word),
            Self::Ends => value.ends_with(word),
            Self::Contains => memchr::memmem::find(value, word).is_some(),
            Self::Segment => is_part(value, word, |byte| matches!(byte, b'/' | b'?')),
            Self::Label => is_part(value, word, |byte| matches!(byte, b'/' | b'?' | b'.' | b':')),
        }
    }
}

/// True if `word`, its own outer delimiters cut, stands in `value` between delimiters or ends.
fn is_part(value: &[u8], word: &[u8], delimits: impl Fn(u8) -> bool) -> bool {
    let start = word.iter().position(|&b| !delimits(b)).unwrap_or(word.len());
    let end = word.iter().rposition(|&b| !delimits(b)).map_or(start, |last| last + 1);
    let word = &word[start..end];
    if word.is_empty() {
        return false;
    }
    memchr::memmem::find_iter(value, word).any(|at| {
        let before = at.checked_sub(1).is_none_or(|before| delimits(value[before]));
        before && value.get(at + word.len()).is_none_or(|&after| delimits(after))
    })
}

/// Words of one test, prepared.
#[derive(Clone, Debug)]
pub struct Words {
    how: TextTest,
    ignore_case: bool,
    /// Sorted; in lower case if case is ignored. For [`TextTest::Ends`] each is reversed.
    fixed: Box<[Box<[u8]>]>,
    /// Lengths of `fixed`, each once, ascending: what prefix and suffix tests try.
    lengths: Box<[u32]>,
    computed: Box<[Template]>,
}

impl Words {
    /// Prepares words.
    pub fn new(how: TextTest, words: impl IntoIterator<Item = Template>, ignore_case: bool) -> Self {
        let (mut fixed, mut computed) = (Vec::new(), Vec::new());
        for word in words {
            match word.as_literal() {
                Some(text) => fixed.push(prepare(how, text, ignore_case)),
                None => computed.push(word),
            }
        }
        fixed.sort_unstable();
        fixed.dedup();
        let mut lengths: Vec<u32> = fixed.iter().map(|word| word.len() as u32).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Self { how, ignore_case, fixed: fixed.into(), lengths: lengths.into(), computed: computed.into() }
    }

    /// How they are compared.
    pub fn how(&self) -> TextTest {
        self.how
    }

    /// Letters match without regard to case.
    pub fn ignore_case(&self) -> bool {
        self.ignore_case
    }

    /// Words that have to be computed for each request; compare them by [`Words::holds`].
    pub fn computed(&self) -> &[Template] {
        &self.computed
    }

    /// True if one of the fixed words passes.
    pub fn fixed_holds(&self, value: &[u8]) -> bool {
        if self.fixed.is_empty() {
            return false;
        }
        let value = self.folded(value);
        match self.how {
            TextTest::Equals => self.has(&value),
            TextTest::Begins => {
                self.lengths.iter().any(|&len| value.get(..len as usize).is_some_and(|head| self.has(head)))
            }
            TextTest::Ends => {
                let reversed: Vec<u8> = value.iter().rev().copied().collect();
                self.lengths
                    .iter()
                    .any(|&len| reversed.get(..len as usize).is_some_and(|head| self.has(head)))
            }
            how => self.fixed.iter().any(|word| how.holds(&value, word)),
        }
    }

    /// True if a computed word passes.
    pub fn holds(&self, value: &[u8], word: &[u8]) -> bool {
        self.how.holds(&self.folded(value), &self.folded(word))
    }

    fn has(&self, word: &[u8]) -> bool {
        self.fixed.binary_search_by(|fixed| (**fixed).cmp(word)).is_ok()
    }

    fn folded<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        if self.ignore_case && value.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(value.to_ascii_lowercase())
        } else {
            Cow::Borrowed(value)
        }
    }
}

fn prepare(how: TextTest, text: &str, ignore_case: bool) -> Box<[u8]> {
    let mut word = text.as_bytes().to_vec();
    if ignore_case {
        word.make_ascii_lowercase();
    }
    if how == TextTest::Ends {
        word.reverse();
    }
    word.into()
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fixed = self.fixed.iter().map(|word| {
            let mut word = word.to_vec();
            if self.how == TextTest::Ends {
                word.reverse();
            }
            word.escape_ascii().to_string()
        });
        let case = if self.ignore_case { "ignore_case " } else { "" };
        let all: Vec<String> = fixed.chain(self.computed.iter().map(Template::to_string)).collect();
        serializer.collect_map([(format!("{case}{:?}", self.how).to_ascii_lowercase(), all)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(how: TextTest, words: &[&str], ignore_case: bool, value: &str) -> bool {
        let words = Words::new(how, words.iter().map(|word| Template::literal(*word)), ignore_case);
        words.fixed_holds(value.as_bytes())
    }

    #[test]
    fn each_way_of_comparing() {
        assert!(check(TextTest::Equals, &["a", "b"], false, "b"));
        assert!(!check(TextTest::Equals, &["a", "b"], false, "B"));
        assert!(check(TextTest::Equals, &["a", "B"], true, "b"));
        assert!(check(TextTest::Begins, &["/api", "/static/"], false, "/static/x"));
        assert!(!check(TextTest::Begins, &["/api", "/static/"], false, "/stat"));
        assert!(check(TextTest::Ends, &[".php", ".HTML"], true, "/x.html"));
        assert!(!check(TextTest::Ends, &[".php"], false, "php"));
        assert!(check(TextTest::Contains, &["needle"], false, "haneedley"));
        assert!(check(TextTest::Equals, &[""], false, ""));
    }

    #[test]
    fn segments_and_labels_are_whole() {
        assert!(check(TextTest::Segment, &["img"], false, "/a/img/b"));
        assert!(check(TextTest::Segment, &["a/img"], false, "/a/img?x"));
        assert!(!check(TextTest::Segment, &["img"], false, "/a/imgs/b"));
        assert!(check(TextTest::Label, &["example"], false, "www.example.org"));
        assert!(check(TextTest::Label, &["example.org"], false, "www.example.org:80"));
        assert!(!check(TextTest::Label, &["ample"], false, "www.example.org"));
    }
}
