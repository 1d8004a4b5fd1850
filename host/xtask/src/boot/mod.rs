//! `cargo xtask run`: builds the kernel, boots it in QEMU, shows what it says, and ends with its verdict.
//!
//! ```text
//! options --qemu--> command line --guest--> output, status --transcript, judge--> exit status
//!                   image ^                       '--view--> the terminal
//! ```

pub(crate) mod audit;
mod description;
pub(crate) mod emulator;
mod files;
pub(crate) mod guest;
pub(crate) mod image;
mod init;
pub(crate) mod install;
pub(crate) mod judge;
mod loader;
mod monitor;
pub(crate) mod options;
pub(crate) mod qemu;
pub(crate) mod transcript;
pub(crate) mod tree;
mod view;

use std::{
    io::{self, IsTerminal, Write},
    process::Command,
};

use fs_err as fs;

use crate::{
    bare::{self, Kernel, Program},
    fetch::qemu::PROGRAM,
    outcome::{Failure, Status},
    terminal,
};
pub(crate) use files::Files;
use guest::{Chunk, Ended};
use options::{Loader, Options};
use view::View;

/// Entry of `cargo xtask run`.
pub(crate) fn main(options: Options) -> Result<Status, Failure> {
    if options.tree == Some(options::LIST) {
        return Ok(list_trees());
    }
    let options = options.settled()?;
    check_files(&options)?;
    options.emulator.ensure()?;
    let programs = Programs::build(&options.programs(), &mut |line| eprintln!("{line}"))?;
    let (mut command, _files) = command(&options, &programs)?;
    if options.verbose {
        eprintln!("{}", terminal::typed(&command));
    }
    if options.gdb {
        programs.all().for_each(explain_gdb);
    }
    let ended = run_shown(&mut command, &options)?;
    let judgement = if options.has_verdict() { judge::judge(&ended) } else { judge::judge_other(&ended) };
    if let Some(line) = judgement.line {
        eprintln!("cargo xtask run: {line}");
    }
    Ok(judgement.status)
}

/// Looks at the files that were named, before anything is built: building takes longer than reading what is wrong.
fn check_files(options: &Options) -> Result<(), Failure> {
    if let Some(path) = &options.description {
        description::words(path, options.cpus)?;
    }
    if let (None, Some(image)) = (options.own_program(), &options.kernel) {
        tree::image_bytes(image)?;
    }
    let Some(initrd) = &options.initrd else { return Ok(()) };
    let refused = |why: String| Err(Failure::bad_input(format!("{}: {why}; nothing was booted", initrd.display())));
    match fs::metadata(initrd) {
        Err(error) => refused(error.to_string()),
        Ok(found) if !found.is_file() => refused("expected a file".into()),
        Ok(_) => Ok(()),
    }
}

fn list_trees() -> Status {
    for shape in tree::shapes::SHAPES {
        terminal::print(format_args!("{:24} {}\n", shape.name, shape.tells));
    }
    Status::Passed
}

/// What was built to be booted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Vec<(Program, Kernel)>);

impl Programs {
    pub(crate) fn build(wanted: &[Program], say: &mut dyn FnMut(&str)) -> Result<Programs, Failure> {
        let built = wanted.iter().map(|program| bare::build(*program, say).map(|kernel| (*program, kernel)));
        built.collect::<Result<_, _>>().map(Programs)
    }

    /// Another kernel, in the place of ours.
    pub(crate) fn in_place_of_ours(other: Program, say: &mut dyn FnMut(&str)) -> Result<Programs, Failure> {
        bare::build(other, say).map(|kernel| Programs(vec![(Program::Kernel, kernel)]))
    }

    /// What was built of a program.
    pub(crate) fn find(&self, wanted: Program) -> Result<&Kernel, Failure> {
        let found = self.0.iter().find(|(program, _)| *program == wanted).map(|(_, kernel)| kernel);
        found.ok_or_else(|| Failure::failed("what is to be booted was not built"))
    }

    fn all(&self) -> impl Iterator<Item = &Kernel> {
        self.0.iter().map(|(_, kernel)| kernel)
    }
}

/// The command that boots what `options` ask for, and the files that must be there meanwhile.
pub(crate) fn command(options: &Options, programs: &Programs) -> Result<(Command, Files), Failure> {
    let (command, files) = plain_command(options, programs)?;
    if !options.audit {
        return Ok((command, files));
    }
    let own = options.own_program().map(|own| programs.find(own)).transpose()?;
    let elf = own.or(programs.all().next()).map(|it| it.elf.as_path());
    audit::wrapped(&command, &audit::words(elf, !options.monitor)).map(|command| (command, files))
}

fn plain_command(options: &Options, programs: &Programs) -> Result<(Command, Files), Failure> {
    let image = &programs.find(options.own_program().unwrap_or(Program::Kernel)).map(|kernel| kernel.image.clone());
    let mut files = Files::default();
    let archive = match image {
        Ok(image) => init::archive(options, image, &mut files)?,
        Err(_) => None,
    };
    let with_archive = archive.map(|archive| Options { initrd: Some(archive), ..options.clone() });
    let (command, others) = command_of(with_archive.as_ref().unwrap_or(options), programs)?;
    files.add(others);
    Ok((command, files))
}

