//! `cargo xtask check`: builds the crate `checks`, `litmus`, `zoo`, `code` or `logic`, and hands everything over to it.

pub(crate) mod long;

use std::ffi::OsString;

use crate::{
    bare, cargo,
    outcome::{Failure, Status},
};

/// A check: the flag that asks for it, and the crate whose program makes it.
pub(crate) struct Check {
    flag: &'static str,
    package: &'static str,
}

/// The engine, which needs no flag.
pub(crate) const ENGINE: Check = Check { flag: "", package: "checks" };
/// The litmus tests.
pub(crate) const LITMUS: Check = Check { flag: "--litmus", package: "litmus" };
/// The zoo.
pub(crate) const ZOO: Check = Check { flag: "--zoo", package: "zoo" };
/// The kernel's machine code. It needs the kernel.
pub(crate) const CODE: Check = Check { flag: "--code", package: "code" };
/// Mutants of logic.
pub(crate) const LOGIC: Check = Check { flag: "--logic-mutants", package: "logic" };

impl Check {
    /// What cargo is asked for. The profile unwinds, because mutated code is abandoned half-way.
    pub(crate) const fn call(&self) -> [&'static str; 7] {
        ["run", "--quiet", "--profile", "checks", "--package", self.package, "--"]
    }
}

/// Entry of `cargo xtask check`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    if let Some((_, names)) = arguments.split_first().filter(|(first, _)| *first == "--all") {
        return long::main(&names.iter().collect::<Vec<_>>());
    }
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let asked: Vec<Check> = [LITMUS, ZOO, CODE, LOGIC].into_iter().filter(|check| has(check.flag)).collect();
    let check = match &asked[..] {
        [] => &ENGINE,
        [check] => check,
        [one, other, ..] => {
            return Err(Failure::bad_input(format!("{} and {} are two different checks", one.flag, other.flag)));
        }
    };
    let mut command = cargo::cargo(&check.call());
    if check.flag == CODE.flag && !["--kernel", "--help", "-h"].into_iter().any(has) {
        let kernel = bare::build(bare::Program::Kernel, &mut |line| eprintln!("{line}"))?;
        command.arg("--kernel").arg(kernel.elf);
    }
    command.args(arguments.iter().filter(|it| *it != check.flag));
    cargo::hand_over(command)
}
