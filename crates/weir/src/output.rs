//! Standard output and error, which may fail.
//!
//! Owns: `outln!`, `out!`, `errln!` and `err!`: `println!` and its kin, without their panic.
//! Never: ends anything because a reader has left (`weir explain FILE | head`) or a disk is full.
//! Driven by: everything here that prints.

use std::io::{self, Write};

/// Writes to standard output. False if that failed; the cause is told, unless the reader simply left.
pub(crate) fn out(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            err(&format!("weir: standard output: {error}\n"));
            false
        }
    }
}

/// Writes to standard error. Where that fails there is nowhere to say so.
pub(crate) fn err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

macro_rules! out {
    ($($text:tt)*) => {{
        // Whether it was read changes nothing here.
        let _ = $crate::output::out(&format!($($text)*));
    }};
}

macro_rules! outln {
    ($($text:tt)*) => { out!("{}\n", format_args!($($text)*)) };
}

macro_rules! err {
    ($($text:tt)*) => { $crate::output::err(&format!($($text)*)) };
}

macro_rules! errln {
    ($($text:tt)*) => { err!("{}\n", format_args!($($text)*)) };
}
