//! A guest in QEMU, with a gdb stub, QMP and shared memory, until it is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A guest takes a few seconds to boot; on a busy machine many.
const PATIENCE: Duration = Duration::from_secs(300);
/// Where QEMU's virt machine has its memory.
const BASE: &str = "0x40000000";

/// What is booted.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: Option<PathBuf>,
    pub(crate) append: String,
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
    /// Added to QEMU's `-M virt`.
    pub(crate) machine: &'static str,
    /// Whether a line says that the guest is as the test wants it.
    pub(crate) is_ready: fn(&str) -> bool,
}

/// A guest that runs.
pub(crate) struct Guest {
    qemu: Child,
    folder: PathBuf,
}

impl Guest {
    /// Boots a guest; returns it when it is ready, with what it said until then.
    pub(crate) fn boot(options: &Options) -> Result<(Self, Vec<String>), String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("vellum-linux-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut qemu = command(options, &folder).spawn().map_err(|error| format!("QEMU: {error}"))?;
        let output = qemu.stdout.take().ok_or("QEMU has no output")?;
        let guest = Self { qemu, folder };
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let said = wait(&lines, options.is_ready)?;
        Ok((guest, said))
    }

    /// A file of the guest's own, as long as it is there.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn gdb(&self) -> String {
        format!("qemu:unix:{}", self.path("gdb"))
    }

    pub(crate) fn qmp(&self) -> String {
        format!("qmp:{}", self.path("qmp"))
    }

    pub(crate) fn ram(&self) -> String {
        format!("{}@{BASE}", self.path("ram"))
    }

    pub(crate) fn raw(&self) -> String {
        format!("raw:{}", self.ram())
    }

    /// Has QEMU save the guest's memory as an ELF core.
    pub(crate) fn save_core(&self) -> Result<String, String> {
        let core = self.path("core");
        let command = format!(
            "{{\"execute\":\"dump-guest-memory\",\"arguments\":{{\"paging\":false,\"protocol\":\"file:{core}\"}}}}"
        );
        self.execute(&command).map(|_| core)
    }

    /// Whether nobody has stopped the guest and left it so.
    pub(crate) fn is_running(&self) -> Result<(), String> {
        let status = self.execute("{\"execute\":\"query-status\"}")?;
        if status.contains("\"running\": true") { Ok(()) } else { Err(status) }
    }

    /// A conversation of one command.
    fn execute(&self, command: &str) -> Result<String, String> {
        let error = |error: std::io::Error| format!("QMP: {error}");
        let mut stream = UnixStream::connect(self.path("qmp")).map_err(error)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(error)?;
        stream.write_all(format!("{{\"execute\":\"qmp_capabilities\"}}{command}\n").as_bytes()).map_err(error)?;
        // The greeting, and what the first command returned, come before.
        let replies = BufReader::new(stream).lines().map_while(Result::ok);
        let mut answers = replies.filter(|line| line.starts_with("{\"return\"") || line.starts_with("{\"error\""));
        let answer = answers.nth(1).ok_or("QMP closed the connection")?;
        if answer.starts_with("{\"error\"") { Err(answer) } else { Ok(answer) }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn command(options: &Options, folder: &std::path::Path) -> Command {
    let at = |name: &str| folder.join(name).display().to_string();
    let ram = format!("memory-backend-file,id=ram,size=2G,share=on,mem-path={}", at("ram"));
    let gdb = format!("socket,id=gdb,server=on,wait=off,path={}", at("gdb"));
    let qmp = format!("unix:{},server=on,wait=off", at("qmp"));
    let cpus = options.cpus.to_string();
    // The words of another QEMU, one a line: its loader, where its libraries are, itself.
    let words = std::env::var("VELLUM_QEMU").unwrap_or("qemu-system-aarch64".to_owned());
    let (program, first) = words.split_once('\n').unwrap_or((&words, ""));
    let mut command = tied_to_us(program);
    command.args(first.lines());
    command.args(["-M", &format!("virt,gic-version=3{}", options.machine)]);
    command.args(["-cpu", &options.cpu, "-smp", &cpus, "-m", "2G", "-nic", "none", "-no-shutdown"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio"]);
    command.args(["-object", &ram, "-machine", "memory-backend=ram"]);
    command.args(["-chardev", &gdb, "-gdb", "chardev:gdb", "-qmp", &qmp, "-append", &options.append]);
    command.arg("-kernel").arg(&options.kernel);
    if let Some(initramfs) = &options.initramfs {
        command.arg("-initrd").arg(initramfs);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A command that dies with us, however we end, where util-linux is there to see to it.
pub(crate) fn tied_to_us(program: &str) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--pdeathsig", "KILL", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !setpriv.status().is_ok_and(|status| status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// The lines until the guest is ready.
fn wait(lines: &Receiver<String>, is_ready: fn(&str) -> bool) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if is_ready(line.trim_end()) => return Ok(said),
            Ok(line) => said.push(line.trim_end().to_owned()),
            Err(_) => return Err(format!("the guest did not get ready:\n{}", said.join("\n"))),
        }
    }
}
