//! Sees that QEMU is there, and installs it where that is allowed.

use std::{
    io,
    process::{Command, Stdio},
};

use crate::{command::runs, fetch::qemu, outcome::Failure};

/// Debian's package of the emulator.
const PACKAGE: &str = "qemu-system-arm";

/// Returns once `qemu-system-aarch64` runs, installing it with apt if it must and may.
pub(crate) fn ensure_qemu() -> Result<(), Failure> {
    if runs(qemu::PROGRAM, &["--version"]) {
        return Ok(());
    }
    if !runs("apt-get", &["--version"]) {
        return Err(missing("it is not installed, and there is no apt-get here"));
    }
    let privilege: &[&str] = if is_root() {
        &[]
    } else if runs("sudo", &["-n", "true"]) {
        &["sudo", "-n"]
    } else {
        return Err(missing("it is not installed, and only root may install it"));
    };
    eprintln!("cargo xtask: {} is not installed; installing the package {PACKAGE} with apt-get", qemu::PROGRAM);
    let install = ["install", "--yes", "--no-install-recommends", PACKAGE];
    // Images of Debian come without lists, and old ones name packages that the mirrors have
    // replaced.
    let is_installed = apt(privilege, &install) || (apt(privilege, &["update"]) && apt(privilege, &install));
    if is_installed && runs(qemu::PROGRAM, &["--version"]) {
        return Ok(());
    }
    Err(missing("apt-get could not install it"))
}

fn missing(why: &str) -> Failure {
    let line = format!(
        "{} is needed ({why}): apt-get install {PACKAGE} (Debian, Ubuntu), dnf install qemu-system-aarch64 (Fedora), \
         brew install qemu (macOS)",
        qemu::PROGRAM
    );
    Failure::host_lacks(line)
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Runs apt-get without questions. What it prints goes to standard error: standard output is the kernel's.
fn apt(privilege: &[&str], arguments: &[&str]) -> bool {
    let words = [privilege, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"], arguments].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    #[test]
    fn the_advice_is_one_line_with_the_package() {
        let failure = missing("it is not installed");
        assert_eq!(failure.status, Status::HostLacks);
        assert!(failure.line.contains("apt-get install qemu-system-arm") && !failure.line.contains('\n'));
    }
}
