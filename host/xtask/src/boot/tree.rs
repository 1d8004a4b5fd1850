//! Boots by a device tree of our own: QEMU's, with its memory laid out anew, or damaged.
//!
//! QEMU rewrites the memory nodes of a tree that it is given (`-dtb`). So it is given none: what it boots is four
//! instructions of firmware, which enter the kernel as a boot loader does, with the address of our tree in x0.
//!
//! ```text
//! QEMU -dumpdtb─▶ its tree ─shape─▶ our tree ─▶ blob ─damage─▶ -device loader   stub -bios─▶ x0 = blob, pc = Image
//! ```

mod edit;
pub(crate) mod shapes;

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use dtoolkit::{fdt::Fdt, model::DeviceTree};
use fs_err as fs;

use super::{files::Files, image, options::Options, qemu};
use crate::{fetch::qemu::PROGRAM, outcome::Failure};
pub(crate) use edit::IMAGE;
use edit::Scene;
use shapes::Shape;

/// Where the blob lies unless a shape wants it elsewhere.
const BLOB: u64 = 0x4400_0000;

/// The command that boots `image` by a tree of this shape, and the files it needs.
pub(crate) fn command(options: &Options, image: &Path, shape: &Shape) -> Result<(Command, Files), Failure> {
    let (mut command, files, _) = without_image(options, image, &qemu::kernel_command_line(options), shape)?;
    command.arg("-device").arg(format!("loader,file={},addr={IMAGE:#x},force-raw=on", image.display()));
    Ok((command, files))
}

/// The same without the Image in memory, and where the blob is. `image` is read for what it says of itself; `line` is the
/// command line.
pub(crate) fn without_image(
    options: &Options,
    image: &Path,
    line: &str,
    shape: &Shape,
) -> Result<(Command, Files, u64), Failure> {
    let mut files = Files::default();
    let dump = files.name(image, "qemu.dtb");
    let bytes = dump_tree(options, image, line, &dump)?;
    let fdt = Fdt::new(&bytes).map_err(|error| Failure::failed(format!("QEMU's device tree: {error}")))?;
    let mut scene = Scene {
        tree: DeviceTree::from_fdt(&fdt),
        ram_bytes: options.memory_mib << 20,
        image_bytes: image_bytes(image)?,
        blob_at: BLOB,
        passed: None,
        modules: Vec::new(),
        damage: None,
    };
    (shape.make)(&mut scene);
    let mut blob = scene.tree.to_dtb();
    if let Some(damage) = scene.damage {
        damage(&mut blob);
    }
    let blob = files.write(image, "tree.dtb", &blob)?;
    let stub = files.write(image, "stub.bin", &stub(scene.passed.unwrap_or(scene.blob_at), IMAGE))?;
    let mut command = options.emulator.command()?;
    command.args(qemu::machine_arguments(options)).arg("-bios").arg(stub);
    command.arg("-device").arg(format!("loader,file={},addr={:#x},force-raw=on", blob.display(), scene.blob_at));
    add_modules(&mut command, options, &scene.modules);
    command.args(&options.qemu);
    Ok((command, files, scene.blob_at))
}

/// More than any machine of ours has.
const LARGEST_IMAGE_BYTES: u64 = 1 << 40;

/// Bytes that an Image takes with its bss.
pub(crate) fn image_bytes(image: &Path) -> Result<u64, Failure> {
    let refused = |what: String| Failure::bad_input(format!("{}: {what}; nothing was booted", image.display()));
    let file = fs::read(image).map_err(|error| refused(error.to_string()))?;
    let bytes = image::size_bytes(&file).ok_or_else(|| refused("expected an arm64 Image, uncompressed".into()))?;
    if bytes > LARGEST_IMAGE_BYTES {
        return Err(refused(format!("an Image of {bytes:#x} bytes by its header, expected one that memory can hold")));
    }
    // Before Linux 3.17 the header said nothing.
    Ok(bytes.max(file.len() as u64))
}

/// The tree that QEMU would pass, with this command line in it.
fn dump_tree(options: &Options, image: &Path, line: &str, to: &Path) -> Result<Vec<u8>, Failure> {
    let mut command = options.emulator.command()?;
    command.args(qemu::arguments_with(options, image, line)).arg("-M").arg(format!("dumpdtb={}", to.display()));
    let failed = |why: String| Failure::failed(format!("{} -M dumpdtb: {why}", PROGRAM));
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    fs::read(to)
        .map_err(|error: io::Error| failed(format!("{error}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Memory modules, for which the machine must have slots and a range that reaches so far.
fn add_modules(command: &mut Command, options: &Options, modules: &[(u64, u64)]) {
    let Some(end) = modules.iter().map(|(at, mib)| at + (mib << 20)).max() else { return };
    let most = end.next_multiple_of(1 << 40) >> 40;
    command.arg("-m").arg(format!("{}M,slots={},maxmem={most}T", options.memory_mib, modules.len()));
    for (number, (at, mib)) in modules.iter().enumerate() {
        command.arg("-object").arg(format!("memory-backend-ram,id=module{number},size={mib}M"));
        command.arg("-device").arg(format!("pc-dimm,memdev=module{number},addr={at:#x}"));
    }
}

/// `ldr x0, passed; ldr x16, entry; br x16; nop`, and the two numbers.
fn stub(passed: u64, entry: u64) -> Vec<u8> {
    let code: [u32; 4] = [0x5800_0000 | 4 << 5, 0x5800_0000 | 5 << 5 | 16, 0xd61f_0200, 0xd503_201f];
    let code = code.iter().flat_map(|word| word.to_le_bytes());
    code.chain(passed.to_le_bytes()).chain(entry.to_le_bytes()).collect()
}
