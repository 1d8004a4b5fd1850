//! `vellum` beside guests in QEMU: an arm64 Linux that no one here wrote, and this project's own kernel.
//!
//! `cargo xtask test linux` and `cargo xtask test outside` name the kernels; without them there is nothing to run. What
//! this prints is what Rust's own harness would, so that it is counted alike.

mod audit;
mod bare;
mod guest;
mod hostile;
mod levels;
mod linux;
mod own;
mod plan;
#[path = "../tally/mod.rs"]
mod report;
mod stage2;
mod stressed;
#[path = "../tables/mod.rs"]
mod tables;
mod text;

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use report::Report;

fn main() -> ExitCode {
    let path = |name: &str| env::var_os(name).map(PathBuf::from);
    let mut report = Report::default();
    if let Some(kernel) = path("VELLUM_LINUX") {
        linux::run(kernel, path("VELLUM_INITRAMFS").unwrap_or_default(), path("VELLUM_INITRAMFS_INSIDE"), &mut report);
    }
    if let Some(kernel) = path("VELLUM_KERNEL") {
        plan::run(&kernel, &mut report);
        stressed::run(&kernel, &mut report);
        own::run(kernel, &mut report);
    }
    if path("VELLUM_BARE").is_some() {
        stage2::run(&mut report);
        levels::run(&mut report);
    }
    if let Some(plugin) = path("VELLUM_PLUGIN") {
        hostile::run(&plugin, &mut report);
        if let (Some(kernel), Some(elf)) = (path("VELLUM_AUDITED"), path("VELLUM_ELF")) {
            audit::run(kernel, elf, plugin, &mut report);
        }
    }
    report.finish()
}

/// The page of a live guest is whole, and says what its CPUs are and what is mapped.
fn has_page(guest: &guest::Guest) -> Result<(), String> {
    let page = guest.path("report.html");
    vellum(&["report", &guest.gdb(), "-o", &page])?;
    let text = std::fs::read_to_string(&page).map_err(|error| error.to_string())?;
    let parts = ["linear map", "FEAT_HAFDBS", "With the largest leaves", "</html>"];
    let lacks: Vec<&&str> = parts.iter().filter(|part| !text.contains(**part)).collect();
    if lacks.is_empty() && text.len() < 3_000_000 { Ok(()) } else { Err(format!("{} bytes, no {lacks:?}", text.len())) }
}

/// Runs `vellum`; what it prints, and its exit status.
fn vellum(arguments: &[&str]) -> Result<(String, i32), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(arguments).output();
    let output = output.map_err(|error| format!("vellum: {error}"))?;
    let status = output.status.code().unwrap_or(-1);
    if status == 2 || status < 0 {
        return Err(format!("vellum {}: {status}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), status))
}
