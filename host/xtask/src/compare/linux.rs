//! `cargo xtask compare linux`: what another kernel makes of the machines that ours was made for, counted.
//!
//! ```text
//! Linux above the monitor ──gdb stub, shared memory──▶ vellum dump --json ──last record──▶ a row of the table
//! ```

use clap::Parser;

use super::{
    count::{self, Row},
    watched::{self, Folder, Guest, MEMORY, Place},
};
use crate::{
    bare::Program,
    boot::{
        Programs,
        emulator::{self, Emulator},
        options::PageSize,
    },
    fetch::linux::Kind,
    outcome::{Failure, Status},
    terminal,
};

/// Leaves and tables of the kernel's half of the addresses, today's Linux and ours
///
/// Above all-resize, boot-cpu-does-not, secondaries-do-not and cortex-x4-a720. Each boot has four
/// CPUs, and takes minutes on a busy machine. `cargo xtask fetch linux --suite trixie-backports`
/// gets the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true)]
pub(crate) struct Options {
    /// Page size of both kernels
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "16k"])]
    page_size: String,
    /// Memory of each machine
    #[arg(long, value_name = "SIZE", default_value = MEMORY)]
    memory: String,
    /// One record a line
    #[arg(long)]
    json: bool,
    /// Another QEMU than the host's: 7.2, 11 or a path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

/// The machines, by their files in `bare/monitor/machines`.
const MACHINES: [&str; 4] = ["all-resize", "boot-cpu-does-not", "secondaries-do-not", "cortex-x4-a720"];

/// What our kernel is called in the table.
const OURS: &str = "vellum";

/// Entry of `cargo xtask compare linux`.
pub(super) fn main(options: &Options) -> Result<Status, Failure> {
    let linux = Kind::today(options.page_size == PageSize::Kib16.to_string()).need()?;
    options.emulator.ensure()?;
    let programs = Programs::build(&[Program::Monitor, Program::Kernel], &mut |line| eprintln!("{line}"))?;
    let reader = watched::build_vellum()?;
    let initrd = linux.built("idle.cpio")?;
    linux.write_initramfs(None, &initrd)?;
    let folder = Folder::new("compare")?;
    let place = Place { folder: &folder, reader: &reader, emulator: &options.emulator, programs: &programs };
    let word = format!("arm64.pagesize={}", options.page_size);
    let (mut rows, page_size) = (Vec::new(), [word.as_str()]);
    for machine in MACHINES {
        for (name, kernel) in [(linux.name.as_str(), Some(&linux)), (OURS, None)] {
            eprintln!("cargo xtask compare: {name} above {machine}");
            let words: &[&str] = if kernel.is_none() { &page_size } else { &[] };
            let (memory, initrd) = (options.memory.as_str(), Some(initrd.as_path()));
            let guest = Guest { place, name, machine, memory, linux: kernel, initrd, words };
            let (count, _) = guest.once_ready(&mut || guest.count())?;
            rows.push(Row { machine, kernel: name.to_owned(), count });
        }
    }
    terminal::print(if options.json { count::records(&rows) } else { count::table(&rows) });
    Ok(Status::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_is_there() {
        let folder = crate::cargo::workspace().join("bare/monitor/machines");
        assert!(MACHINES.iter().all(|machine| folder.join(format!("{machine}.toml")).exists()));
    }
}
