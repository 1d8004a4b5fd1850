//! One peer, compiled for one case, in a program of its own: what else a program holds changes what the compiler inlines.

#[path = "../peers/aarch64_paging.rs"]
mod aarch64_paging;

fn main() -> std::process::ExitCode {
    bench::run_one::<aarch64_paging::Aarch64Paging<false>>()
}
