//! One peer, compiled for one case, in a program of its own: what else a program holds changes what the compiler inlines.

#[path = "../peers/x86_64.rs"]
mod x86_64;

fn main() -> std::process::ExitCode {
    bench::run_one::<x86_64::X86_64>()
}
