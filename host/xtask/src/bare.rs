//! What is built for bare metal, and where cargo puts it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::{boot::image, cargo, outcome::Failure, toolchain::ensure_target};

/// The target of everything in `bare/`.
pub(crate) const BARE_TARGET: &str = "aarch64-unknown-none-softfloat";

/// What is built for bare metal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Kernel,
    /// The kernel for pages of 4K alone, to be measured beside.
    KernelOf4K,
    /// The kernel that looks at the order of locks.
    CheckedKernel,
    /// Runs beneath a kernel.
    Monitor,
    /// A guest that tries what it must not.
    Fuzzer,
    /// A guest that is a realm.
    Realm,
    /// A guest that resizes what it uses.
    Resizer,
}

impl Program {
    /// Every program that tests boot.
    // The plain kernel last of the kernels: its ELF file is the one that stays.
    pub(crate) const ALL: [Program; 6] =
        [Program::CheckedKernel, Program::Kernel, Program::Monitor, Program::Fuzzer, Program::Realm, Program::Resizer];

    /// The guest of the monitor's that has this name, which is not the kernel.
    pub(crate) fn guest(name: &OsStr) -> Option<Program> {
        Program::ALL.into_iter().find(|program| program.names().0 == "guests" && program.names().1 == name)
    }

    /// The names of its package, of itself, and of its flat Image beside the ELF file.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Program::Kernel => ("kernel", "kernel", "Image"),
            Program::KernelOf4K => ("kernel", "kernel", "Image-4k"),
            Program::CheckedKernel => ("kernel", "kernel", "Image-checked"),
            Program::Monitor => ("monitor", "monitor", "Monitor"),
            Program::Fuzzer => ("guests", "fuzzer", "Fuzzer"),
            Program::Realm => ("guests", "realm", "Realm"),
            Program::Resizer => ("guests", "resizer", "Resizer"),
        }
    }
}

/// A kernel, or a monitor, that can be booted.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) elf: PathBuf,
    /// The flat Image, beside the ELF file.
    pub(crate) image: PathBuf,
}

/// Builds a program and flattens it. Cargo's lines go to `say`; of a fresh build it says nothing.
pub(crate) fn build(program: Program, say: &mut dyn FnMut(&str)) -> Result<Kernel, Failure> {
    let (package, name, image) = program.names();
    ensure_target(BARE_TARGET)?;
    let mut words = vec!["build", "--release", "--package", package, "--bin", name, "--target", BARE_TARGET];
    words.extend(match program {
        Program::KernelOf4K => Some("--features=fixed-4k"),
        Program::CheckedKernel => Some("--features=checked"),
        _ => None,
    });
    let (_, has_succeeded) = cargo::output(&words, &[], &mut |line| {
        if !line.trim_start().starts_with("Finished") {
            say(line);
        }
    });
    if !has_succeeded {
        return Err(Failure::failed(format!("the {name} does not build (the reason stands above)")));
    }
    let elf = built(name)?;
    write_image(&elf, image).map(|image| Kernel { elf, image })
}

/// Where cargo puts a file that is built for bare metal.
fn built(name: &str) -> Result<PathBuf, Failure> {
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join(BARE_TARGET).join("release").join(name))
}

/// Builds the module: one relocatable object.
pub(crate) fn build_module() -> Result<PathBuf, Failure> {
    ensure_target(BARE_TARGET)?;
    let object = built("sample.o")?;
    let mut command =
        cargo::cargo(&["rustc", "--quiet", "--release", "--package", "module", "--target", BARE_TARGET, "--"]);
    // Without a table of addresses, which would have to be near its text, and in one piece.
    command.args(["-Crelocation-model=static", "-Ccodegen-units=1"]);
    command.arg(format!("--emit=obj={}", object.display()));
    cargo::build_here("module", command).map(|()| object)
}

/// Writes the flat Image beside the ELF file, unless the one there is the same.
fn write_image(elf: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = fs::read(elf)?;
    let image = image::flatten(&file).map_err(|what| Failure::failed(format!("{} {what}", elf.display())))?;
    let path = elf.with_file_name(name);
    if fs::read(&path).is_ok_and(|old| old == image) {
        return Ok(path);
    }
    // A QEMU that starts meanwhile must see the old Image or the new one, never half of it.
    let unfinished = elf.with_file_name(format!("{name}.{}", std::process::id()));
    fs::write(&unfinished, image)?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}
