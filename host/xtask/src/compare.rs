//! `cargo xtask compare linux`: what another kernel makes of the machines that ours was made for, counted.
//!
//! ```text
//! Linux above the monitor ──gdb stub, shared memory──▶ vellum dump --json ──last record──▶ a row of the table
//! ```

mod count;

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::{Parser, ValueEnum};

use crate::{
    boot::{
        self, Programs,
        emulator::{self, Emulator},
        guest::{self, Chunk},
        options::{self, Asked, PageSize},
    },
    cargo::{self, Program},
    fetch::linux::{Kind, Linux},
    help,
    outcome::{Failure, Status},
    terminal,
};
use count::{Count, Row};

/// What a person asked for.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true, override_help = help::COMPARE)]
struct Options {
    what: What,
    /// Of the kernel: it decides which one is booted.
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "16k"])]
    page_size: String,
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

/// What every boot is given: as many CPUs as make a mix, and the memory that the page about this counts with.
const PLAIN: &str = "--monitor --cpus 4 --memory 2G --timeout 600 --append";
/// The kernel says little, and lies where it was linked.
const WORDS: &str = "console=ttyAMA0 nokaslr quiet";
/// The last line of the guest's init.
const READY: &[u8] = b"guest: ready";

/// Entry of `cargo xtask compare`.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(options) = help::options::<Options>("compare", arguments)? else { return Ok(help::show(help::COMPARE)) };
    let What::Linux = options.what;
    let linux = Kind::today(options.page_size == PageSize::Kib16.to_string()).need()?;
    options.emulator.ensure()?;
    let programs = Programs::build(&[Program::Monitor], &mut |line| eprintln!("{line}"))?;
    let reader = build_vellum()?;
    let initrd = linux.kernel.with_file_name("idle.cpio");
    linux.write_initramfs(None, &initrd)?;
    let folder = Folder::new()?;
    let mut rows = Vec::new();
    for machine in MACHINES {
        eprintln!("cargo xtask compare: {} above {machine}", linux.name);
        let place = Place { folder: &folder.0, reader: &reader, initrd: &initrd };
        let counted = place.count(&linux, machine, &options.emulator, &programs)?;
        rows.push(Row { machine, kernel: linux.name.clone(), count: counted });
    }
    terminal::print(if options.json { count::records(&rows) } else { count::table(&rows) });
    Ok(Status::Passed)
}

/// Builds the command that reads the guests.
fn build_vellum() -> Result<PathBuf, Failure> {
    cargo::build_here("vellum", cargo::cargo(&["build", "--quiet", "--release", "--package", "vellum"]))?;
    Ok(cargo::metadata()?.target_directory.join("release/vellum").into())
}

/// A folder of this process's for sockets and memory, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let folder = std::env::temp_dir().join(format!("vellum-compare-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a boot needs besides the kernel.
struct Place<'p> {
    folder: &'p Path,
    reader: &'p Path,
    initrd: &'p Path,
}

