//! QEMU, as a person would start it, with the plugin: and what the plugin says while it runs.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;

use crate::select::Failure;

/// The plugin's file, which is built beside this program.
const PLUGIN: &str = "libvellum_audit.so";
/// The QEMU from which on its interface has what the plugin needs.
const LEAST: (u32, u32) = (11, 1);

/// Where a debugger is let in, unless the command line says so.
pub(super) const DEBUGGER: &str = "localhost:1234";
/// What the plugin is answered to a finding where one is to stop the guest: stop, or go on.
const STOP: &[u8] = b"h";
const GO_ON: &[u8] = b"g";

/// Takes a message; whether the guest is to stop at it.
type Taker<'t> = dyn FnMut(&Value) -> bool + Send + 't;

/// A command line that starts QEMU.
#[derive(Debug)]
pub(super) struct Guest {
    words: Vec<String>,
    plugin: PathBuf,
    /// Its functions that free memory, as the plugin is told of them.
    frees: Vec<String>,
}

/// What a run is to do beside running.
#[derive(Clone, Default, Debug)]
pub(super) struct Asked {
    pub(super) forgotten: Vec<u64>,
    pub(super) trace: Option<PathBuf>,
    /// What every CPU is taken to be: fields of a trace's `cpu` line.
    pub(super) cpu: String,
    /// The first finding that `take` wants to look at holds the guest.
    pub(super) stops: bool,
    /// The guest's own output is not shown, and the guest ends where `take` says stop.
    pub(super) is_silent: bool,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The plugin was loaded.
    pub(super) is_connected: bool,
}

impl Guest {
    pub(super) fn new(words: &[String], plugin: Option<&Path>, frees: Vec<String>) -> Result<Self, Failure> {
        let plugin = plugin.map_or_else(beside, |it| Ok(it.to_path_buf()))?;
        if !plugin.is_file() {
            let hint = "build it with `cargo build --profile checks -p vellum -p audit`, or name it with --plugin";
            return Err(Failure(format!("{}: the plugin is not there; {hint}", plugin.display())));
        }
        let is_ours = |word: &&String| ["-accel", "-icount", "--accel", "--icount"].contains(&word.as_str());
        if let Some(word) = words.iter().find(is_ours) {
            let why = "the audit needs each CPU in a thread of its own, for QEMU otherwise tells plugins the wrong CPU";
            return Err(Failure(format!("{word}: {why}; expected none")));
        }
        check_version(words)?;
        Ok(Self { words: words.to_vec(), plugin, frees })
    }

    /// Runs the guest to its end; each message of the plugin's goes to `take`, which says whether the guest is to stop there.
    pub(super) fn run(&self, asked: &Asked, take: &mut Taker<'_>) -> Result<Ended, Failure> {
        let folder = env::temp_dir().join(format!("vellum-audit-{}", std::process::id()));
        let failed = |error: io::Error| Failure(format!("{}: {error}", folder.display()));
        fs::create_dir(&folder).map_err(failed)?;
        let socket = folder.join("report");
        let ended = UnixListener::bind(&socket)
            .map_err(failed)
            .and_then(|listener| self.listen(asked, &listener, &socket, take));
        // Whatever happened, nobody needs the folder any more.
        let _ = fs::remove_dir_all(&folder);
        ended
    }

    fn listen(
        &self,
        asked: &Asked,
        listener: &UnixListener,
        socket: &Path,
        take: &mut Taker<'_>,
    ) -> Result<Ended, Failure> {
        let mut command = self.command(asked, socket);
        let mut child = command.spawn().map_err(|error| Failure::file(&self.words[0], &error))?;
        thread::scope(|scope| {
            let reader = scope.spawn(move || messages(listener, asked, take));
            if let Some(mut output) = child.stdout.take() {
                // Its end is the guest's, whether the plugin came or not.
                scope.spawn(move || drop((io::copy(&mut output, &mut io::sink()), UnixStream::connect(socket))));
                let is_connected = reader.join().unwrap_or(false);
                // Nobody wants to know more of it; where it has ended, this does nothing.
                let _ = child.kill();
                return Ok(Ended { status: child.wait()?, is_connected });
            }
            let status = child.wait();
            // A plugin that never came would be waited for: an empty call takes its place.
            drop(UnixStream::connect(socket));
            let is_connected = reader.join().unwrap_or(false);
            Ok(Ended { status: status?, is_connected })
        })
    }

