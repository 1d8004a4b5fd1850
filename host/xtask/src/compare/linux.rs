//! `cargo xtask compare linux`: what another kernel makes of the machines that ours was made for, counted.
//!
//! ```text
//! Linux above the monitor ──gdb stub, shared memory──▶ vellum dump --json ──last record──▶ a row of the table
//! ```

use std::ffi::OsString;

use clap::{Parser, ValueEnum};

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
    help,
    outcome::{Failure, Status},
    terminal,
};

/// What a person asked for.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true, override_help = help::COMPARE)]
struct Options {
    what: What,
    /// Of the kernel: it decides which one is booted.
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "16k"])]
    page_size: String,
    /// Of each machine.
    #[arg(long, value_name = "SIZE", default_value = MEMORY)]
    memory: String,
    #[arg(long)]
    json: bool,
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    Linux,
}

/// The machines, by their files in `bare/monitor/machines`.
const MACHINES: [&str; 4] = ["all-resize", "boot-cpu-does-not", "secondaries-do-not", "cortex-x4-a720"];

/// What our kernel is called in the table.
const OURS: &str = "vellum";

/// Entry of `cargo xtask compare linux`.
pub(super) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(options) = help::options::<Options>("compare", arguments)? else { return Ok(help::show(help::COMPARE)) };
    let What::Linux = options.what;
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

    #[test]
    fn arguments() {
        let parsed =
            |words: &[&str]| help::options::<Options>("compare", &words.iter().map(OsString::from).collect::<Vec<_>>());
        let options = parsed(&["linux", "--json", "--page-size", "16k"]).expect("options").expect("no help");
        assert!(
            options.json
                && options.memory == MEMORY
                && options.page_size == "16k"
                && options.emulator == Emulator::Host
        );
        for bad in [&[][..], &["bsd"], &["linux", "--page-size", "64k"]] {
            assert_eq!(parsed(bad).expect_err("accepted").status, Status::BadInput, "{bad:?}");
        }
    }
}
