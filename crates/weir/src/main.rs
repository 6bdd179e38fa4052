//! `weir`.

#![forbid(unsafe_code)]

/// Requests are made of small pieces of memory that one thread takes and gives back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    weir::main_with(weir::adapter::start)
}