    /// The command line lets a debugger in already.
    pub(super) fn has_debugger(&self) -> bool {
        self.words.iter().any(|word| ["-s", "--s", "-gdb", "--gdb"].contains(&word.as_str()))
    }

    fn command(&self, asked: &Asked, socket: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["-accel", "tcg,thread=multi", "-plugin"]);
        let mut plugin = format!("{},report={}", escaped(&self.plugin), escaped(socket));
        if let Some(trace) = &asked.trace {
            plugin += &format!(",trace={}", escaped(trace));
        }
        asked.cpu.split([' ', ',']).filter(|it| !it.is_empty()).for_each(|field| plugin += &format!(",cpu={field}"));
        asked.forgotten.iter().for_each(|place| plugin += &format!(",forget={place:#x}"));
        self.frees.iter().for_each(|free| plugin += &format!(",free={free}"));
        if asked.stops {
            plugin += ",stop=on";
        }
        command.arg(plugin);
        if asked.stops && !self.has_debugger() {
            command.args(["-gdb", &format!("tcp:{DEBUGGER}")]);
        }
        if asked.is_silent {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        }
        command
    }
}

/// A comma in a value of QEMU's options is written twice.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn beside() -> Result<PathBuf, Failure> {
    Ok(env::current_exe()?.with_file_name(PLUGIN))
}

/// Reads what the plugin says until it ends; false if it said nothing.
fn messages(listener: &UnixListener, asked: &Asked, take: &mut Taker<'_>) -> bool {
    let Ok((stream, _)) = listener.accept() else { return false };
    let (mut is_connected, mut stops) = (false, asked.stops);
    for line in BufReader::new(&stream).lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        is_connected = true;
        let is_stop = take(&message);
        if is_stop && asked.is_silent {
            break;
        }
        if stops && message.get("finding").is_some() {
            stops = !is_stop;
            // A plugin that has gone away waits for nothing.
            let _ = (&stream).write_all(if is_stop { STOP } else { GO_ON });
        }
    }
    is_connected
}

/// Says so in one line where QEMU is too old.
fn check_version(words: &[String]) -> Result<(), Failure> {
    let output = Command::new(&words[0]).args(&words[1..]).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::file(&words[0], &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().next().unwrap_or_default();
    match version(said) {
        Some(version) if version >= LEAST => Ok(()),
        Some((major, minor)) => {
            let (least, minimum) = LEAST;
            Err(Failure(format!(
                "QEMU {major}.{minor} cannot show a plugin what is stored, expected {least}.{minimum} or later (cargo xtask fetch qemu)"
            )))
        }
        None => Err(Failure(format!("`{} … --version` says `{said}`, expected qemu-system-aarch64", words[0]))),
    }
}

/// `QEMU emulator version 11.1.3 (…)`
fn version(said: &str) -> Option<(u32, u32)> {
    let (_, rest) = said.split_once("QEMU emulator version ")?;
    let mut numbers = rest.split(|it: char| !it.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_qemu_is_known_by_what_it_says() {
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), Some((7, 2)));
        assert!(version("QEMU emulator version 11.1.3").is_some_and(|it| it >= LEAST));
        assert!(version("QEMU emulator version 12.0.0").is_some_and(|it| it >= LEAST));
        assert_eq!(version("bash, version 5"), None);
    }

    #[test]
    fn a_comma_in_a_path_is_part_of_it() {
        assert_eq!(escaped(Path::new("/a,b")), "/a,,b");
    }
}
