//! Who puts the kernel into memory: QEMU itself, U-Boot from a disk, or a debugger from the ELF file.

use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use elf::{ElfBytes, abi::PT_LOAD, endian::LittleEndian};
use fs_err as fs;

use super::{files::Files, options::Options, qemu, tree};
use crate::outcome::Failure;

/// Debian's package of U-Boot for QEMU, and where it keeps the one for this machine.
const PACKAGE: &str = "u-boot-qemu";
const U_BOOT: &str = "usr/lib/u-boot/qemu_arm64/u-boot.bin";

/// The command that has U-Boot boot `image`: from a disk that QEMU makes of a folder, as `extlinux.conf` on it says.
pub(crate) fn u_boot(options: &Options, image: &Path) -> Result<(Command, Files), Failure> {
    let firmware = find_u_boot(image)?;
    let mut files = Files::default();
    let disk = files.name(image, "disk");
    let script =
        format!("DEFAULT vellum\nLABEL vellum\n KERNEL /Image\n APPEND {}\n", qemu::kernel_command_line(options));
    let written = fs::create_dir_all(disk.join("extlinux"))
        .and_then(|()| fs::copy(image, disk.join("Image")))
        .and_then(|_| fs::write(disk.join("extlinux/extlinux.conf"), script));
    written?;
    let mut command = options.emulator.command()?;
    command.args(qemu::machine_arguments(options)).arg("-bios").arg(firmware);
    command.arg("-drive").arg(format!("file=fat:{},format=raw,if=none,id=disk,readonly=on", disk.display()));
    command.args(["-device", "virtio-blk-pci,drive=disk"]).args(&options.qemu);
    Ok((command, files))
}

/// U-Boot as installed, or as fetched beside the Image, which needs no privilege.
fn find_u_boot(image: &Path) -> Result<PathBuf, Failure> {
    // Two boots at a time fetch it once.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _guard = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = Path::new("/").join(U_BOOT);
    let folder = image.with_file_name(PACKAGE);
    let fetched = folder.join(U_BOOT);
    if installed.exists() {
        return Ok(installed);
    }
    if !fetched.exists() {
        fs::create_dir_all(&folder)?;
        let runs = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(&folder);
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            quiet.status().is_ok_and(|status| status.success())
        };
        runs(&format!("apt-get download {PACKAGE} && dpkg -x {PACKAGE}_*.deb ."));
    }
    match fetched.exists() {
        true => Ok(fetched),
        false => Err(Failure::host_lacks(format!("U-Boot is needed: sudo apt-get install {PACKAGE}"))),
    }
}

/// The command that starts a machine without a kernel, stopped; a thread loads `elf` over QEMU's debugger port as a
/// debugger does, and lets it run.
pub(crate) fn gdb(options: &Options, image: &Path, elf: &Path) -> Result<(Command, Files), Failure> {
    let shape = tree::shapes::find(options.tree.unwrap_or("as-it-is"));
    let shape = shape.ok_or_else(|| Failure::bad_input("no such tree"))?;
    let (mut command, mut files, blob_at) =
        tree::without_image(options, image, &qemu::kernel_command_line(options), shape)?;
    let file = fs::read(elf)?;
    let segments = segments(&file).map_err(Failure::failed)?;
    let socket = files.name(image, "gdb");
    let listener = UnixListener::bind(&socket)?;
    command.arg("-chardev").arg(format!("socket,id=gdb,path={}", socket.display()));
    command.args(["-gdb", "chardev:gdb", "-S"]);
    thread::spawn(move || {
        let loaded = listener.accept().and_then(|(stream, _)| Debugger(stream).load(&segments, blob_at));
        if let Err(error) = loaded {
            eprintln!("cargo xtask run: the debugger's connection: {error}");
        }
    });
    Ok((command, files))
}

/// Where each loadable segment goes, with its bytes: physical addresses are offsets in the image.
fn segments(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, String> {
    let elf =
        ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| format!("the kernel is no ELF file: {error}"))?;
    let headers = elf.segments().ok_or("the kernel has no program headers")?;
    let loaded = headers.iter().filter(|header| header.p_type == PT_LOAD && header.p_filesz > 0);
    loaded
        .map(|header| {
            let data = elf.segment_data(&header).map_err(|error| format!("the kernel is cut short: {error}"))?;
            Ok((tree::IMAGE + header.p_paddr, data.to_vec()))
        })
        .collect()
}

/// QEMU's debugger port: the remote protocol of gdb, as far as loading needs it.
struct Debugger(UnixStream);

/// Bytes of memory in a packet: twice as many digits must fit QEMU's 4096.
const CHUNK: usize = 1792;
/// Numbers of registers in the protocol.
const X0: u32 = 0;
const PC: u32 = 32;

impl Debugger {
    fn load(&mut self, segments: &[(u64, Vec<u8>)], device_tree: u64) -> io::Result<()> {
        // QEMU takes registers only from who has asked which there are.
        self.answer("qXfer:features:read:target.xml:0,ff")?;
        for (at, bytes) in segments {
            for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
                let address = at + (number * CHUNK) as u64;
                self.ask(&format!("M{address:x},{:x}:{}", chunk.len(), hex(chunk)))?;
            }
        }
        self.ask(&format!("P{X0:x}={}", hex(&device_tree.to_le_bytes())))?;
        self.ask(&format!("P{PC:x}={}", hex(&tree::IMAGE.to_le_bytes())))?;
        self.send("D")?;
        // The stub runs with nobody at its port until the machine ends.
        self.0.read_to_end(&mut Vec::new()).map(|_| ())
    }

    fn send(&mut self, packet: &str) -> io::Result<()> {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        self.0.write_all(format!("${packet}#{sum:02x}").as_bytes())
    }

    /// Sends a packet that is to be answered by OK.
    fn ask(&mut self, packet: &str) -> io::Result<()> {
        match self.answer(packet)?.as_slice() {
            b"OK" => Ok(()),
            _ => Err(io::Error::other(format!("{} was refused", &packet[..packet.len().min(20)]))),
        }
    }

    /// Sends a packet, and acknowledges its answer.
    fn answer(&mut self, packet: &str) -> io::Result<Vec<u8>> {
        self.send(packet)?;
        let mut bytes = Vec::new();
        // `+$answer#xx`, where xx is the sum.
        while bytes.len() < 3 || bytes[bytes.len() - 3] != b'#' {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            bytes.push(byte[0]);
        }
        self.0.write_all(b"+")?;
        let start = bytes.iter().position(|byte| *byte == b'$').map_or(0, |at| at + 1);
        Ok(bytes[start..bytes.len() - 3].to_vec())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_carries_its_sum_and_waits_for_ok() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.write_all(b"+$OK#9a").expect("room");
        Debugger(ours).ask("P20=00").expect("answered");
        let mut sent = String::new();
        theirs.read_to_string(&mut sent).expect("text");
        assert_eq!(sent, "$P20=00#4f+");
    }

    #[test]
    fn a_refusal_is_an_error() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.write_all(b"+$E22#a9").expect("room");
        assert!(Debugger(ours).ask("M0,1:00").is_err());
    }
}
