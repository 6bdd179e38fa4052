//! What one check came to.

/// It is as it should be.
#[derive(Debug)]
pub(super) struct Passed {
    /// HAProxy's word for it: `L4OK`, `L6OK`, `L7OK` …
    pub(super) word: String,
    /// The status of a response.
    pub(super) code: Option<u16>,
    /// Nothing new is to be given to it.
    pub(super) drains: bool,
}

/// Why a check failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// HAProxy's word for it.
    pub(super) word: String,
    /// The status of a response.
    pub(super) code: Option<u16>,
    /// For logs.
    pub(super) why: String,
}

impl Failed {
    pub(super) fn new(word: &str, why: impl Into<String>) -> Self {
        Self { word: word.to_owned(), code: None, why: why.into() }
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::new("L7RSP", why)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Self::new("L7RSP", why)
    }
}
