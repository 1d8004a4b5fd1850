//! A live machine by its gdb stub: registers of each CPU through the target description, physical memory through QEMU's
//! mode for it. Connecting stops the machine; dropping the session lets it go on.

mod description;
pub(crate) mod packet;

use std::ops::Range;
use std::path::Path;

use vmsa::PhysAddr;

use crate::endpoint::Endpoint;
use crate::file::FileMemory;
use crate::machine::Machine;
use crate::memory::{self, Memory, ReadError};
use crate::registers::{NAMES, Registers};
use crate::{Error, interrupt, mtree};

use description::Register;
use packet::Connection;

/// What a stub sends at most in one reply if it does not say.
const LEAST_PACKET_BYTES: usize = 400;
/// Requests that wait for their replies at once. A stub that is busy writing reads nothing: with more, it would wait for us
/// to read, and we, for our acknowledgements fill its socket, for it to.
const MOST_IN_FLIGHT: usize = 32;
/// More CPUs than a QEMU has, so that a stub that lies does not keep us for ever.
const MOST_CPUS: usize = 1024;

/// A stopped machine.
pub(crate) struct Session {
    connection: Connection,
    packet_bytes: usize,
    is_multiprocess: bool,
    reads_physical: bool,
    ranges: Vec<Range<u64>>,
    /// Nobody else would let the machine go on.
    _held: interrupt::Held,
}

/// Opens a machine by its stub. With `ram`, the file behind the machine's memory and its first address, memory is read
/// from there and the machine goes on as soon as its registers are known.
pub(crate) fn open(endpoint: &Endpoint, ram: Option<(&Path, u64)>) -> Result<Machine, Error> {
    let mut session = Session::connect(endpoint)?;
    let cpus = session.read_cpus()?;
    let is_empty = cpus.iter().all(Registers::is_empty);
    let (mut machine, hidden) = match ram {
        Some((path, base)) => (Machine::new(Box::new(FileMemory::open(path, base)?)), None),
        None => {
            let map = session.read_physical_from_now_on()?;
            (Machine::telling_memory(Box::new(session)), mtree::hidden(&map, &cpus))
        }
    };
    machine.cpus = cpus;
    machine.notes.extend(hidden);
    if is_empty {
        machine.notes.push(format!("{endpoint}: the target description has no system registers"));
    }
    Ok(machine)
}

/// The registers of every CPU, by a stub that is left at once.
pub(crate) fn read_cpus(endpoint: &Endpoint) -> Result<Vec<Registers>, Error> {
    Session::connect(endpoint)?.read_cpus()
}

impl Session {
    fn connect(endpoint: &Endpoint) -> Result<Self, Error> {
        // The machine stops before there is a session.
        let _held = interrupt::hold();
        Self::over(Connection::open(endpoint)?)
    }

    /// A session in a conversation that has just begun.
    pub(crate) fn over(mut connection: Connection) -> Result<Self, Error> {
        let supported = connection.ask("qSupported:multiprocess+;xmlRegisters=aarch64")?;
        let supported = String::from_utf8_lossy(&supported).into_owned();
        let size = supported.split(';').find_map(|word| word.strip_prefix("PacketSize="));
        let packet_bytes = size.and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
        Ok(Self {
            connection,
            packet_bytes: packet_bytes.clamp(LEAST_PACKET_BYTES, 1 << 20),
            is_multiprocess: supported.contains("multiprocess+"),
            reads_physical: false,
            ranges: Vec::new(),
            _held: interrupt::hold(),
        })
    }

    pub(crate) fn read_cpus(&mut self) -> Result<Vec<Registers>, Error> {
        let description = description::read(&mut self.connection)?;
        // A description that names a register twice would be read twice for each CPU.
        let of_name = |name: &str| description.iter().find(|register| is_called(&register.name, name));
        let wanted: Vec<&Register> = NAMES.into_iter().filter_map(of_name).collect();
        let threads = self.read_threads()?;
        threads.iter().map(|thread| self.read_registers(thread, &wanted)).collect()
    }

    fn read_threads(&mut self) -> Result<Vec<String>, Error> {
        let mut threads = Vec::new();
        let mut reply = self.connection.ask("qfThreadInfo")?;
        while let Some(list) = reply.strip_prefix(b"m") {
            threads.extend(String::from_utf8_lossy(list).split(',').map(str::to_owned));
            if threads.len() > MOST_CPUS {
                return Err(Error::new(format!("the stub lists more than {MOST_CPUS} CPUs")));
            }
            reply = self.connection.ask("qsThreadInfo")?;
        }
        if threads.is_empty() { Err(Error::new("the stub lists no CPU")) } else { Ok(threads) }
    }

    fn read_registers(&mut self, thread: &str, wanted: &[&Register]) -> Result<Registers, Error> {
        self.connection.ask(&format!("Hg{thread}"))?;
        let mut registers = Registers::default();
        for register in wanted {
            let reply = self.connection.ask(&format!("p{:x}", register.number))?;
            // A stub that has a register's name but not its value says so with an error.
            if let Some(bytes) = packet::unhex(&reply).filter(|bytes| !bytes.is_empty() && bytes.len() <= 8) {
                let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                registers.set(&register.name, value);
            }
        }
        Ok(registers)
    }

