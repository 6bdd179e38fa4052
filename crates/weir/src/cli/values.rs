//! Values that several command lines take.
//!
//! Owns: the words for drivers and TLS versions, arguments as text.
//! Never: obeys.
//! Driven by: the command lines beside it.

use std::ffi::OsString;

use clap::ValueEnum;
use weir_lab::contender::Driver;
use weir_loadgen::{IoChoice, TlsVersion};

use crate::launch::Io;

/// A driver, by name.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum IoWord {
    Auto,
    Uring,
    Epoll,
}

impl From<IoWord> for Io {
    fn from(word: IoWord) -> Self {
        match word {
            IoWord::Auto => Self::Auto,
            IoWord::Uring => Self::Uring,
            IoWord::Epoll => Self::Epoll,
        }
    }
}

impl From<IoWord> for IoChoice {
    fn from(word: IoWord) -> Self {
        match word {
            IoWord::Auto => Self::Auto,
            IoWord::Uring => Self::Uring,
            IoWord::Epoll => Self::Epoll,
        }
    }
}

impl From<IoWord> for Driver {
    fn from(word: IoWord) -> Self {
        match word {
            IoWord::Auto => Self::Auto,
            IoWord::Uring => Self::Uring,
            IoWord::Epoll => Self::Epoll,
        }
    }
}

/// A version of TLS, by name.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum TlsWord {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl From<TlsWord> for TlsVersion {
    fn from(word: TlsWord) -> Self {
        match word {
            TlsWord::Tls12 => Self::Tls12,
            TlsWord::Tls13 => Self::Tls13,
        }
    }
}

/// As text; bytes that are none cannot be part of any flag, and a path with them is reported as not found.
pub(super) fn texts(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