impl Place<'_> {
    /// Boots the kernel on a machine, counts what its tables have once it is ready, and ends it.
    fn count(&self, linux: &Linux, machine: &str, emulator: &Emulator, programs: &Programs) -> Result<Count, Failure> {
        let options = options::Options { emulator: emulator.clone(), ..self.options(linux, machine)? };
        let (mut command, _files) = boot::command(&options, programs)?;
        let (mut said, mut counted) = (Vec::<u8>::new(), None);
        let ended = guest::run(&mut command, options.timeout, &mut |chunk| {
            let Chunk::Output(bytes) = chunk else { return };
            said.extend(bytes);
            if counted.is_none() && said.windows(READY.len()).any(|window| window == READY) {
                counted = Some(self.read());
                self.quit();
            }
        });
        let ended = ended.map_err(|error| Failure::new(Status::Failed, error.to_string()))?;
        counted.unwrap_or_else(|| {
            let last = String::from_utf8_lossy(&ended.output).lines().last().unwrap_or_default().to_owned();
            let line =
                format!("above {machine} the kernel did not get ready; its last line: {last}{}", ended.complaints);
            Err(Failure::new(Status::Failed, line))
        })
    }

    fn options(&self, linux: &Linux, machine: &str) -> Result<options::Options, Failure> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let description = cargo::workspace().join("bare/monitor/machines").join(format!("{machine}.toml"));
        let mut words: Vec<OsString> = PLAIN.split(' ').map(OsString::from).collect();
        words.extend([WORDS.into(), "--machine".into(), description.into()]);
        words.extend(["--kernel".into(), linux.kernel.clone().into(), "--initrd".into(), self.initrd.into()]);
        words.push("--".into());
        let of_qemu = [
            "-object".to_string(),
            format!("memory-backend-file,id=ram,size=2G,share=on,mem-path={}", at("ram")),
            "-machine".to_string(),
            "memory-backend=ram".to_string(),
            "-chardev".to_string(),
            format!("socket,id=gdb,server=on,wait=off,path={}", at("gdb")),
            "-gdb".to_string(),
            "chardev:gdb".to_string(),
            "-qmp".to_string(),
            format!("unix:{},server=on,wait=off", at("qmp")),
        ];
        words.extend(of_qemu.map(OsString::from));
        match options::parse(&words)? {
            Asked::Run(options) => Ok(*options),
            Asked::Help | Asked::Trees => Err(Failure::new(Status::Failed, "the options of a comparison ask for help")),
        }
    }

    /// What `vellum` counts in the guest's upper half.
    fn read(&self) -> Result<Count, Failure> {
        let failed = |why: String| Failure::new(Status::Failed, format!("vellum dump: {why}"));
        let source = format!("qemu:unix:{}", self.folder.join("gdb").display());
        let mut command = Command::new(self.reader);
        command.args(["dump", &source, "--json", "--ram"]);
        command.arg(format!("{}@0x40000000", self.folder.join("ram").display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| failed(error.to_string()))?;
        let last = child.stdout.take().and_then(|out| BufReader::new(out).lines().map_while(Result::ok).last());
        let mut complaint = String::new();
        let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut complaint));
        let _ = child.wait();
        last.as_deref().and_then(Count::read).ok_or_else(|| failed(complaint.trim().replace('\n', " ")))
    }

    /// Has QEMU end; should it not, its time runs out.
    fn quit(&self) {
        let said = UnixStream::connect(self.folder.join("qmp")).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            stream.write_all(b"{\"execute\":\"qmp_capabilities\"}{\"execute\":\"quit\"}\n")?;
            // QEMU reads what was sent while somebody is there, and hangs up in its own way.
            let _ = stream.read_to_end(&mut Vec::new());
            Ok(())
        });
        if let Err(error) = said {
            eprintln!("cargo xtask compare: QEMU's monitor: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_can_be_asked_for() {
        let linux = Linux { kernel: "vmlinuz".into(), busybox: "busybox".into(), name: "linux".into() };
        let place = Place { folder: Path::new("/f"), reader: Path::new("vellum"), initrd: Path::new("idle") };
        for machine in MACHINES {
            let options = place.options(&linux, machine).expect(machine);
            assert!(options.monitor && options.append == [WORDS] && options.qemu.len() == 10, "{options:?}");
            assert!(options.description.is_some_and(|path| path.exists()), "{machine}");
        }
    }

    #[test]
    fn arguments() {
        let parsed =
            |words: &[&str]| help::options::<Options>("compare", &words.iter().map(OsString::from).collect::<Vec<_>>());
        let options = parsed(&["linux", "--json", "--page-size", "16k"]).expect("options").expect("no help");
        assert!(options.json && options.page_size == "16k" && options.emulator == Emulator::Host);
        for bad in [&[][..], &["bsd"], &["linux", "--page-size", "64k"]] {
            assert_eq!(parsed(bad).expect_err("accepted").status, Status::BadInput, "{bad:?}");
        }
    }
}