    /// The map of memory as QEMU's monitor prints it; from here on reads are of physical addresses.
    pub(crate) fn read_physical_from_now_on(&mut self) -> Result<String, Error> {
        // Reading a device has effects, so the ranges that are memory come first; QEMU tells them by its monitor.
        let map = self.connection.monitor("info mtree -f")?;
        self.ranges = mtree::memory(&map);
        if self.connection.ask("Qqemu.PhyMemMode:1")? != b"OK" {
            let why = "the stub has no mode for physical memory (QEMU 4.1 and later have)";
            return Err(Error::new(format!("{why}; give the memory with --ram FILE")));
        }
        self.reads_physical = true;
        Ok(map)
    }
}

/// The stub may call SCTLR_EL1 plain SCTLR.
fn is_called(name: &str, known: &str) -> bool {
    name.eq_ignore_ascii_case(known) || known == "SCTLR_EL1" && name.eq_ignore_ascii_case("SCTLR")
}

impl Memory for Session {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        interrupt::check()?;
        if !self.holds(at, into.len() as u64) {
            return Err(ReadError::Outside);
        }
        let at_once = self.packet_bytes / 2 * MOST_IN_FLIGHT;
        for (place, part) in into.chunks_mut(at_once).enumerate() {
            self.read_at_once(at.bits() + (place * at_once) as u64, part)?;
        }
        Ok(())
    }

    fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    fn most_searched(&self) -> (u64, &'static str) {
        memory::LIVE
    }
}

impl Session {
    fn read_at_once(&mut self, at: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let most = self.packet_bytes / 2;
        let mut requests = Vec::new();
        for (place, part) in into.chunks(most).enumerate() {
            requests.push(format!("m{:x},{:x}", at + (place * most) as u64, part.len()));
        }
        let failed = |error: Error| ReadError::Failed(error.to_string());
        self.connection.send_all(&requests).map_err(failed)?;
        for part in into.chunks_mut(most) {
            let reply = self.connection.receive().map_err(failed)?;
            match packet::unhex(&reply).filter(|bytes| bytes.len() == part.len()) {
                Some(bytes) => part.copy_from_slice(&bytes),
                None if reply.starts_with(b"E") => return Err(ReadError::Outside),
                None => return Err(ReadError::Failed("the stub sent less memory than asked for".to_owned())),
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    /// Leaves the stub as it was, and the machine running: a plain `D` stops QEMU from going on with more than one
    /// process. Nothing more can be done about a stub that does not answer.
    fn drop(&mut self) {
        if self.reads_physical {
            let _ = self.connection.ask("Qqemu.PhyMemMode:0");
        }
        let _ = self.connection.ask(if self.is_multiprocess { "D;1" } else { "D" });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, Read, Write};

    use super::*;
    use crate::endpoint::Stream;

    /// A stub of memory that holds the low byte of each address, and that stops reading when too much is asked at once.
    #[derive(Default)]
    struct Stub {
        asked: VecDeque<u8>,
        replies: VecDeque<Vec<u8>>,
    }

    impl Stream for Stub {}

    impl Write for Stub {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.extend(bytes);
            while let Some(end) =
                self.asked.iter().position(|byte| *byte == b'#').filter(|end| end + 2 < self.asked.len())
            {
                let packet: Vec<u8> = self.asked.drain(..end + 3).collect();
                let text = String::from_utf8_lossy(&packet).into_owned();
                let text =
                    text.trim_start_matches('+').trim_start_matches('$').split('#').next().unwrap_or("").to_owned();
                let reply = match text.strip_prefix('m').and_then(|text| text.split_once(',')) {
                    Some((at, size)) => {
                        let number = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
                        (number(at)..number(at) + number(size)).map(|at| format!("{:02x}", at as u8)).collect()
                    }
                    None if text.starts_with("qSupported") => "PacketSize=1000".to_owned(),
                    None => "OK".to_owned(),
                };
                let sum = reply.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
                self.replies.push_back(format!("${reply}#{sum:02x}").into_bytes());
                assert!(self.replies.len() <= MOST_IN_FLIGHT, "a real stub would write, and read no more");
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Stub {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(reply) = self.replies.pop_front() else { return Ok(0) };
            into[..reply.len()].copy_from_slice(&reply);
            Ok(reply.len())
        }
    }

    #[test]
    fn a_large_read_asks_for_a_little_at_a_time() {
        let connection = Connection::over("stub".to_owned(), Box::new(Stub::default()));
        let mut session = Session::over(connection).expect("a session");
        let mut bytes = vec![0; 1 << 20];
        assert_eq!(session.read(PhysAddr::new(0x4000_0003), &mut bytes), Ok(()));
        assert!(bytes.iter().enumerate().all(|(place, byte)| *byte == (place + 3) as u8));
    }
}
