//! One peer, compiled for one case, in a program of its own: what else a program holds changes what the compiler inlines.

#[path = "../peers/page_table_generic.rs"]
mod page_table_generic;

fn main() -> std::process::ExitCode {
    bench::run_one::<page_table_generic::Generic<vmsa::Granule16K, false>>()
}
