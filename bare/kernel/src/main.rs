//! The Vellum reference kernel.
fn main() {}
