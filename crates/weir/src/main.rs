//! `weir`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weir::main_with(|_| Err("no data plane is built in".into()))
}
