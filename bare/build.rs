//! Hands the linker its script.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=image.ld");
    for argument in [
        &format!("--script={directory}/image.ld"),
        // Every absolute address becomes a relative relocation, which the entry code applies.
        "-pie",
        // Read-only data holds such addresses too.
        "-znotext",
        "-zmax-page-size=65536",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
