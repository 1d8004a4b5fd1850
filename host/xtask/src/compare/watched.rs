//! A guest above the monitor, and `vellum` that reads its page tables while the guest runs.
//!
//! ```text
//! options ──▶ QEMU ──console──▶ lines, as they come ──▶ the caller, who reads or ends the guest
//!               └──gdb stub, shared memory──▶ vellum
//! ```

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use fs_err as fs;

use super::count::Count;
use crate::{
    boot::{
        self, Programs,
        emulator::Emulator,
        guest::{self, Chunk},
        options,
    },
    cargo,
    fetch::linux::Linux,
    outcome::Failure,
};

/// What every boot is given: as many CPUs as make a mix.
const PLAIN: &str = "--monitor --cpus 4 --timeout 600";
/// The memory that the page about this counts with.
pub(crate) const MEMORY: &str = "2G";
/// Linux says little, and lies where it was linked.
const WORDS_OF_LINUX: &str = "console=ttyAMA0 nokaslr quiet";
/// The last line of the guest's init.
pub(crate) const READY: &str = "guest: ready";

/// Builds the command that reads the guests.
pub(crate) fn build_vellum() -> Result<PathBuf, Failure> {
    cargo::build_here("vellum", cargo::cargo(&["build", "--quiet", "--release", "--package", "vellum"]))?;
    Ok(cargo::metadata()?.target_directory.join("release/vellum").into())
}

/// A folder of this process's for sockets and memory, which goes with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Result<Folder, Failure> {
        let folder = std::env::temp_dir().join(format!("vellum-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What guests need besides their kernels.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) folder: &'p Folder,
    /// The built `vellum`.
    pub(crate) reader: &'p Path,
    pub(crate) emulator: &'p Emulator,
    pub(crate) programs: &'p Programs,
}

/// A kernel, on a machine of the monitor's. Guests that run at once have different names.
#[derive(Clone, Copy)]
pub(crate) struct Guest<'g> {
    pub(crate) place: Place<'g>,
    pub(crate) name: &'g str,
    /// A file of `bare/monitor/machines`, without its ending.
    pub(crate) machine: &'g str,
    /// Its size, as QEMU has it.
    pub(crate) memory: &'g str,
    /// Ours, if there is none.
    pub(crate) linux: Option<&'g Linux>,
    /// Its `/init` says [`READY`] in the end, and idles. Without it our kernel ends by itself.
    pub(crate) initrd: Option<&'g Path>,
    /// Further words of our kernel's command line.
    pub(crate) words: &'g [&'g str],
}

/// What becomes of a guest that has said a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    GoesOn,
    Ends,
}

