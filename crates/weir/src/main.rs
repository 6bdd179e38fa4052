//! `weir`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weir::main_with(weir::carrier::start)
}
