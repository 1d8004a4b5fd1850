//! A live machine by QEMU's machine protocol: memory through files that QEMU writes, registers through the gdb server that
//! it has, or else through one that it starts for a moment.

mod server;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use vmsa::PhysAddr;

use crate::endpoint::{Endpoint, Stream};
use crate::file::FileMemory;
use crate::machine::Machine;
use crate::memory::{self, Memory, ReadError};
use crate::peer::Peer;
use crate::{Error, gdb, interrupt, mtree};

use server::Server;

/// QEMU greets at once.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// QEMU writes gigabytes to a file in less.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than QEMU sends in one line.
const MOST_BYTES: usize = 16 << 20;
/// More than a greeting.
const MOST_GREETING_BYTES: usize = 1 << 16;

struct Session {
    peer: Peer,
    folder: PathBuf,
    ranges: Vec<Range<u64>>,
    /// Nobody else would remove the folder, or end the gdb server.
    _held: interrupt::Held,
}

/// Opens a machine by QMP. With `ram`, memory is read from that file. Registers come by a gdb server unless the caller
/// knows what they would tell.
pub(crate) fn open(path: &Path, ram: Option<(&Path, u64)>, needs_registers: bool) -> Result<Machine, Error> {
    let mut session = Session::connect(path)?;
    let cpus = if needs_registers { session.read_cpus() } else { Ok(Vec::new()) };
    let (mut machine, hidden) = match ram {
        Some((path, base)) => (Machine::new(Box::new(FileMemory::open(path, base)?)), None),
        None => {
            let map = session.monitor("info mtree -f")?;
            session.ranges = mtree::memory(&map);
            let hidden = cpus.as_ref().ok().and_then(|cpus| mtree::hidden(&map, cpus));
            (Machine::telling_memory(Box::new(session)), hidden)
        }
    };
    machine.notes.extend(hidden);
    match cpus {
        Ok(cpus) => machine.cpus = cpus,
        Err(error) => machine.notes.push(format!("no registers: {error}")),
    }
    Ok(machine)
}

impl Session {
    fn connect(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let stream = Endpoint::Unix(path.into()).connect(PATIENCE, "-qmp")?;
        Self::over(Peer::new(name, "", stream, GREETING_PATIENCE))
    }

    /// A session in a conversation that has just begun.
    fn over(mut peer: Peer) -> Result<Self, Error> {
        greeting(&mut peer)?;
        peer.set_patience(PATIENCE);
        let _held = interrupt::hold();
        let folder = private_folder()?;
        let mut session = Self { peer, folder, ranges: Vec::new(), _held };
        session.execute("qmp_capabilities", json!({}))?;
        Ok(session)
    }