impl Guest<'_> {
    /// Boots the kernel, shows each whole line to `heard` while the guest runs, and gives all that the guest said.
    pub(crate) fn watch(&self, heard: &mut dyn FnMut(&str) -> Then) -> Result<String, Failure> {
        let options = self.options()?;
        let (mut command, _files) = boot::command(&options, self.place.programs)?;
        let (mut line, mut is_over) = (Vec::<u8>::new(), false);
        let ended = guest::run(&mut command, options.timeout, &mut |chunk| {
            let Chunk::Output(bytes) = chunk else { return };
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                line.extend(part);
                if !part.ends_with(b"\n") {
                    continue;
                }
                if !is_over && heard(String::from_utf8_lossy(&line).trim_end()) == Then::Ends {
                    is_over = true;
                    self.quit();
                }
                line.clear();
            }
        })?;
        Ok(format!("{}{}", String::from_utf8_lossy(&ended.output), ended.complaints))
    }

    /// Boots the kernel, asks `what` once the guest is ready, and ends it. Also all that the guest said.
    pub(crate) fn once_ready<T>(&self, what: &mut dyn FnMut() -> Result<T, Failure>) -> Result<(T, String), Failure> {
        let mut answer = None;
        let said = self.watch(&mut |line| match line {
            READY => {
                answer = Some(what());
                Then::Ends
            }
            _ => Then::GoesOn,
        })?;
        match answer {
            Some(answer) => answer.map(|answer| (answer, said)),
            None => {
                let last = said.lines().last().unwrap_or_default();
                let line = format!("above {} the kernel did not get ready; its last line: {last}", self.machine);
                Err(Failure::failed(line))
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.folder.0.join(format!("{}-{name}", self.name))
    }

    fn options(&self) -> Result<options::Options, Failure> {
        let at = |name: &str| self.path(name).display().to_string();
        let description = cargo::workspace().join("bare/monitor/machines").join(format!("{}.toml", self.machine));
        let appended = self.linux.map(|_| WORDS_OF_LINUX).into_iter().chain(self.words.iter().copied());
        let of_qemu = [
            "-object",
            &format!("memory-backend-file,id=ram,size={},share=on,mem-path={}", self.memory, at("ram")),
            "-machine",
            "memory-backend=ram",
            "-chardev",
            &format!("socket,id=gdb,server=on,wait=off,path={}", at("gdb")),
            "-gdb",
            "chardev:gdb",
            "-qmp",
            &format!("unix:{},server=on,wait=off", at("qmp")),
        ];
        Ok(options::Options {
            description: Some(description),
            kernel: self.linux.map(|linux| linux.kernel.clone()),
            initrd: self.initrd.map(Path::to_owned),
            init: (self.linux.is_none() && self.initrd.is_some()).then(|| "/init".to_owned()),
            append: appended.map(str::to_owned).collect(),
            emulator: self.place.emulator.clone(),
            qemu: of_qemu.map(OsString::from).to_vec(),
            ..options::of(&format!("{PLAIN} --memory {}", self.memory))?
        })
    }

    /// Where `vellum` finds the guest.
    pub(crate) fn source(&self) -> String {
        format!("qemu:unix:{}", self.path("gdb").display())
    }

    /// What `vellum` counts in the guest's upper half.
    pub(crate) fn count(&self) -> Result<Count, Failure> {
        let failed = |why: String| Failure::failed(format!("vellum dump: {why}"));
        let mut command = Command::new(self.place.reader);
        command.args(["dump", &self.source(), "--json", "--ram"]);
        command.arg(format!("{}@0x40000000", self.path("ram").display()));
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
        let said = UnixStream::connect(self.path("qmp")).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            stream.write_all(b"{\"execute\":\"qmp_capabilities\"}{\"execute\":\"quit\"}\n")?;
            // QEMU reads what was sent while somebody is there, and hangs up in its own way.
            let _ = stream.read_to_end(&mut Vec::new());
            Ok(())
        });
        if let Err(error) = said {
            eprintln!("cargo xtask: QEMU's monitor: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_is_asked_for() {
        let linux =
            Linux { kernel: "vmlinuz".into(), busybox: "busybox".into(), modules: vec![], name: "linux".into() };
        let (folder, programs) = (Folder::new("test").expect("a folder"), Programs::default());
        let place =
            Place { folder: &folder, reader: Path::new("vellum"), emulator: &Emulator::Host, programs: &programs };
        let initrd = Some(Path::new("idle"));
        let (name, machine) = ("linux", "all-resize");
        let guest = Guest { place, name, machine, memory: "12G", linux: Some(&linux), initrd, words: &[] };
        let options = guest.options().expect("options");
        assert!(options.monitor && options.append == [WORDS_OF_LINUX] && options.qemu.len() == 10, "{options:?}");
        assert!(options.qemu.iter().any(|word| word.to_string_lossy().contains("size=12G,")), "{options:?}");
        assert!(options.description.is_some_and(|path| path.exists()));
        let ours = Guest { linux: None, words: &["vellum.stress=1"], ..guest };
        let options = ours.options().expect("options");
        assert!(options.append == ["vellum.stress=1"] && options.init.as_deref() == Some("/init"), "{options:?}");
    }
}
