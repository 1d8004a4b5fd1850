//! From entry to the guest's first instruction.

use common::tree;
use hardware::el2::boot::Boot;
use hardware::el2::probe;
use hardware::registers;
use kerncore::devicetree::{self, MachineDescription, Problem};
use kerncore::finding::{Findings, Severity};
use kerncore::range::PhysicalRange;
use moncore::options::{self, Options};
use vmsa::PhysAddr;

use crate::console::{self, say};
use crate::finish::{self, refuse};
use crate::guest::{self, Guest};
use crate::map::{self, pages};
use crate::memory::{self, Occupied};
use crate::tables::PAGE_BYTES;
use crate::{conflicts, cpus, realm, stage2};

/// Makes the map that the entry code will turn on. The MMU is off: no lock, and no formatting but in a dying machine.
pub(crate) fn build_map(boot: &mut Boot) {
    if boot.exception_level != 2 {
        let level = boot.exception_level;
        refuse(format_args!("entered at EL{level}, expected EL2 (QEMU: -M virt,virtualization=on)"));
    }
    // SAFETY: with the MMU off a read of 8 bytes of RAM has no side effect. A loader that points to a device breaks the boot
    // protocol.
    let found = tree::find(boot.device_tree, |address| unsafe { probe::read(address) });
    boot.device_tree_bytes = found.map_or(0, |range| range.size_bytes());
    let console = (console::FALLBACK..console::FALLBACK + PAGE_BYTES, map::DEVICE);
    let mut more = [console.clone(), console];
    let more = match found {
        Some(range) => {
            more[1] = (pages(range.start.bits()..range.end.bits()), map::READ_ONLY);
            &more[..]
        }
        None => &more[..1],
    };
    if let Err(error) = map::build(boot, more) {
        refuse(format_args!("the monitor's map: {error}"));
    }
}

/// Entered from assembly, in the monitor's map.
pub(crate) fn main(boot: &Boot) -> ! {
    finish::note_mmu_on();
    map::start(boot);
    // SAFETY: `build_map` mapped it. Where no PL011 is the words are lost, and nothing else.
    unsafe { console::set(console::FALLBACK) };
    let guest = prepare(boot);
    // SAFETY: nothing of the device tree is borrowed any more: `Guest` holds plain values.
    if let Err(error) = unsafe { guest::hand_over_tree(&guest) } {
        refuse(format_args!("{error}"));
    }
    say!("monitor: {} CPUs, {}; the guest starts at {}", cpus::count(), guest.memory, guest.entry);
    cpus::enter_first(guest.entry, guest.tree.start)
}

/// Reads what the machine is, and makes all that the guest will run in.
fn prepare(boot: &Boot) -> Guest {
    let mut findings = Findings::new();
    let mut machine = MachineDescription::new();
    // SAFETY: `build_map` found a header with this size there and mapped it read-only; nothing writes it before `main` has
    // dropped what is borrowed from it.
    let blob = unsafe { tree::blob(boot.device_tree, boot.device_tree_bytes) };
    if blob.is_empty() && boot.device_tree != 0 {
        findings.push(Problem::NotATree { address: boot.device_tree });
    } else {
        devicetree::read(blob, &mut machine, &mut findings);
    }
    let options = report(&findings, options::parse(machine.bootargs));
    finish::configure(options.has_semihosting);
    open_console(&machine);
    let cpu = registers::read_id_registers();
    for (index, identity) in options.cpus.iter().enumerate() {
        if let Some(what) = identity.false_claim(cpu) {
            refuse(format_args!("cpu {index}: {what}: claimed, but this machine's CPUs do not have it"));
        }
    }
    let range = PhysicalRange::from_size(PhysAddr::new(boot.device_tree), boot.device_tree_bytes);
    let result = guest::find(&options).and_then(|image| {
        let occupied = Occupied { image: tree::image_range(), device_tree: range, guest: image };
        let space = options.realm.map(|realm| realm.space);
        let memory = memory::lay_out(&mut machine, &occupied, space, &mut findings)?;
        let stage2 = stage2::build(&memory, &cpu, options.realm)?;
        guest::write_tree(blob, &machine, &memory)?;
        conflicts::set_up(options.conflicts);
        realm::set_up(options.realm);
        cpus::set_up(&machine, &options, boot.translation, stage2);
        Ok(Guest { entry: image.start, tree: range, memory: memory.summary() })
    });
    result.unwrap_or_else(|problem| refuse(format_args!("{problem}")))
}

/// Says what was wrong with the input; ends the machine if it cannot go on.
fn report(findings: &Findings, options: Result<Options, options::Problem>) -> Options {
    for finding in findings.iter().filter(|finding| finding.severity() == Severity::Warning) {
        say!("monitor: warning: {finding}");
    }
    if let Some(fatal) = findings.fatal() {
        refuse(format_args!("{fatal}"));
    }
    options.unwrap_or_else(|problem| refuse(format_args!("command line: {problem}")))
}

/// Speaks where the device tree says from now on, if that is another place.
fn open_console(machine: &MachineDescription) {
    let Some(console) = machine.console else { return };
    let address = console.registers.start.bits();
    if address == console::FALLBACK {
        return;
    }
    let registers = pages(address..console.registers.end.bits());
    match map::add(registers, map::DEVICE) {
        // SAFETY: just mapped; the device tree says that a UART is there.
        Ok(()) => unsafe { console::set(address) },
        Err(error) => say!("monitor: warning: the console at {address:#x}: {error}; QEMU's is used"),
    }
}
