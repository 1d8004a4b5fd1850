//! QEMU's command line for a kernel with the monitor beneath it.
//!
//! ```text
//! RAM + 2 MiB   the monitor, by -kernel, entered at EL2
//! behind it     the guest's Image, by a loader device, on the next 2 MiB boundary
//! + 128 MiB     the initrd, if there is one, and the device tree, where QEMU puts them; a tree of our own is at + 64 MiB
//! ```

use std::{path::Path, process::Command};

use super::{description, files::Files, options::Options, qemu, tree};
use crate::outcome::Failure;

/// What an Image is aligned to.
const BOUNDARY: u64 = 2 << 20;
/// Where RAM starts on QEMU's virt machine.
const RAM: u64 = 0x4000_0000;
/// QEMU puts the initrd and the device tree so far into RAM, or half-way if that is less.
const INITRD_OFFSET: u64 = 128 << 20;

/// The command that boots the Image `kernel` with the Image `monitor` beneath it.
pub(crate) fn command(options: &Options, monitor: &Path, kernel: &Path) -> Result<(Command, Files), Failure> {
    let at = (tree::IMAGE + tree::image_bytes(monitor)?).next_multiple_of(BOUNDARY);
    check_memory(options, at + tree::image_bytes(kernel)?)?;
    let mut own = vec![format!("monitor.guest={at:#x}"), "monitor.exit=semihosting".to_string()];
    if let Some(path) = &options.description {
        own.extend(description::words(path, options.cpus)?);
    }
    let line = format!("{} -- {}", own.join(" "), qemu::kernel_command_line(options));
    let (mut command, files) = match options.tree.and_then(tree::shapes::find) {
        None => {
            let mut command = options.emulator.command()?;
            command.args(qemu::arguments_with(options, monitor, &line));
            (command, Files::default())
        }
        Some(shape) => {
            let (mut command, files, _) = tree::without_image(options, monitor, &line, shape)?;
            add_image(&mut command, monitor, tree::IMAGE);
            (command, files)
        }
    };
    add_image(&mut command, kernel, at);
    Ok((command, files))
}

fn add_image(command: &mut Command, image: &Path, at: u64) {
    command.arg("-device").arg(format!("loader,file={},addr={at:#x},force-raw=on", image.display()));
}

/// The guest's Image must end where QEMU puts the initrd and the device tree, or before.
fn check_memory(options: &Options, image_end: u64) -> Result<(), Failure> {
    let offset = INITRD_OFFSET.min((options.memory_mib << 20) / 2);
    if image_end <= RAM + offset {
        return Ok(());
    }
    let needed = image_end - RAM;
    Err(Failure::bad_input(match needed <= INITRD_OFFSET {
        true => format!(
            "--memory {}M: too little for the monitor and this kernel, expected {}M or more; nothing was booted",
            options.memory_mib,
            (2 * needed).div_ceil(1 << 20)
        ),
        false => format!(
            "--kernel: an Image of {} MiB, expected one that ends within the first {} MiB of RAM; nothing was booted",
            needed >> 20,
            INITRD_OFFSET >> 20
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_must_fit_below_the_initrd() {
        let with = |memory_mib| Options { memory_mib, ..Options::default() };
        assert_eq!(check_memory(&with(2048), RAM + (128 << 20)), Ok(()));
        assert_eq!(check_memory(&with(64), RAM + (32 << 20)), Ok(()));
        let refused = check_memory(&with(64), RAM + (33 << 20)).expect_err("half of RAM is less");
        assert!(refused.line.contains("expected 66M or more"), "{refused}");
        let refused = check_memory(&with(2048), RAM + (129 << 20)).expect_err("too large for any memory");
        assert!(refused.line.contains("first 128 MiB"), "{refused}");
    }
}
