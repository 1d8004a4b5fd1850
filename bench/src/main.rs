//! The command: see `help.txt`.

fn main() -> std::process::ExitCode {
    bench::main()
}