fn command_of(options: &Options, programs: &Programs) -> Result<(Command, Files), Failure> {
    let kernel = match (options.own_program(), &options.kernel) {
        (None, Some(image)) => &Kernel { elf: image.clone(), image: image.clone() },
        (own, _) => programs.find(own.unwrap_or(Program::Kernel))?,
    };
    let image = &kernel.image;
    if options.monitor {
        let monitor = programs.find(Program::Monitor)?;
        return monitor::command(options, &monitor.image, image);
    }
    check_memory(options, tree::image_bytes(image)?)?;
    match options.loader {
        Loader::Qemu => {}
        Loader::UBoot => return loader::u_boot(options, image),
        Loader::Gdb => return loader::gdb(options, image, &kernel.elf),
    }
    if let Some(shape) = options.tree.and_then(tree::shapes::find) {
        return tree::command(options, image, shape);
    }
    let mut command = options.emulator.command()?;
    command.args(qemu::arguments(options, image));
    Ok((command, Files::default()))
}

/// QEMU puts its device tree on the first 2 MiB boundary behind the Image, which starts 2 MiB above the start of RAM. Ours
/// lies 64 MiB above it, and so does what U-Boot loads.
fn check_memory(options: &Options, image_bytes: u64) -> Result<(), Failure> {
    const BOUNDARY: u64 = 2 << 20;
    let least_mib = match (options.loader, options.tree) {
        (Loader::Qemu, None) => ((BOUNDARY + image_bytes).next_multiple_of(BOUNDARY) >> 20) + 1,
        _ => 66,
    };
    if !options.is_virt() || options.memory_mib >= least_mib {
        return Ok(());
    }
    let line = format!(
        "--memory {}M: too little to load the kernel in this way, expected {least_mib}M or more; nothing was booted",
        options.memory_mib
    );
    Err(Failure::bad_input(line))
}

fn explain_gdb(program: &Kernel) {
    let elf = terminal::quoted(program.elf.as_os_str());
    eprintln!("QEMU waits for a debugger on port 1234. In another terminal:");
    eprintln!("    gdb-multiarch {elf} -ex 'target remote :1234'");
}

/// Runs QEMU with the kernel's text going to our standard output and QEMU's own words to standard error.
///
/// A standard output that has gone away (`| head`) ends the showing, not the run: the exit status stays the verdict.
fn run_shown(command: &mut Command, options: &Options) -> Result<Ended, Failure> {
    let stdout = io::stdout();
    let mut view = (stdout.is_terminal() && !options.json)
        .then(|| View::new(stdout.lock(), terminal::wants_colour(), options.verbose));
    let mut is_open = true;
    let ended = guest::run(command, options.timeout, &mut |chunk| match (chunk, &mut view) {
        (Chunk::Output(bytes), Some(view)) => is_open = is_open && view.feed(bytes).is_ok(),
        (Chunk::Output(_), None) if options.json => {}
        (Chunk::Output(bytes), None) => is_open = is_open && pass_through(bytes).is_ok(),
        // Without standard error there is nowhere left to say so.
        (Chunk::Complaint(bytes), _) => drop(io::stderr().write_all(bytes)),
    });
    let ended = ended.map_err(|error| Failure::failed(format!("{PROGRAM}: {error}")))?;
    if options.json {
        // A reader that has gone away is no error.
        let _ = show_data(&ended.output);
    }
    if let Some(view) = view.as_mut().filter(|_| is_open) {
        let has_verdict = transcript::Transcript::new(&ended.output).verdict().is_some();
        // The reader has gone away at the very end; the verdict still counts.
        let _ = view.finish(has_verdict);
    }
    Ok(ended)
}

/// What was said in JSON, and nothing else.
fn show_data(output: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines().filter(|line| transcript::is_data(line));
    lines.try_for_each(|line| pass_through(format!("{line}\n").as_bytes()))
}

fn pass_through(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_told_with_the_least() {
        let with = |memory_mib, machine: &str| Options { memory_mib, machine: machine.into(), ..Options::default() };
        let image_bytes = 0x17_0000;
        assert_eq!(check_memory(&with(5, "virt"), image_bytes), Ok(()));
        assert_eq!(check_memory(&with(1, "xlnx-versal-virt"), image_bytes), Ok(()));
        let loaded = Options { loader: Loader::UBoot, ..with(65, "virt-7.2") };
        assert!(check_memory(&loaded, image_bytes).is_err_and(|refused| refused.line.contains("expected 66M")));
        let refused = check_memory(&with(4, "virt"), image_bytes).expect_err("it does not fit");
        assert!(refused.status == Status::BadInput && refused.line.contains("expected 5M or more"), "{refused}");
        // An Image that ends on a boundary, and one byte more.
        assert_eq!(check_memory(&with(5, "virt"), 2 << 20), Ok(()));
        assert!(check_memory(&with(6, "virt"), (2 << 20) + 1).is_err());
    }
}