    /// Runs a command and returns what it returned. Events that come meanwhile are of no interest.
    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, Error> {
        let text = json!({ "execute": command, "arguments": arguments }).to_string() + "\n";
        self.peer.write(text.as_bytes())?;
        self.peer.begin_reply();
        loop {
            let line = self.peer.take_until(b'\n', MOST_BYTES)?;
            let mut reply: Value =
                serde_json::from_slice(&line).map_err(|_| self.peer.error("a reply that is no JSON"))?;
            if let Some(value) = reply.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = reply.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason given");
                return Err(self.peer.error(format!("{command}: {why}")));
            }
        }
    }

    fn monitor(&mut self, line: &str) -> Result<String, Error> {
        let reply = self.execute("human-monitor-command", json!({ "command-line": line }))?;
        Ok(reply.as_str().unwrap_or_default().to_owned())
    }

    /// Registers by the gdb server that is there, or by one of our own, which ends with the conversation.
    fn read_cpus(&mut self) -> Result<Vec<crate::Registers>, Error> {
        let chardevs = self.execute("query-chardev", json!({}))?;
        let was_running = self.execute("query-status", json!({}))?["running"] == true;
        let cpus = match server::find(&chardevs, self.peer.name()) {
            Server::Idle(endpoint) => gdb::read_cpus(&endpoint),
            Server::Absent => self.read_cpus_by_our_server(),
            Server::Taken => return Err(Error::new("a debugger is at QEMU's gdb server, which serves one at a time")),
            Server::Perhaps(sockets) => {
                let sockets = sockets.join(" or ");
                return Err(Error::new(format!("starting a gdb server may end one that is there: try {sockets}")));
            }
        };
        if !was_running {
            // Detaching from a gdb server lets the machine go on.
            self.execute("stop", json!({}))?;
        }
        cpus.map_err(|error| Error::new(format!("QEMU's gdb server: {error}")))
    }

    fn read_cpus_by_our_server(&mut self) -> Result<Vec<crate::Registers>, Error> {
        let socket = self.folder.join("gdb");
        let answer = self.monitor(&format!("gdbserver unix:{},server=on,wait=off", socket.display()))?;
        let cpus = gdb::read_cpus(&Endpoint::Unix(socket));
        self.monitor("gdbserver none")?;
        cpus.map_err(|error| Error::new(format!("{error} {}", answer.trim())))
    }

    fn read_file(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), Error> {
        let file = self.folder.join("memory");
        self.execute("pmemsave", json!({ "val": at.bits(), "size": into.len(), "filename": file }))?;
        let bytes = fs::read(&file).map_err(|error| Error::io(file.display(), &error))?;
        if bytes.len() != into.len() {
            return Err(Error::new(format!("QEMU saved {} bytes of memory, not {}", bytes.len(), into.len())));
        }
        into.copy_from_slice(&bytes);
        Ok(())
    }
}

/// Waits for QEMU's greeting, one line.
fn greeting(peer: &mut Peer) -> Result<(), Error> {
    let line = peer.take_until(b'\n', MOST_GREETING_BYTES);
    let is_one = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).is_ok_and(|line| line.get("QMP").is_some());
    if line.as_ref().is_ok_and(is_one) {
        return Ok(());
    }
    let_go(peer);
    let why = line.err().map_or_else(String::new, |error| format!(" ({error})"));
    Err(peer.error(format!("no QMP greeting; is that QEMU's -qmp socket?{why}")))
}

/// A gdb stub stops the machine for whoever connects: a detach lets it go on, once it has been read, which a reply tells. To
/// anything else these are odd bytes. The process is named, for QEMU refuses a bare `D` if an earlier debugger spoke of more
/// than one.
fn let_go(peer: &mut Peer) {
    peer.begin_reply();
    let mut asked = peer.write(b"+$D;1#b0");
    while asked.is_ok() {
        asked = peer.skip_until(b'$');
        if peer.take_until(b'#', MOST_GREETING_BYTES).is_ok_and(|reply| reply == b"OK") {
            return;
        }
    }
}

/// A folder that nobody else may read: it holds pieces of the machine's memory.
fn private_folder() -> Result<PathBuf, Error> {
    use std::os::unix::fs::DirBuilderExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("vellum-qmp-{}-{number}", std::process::id()));
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| Error::io(folder.display(), &error))?;
    Ok(folder)
}

impl Memory for Session {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        interrupt::check()?;
        if !self.holds(at, into.len() as u64) {
            return Err(ReadError::Outside);
        }
        self.read_file(at, into).map_err(|error| ReadError::Failed(error.to_string()))
    }

    fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    fn most_searched(&self) -> (u64, &'static str) {
        memory::LIVE
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// All that is asked of a QEMU, for one that answers anything.
pub(crate) fn any(stream: Box<dyn Stream>) {
    let Ok(mut session) = Session::over(Peer::new("QEMU".to_owned(), "", stream, GREETING_PATIENCE)) else { return };
    let chardevs = session.execute("query-chardev", json!({})).unwrap_or_default();
    let _ = server::find(&chardevs, session.peer.name());
    session.ranges = session.monitor("info mtree -f").map_or_else(|_| Vec::new(), |map| mtree::memory(&map));
    let _ = session.read(PhysAddr::new(0x4000_0000), &mut [0; 64]);
}
