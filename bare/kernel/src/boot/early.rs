//! Boot at physical addresses: from the first identity map to the high half.

use common::console::FALLBACK;
use common::supply::Bump;
use common::tree;
use hardware::boot::{Boot, Destination, leave_identity_map};
use hardware::pl011::{self, Answer};
use hardware::platform::Hardware;
use hardware::{image, registers};
use kerncore::choice::{Choice, choose, default_page_size};
use kerncore::command_line::{self, Exit, LinearLeaves, Options, PageAllocator};
use kerncore::devicetree::{self, Console, MachineDescription, Problem};
use kerncore::finding::{Findings, Severity};
use kerncore::linear::Linear;
use kerncore::memory_map::{Kind, MemoryMap, Occupants};
use kerncore::range::PhysicalRange;
use kerncore::text::Text;
use linearmap::{Leaves, Levels};
use pagetable::{Census, Change, El1, Tolerance};
use vmsa::{AddressHalf, IdRegisters, Midr, PageSize, PhysAddr, VirtAddr};

use super::kernel_map::{EarlyMemory, How, build_lower, build_upper, build_workshop, workshop_end};
use super::realm;
use crate::boot::high;
use crate::console::{self, say};
use crate::cpus::{firmware, monitor, stacks};
use crate::facts::{Facts, Realm};
use crate::handover;
use crate::memory::devices::{Placement, whole_pages};
use crate::memory::pages;
use crate::memory::tables::{AnyTable, CAUTIOUS, DEVICE, LOWER_BITS, READ_WRITE, Shape, map};
use crate::report::finish::{self, refuse};
use crate::report::times::{self, Step};

/// The first identity map, to which the console and early memory are added.
struct Identity {
    hardware: Hardware,
    table: AnyTable,
    page_size: PageSize,
    tables: Bump,
    /// How far above what the device tree tells devices are.
    away: u64,
}

/// Entered from assembly, in the first identity map.
pub(crate) fn main(boot: &Boot) -> ! {
    times::start(boot.counter);
    times::record(Step::MmuOn);
    let cpu = registers::read_id_registers();
    let mut identity = Identity::new(boot, &cpu);
    let mut findings = Findings::new();
    let mut machine = MachineDescription::new();
    match (boot.device_tree_bytes, boot.device_tree) {
        (0, 1..) => findings.push(Problem::NotATree { address: boot.device_tree }),
        _ => {
            // SAFETY: `build_identity_map` found a header with this size there and mapped it read-only; nothing writes it.
            let blob = unsafe { tree::blob(boot.device_tree, boot.device_tree_bytes) };
            devicetree::read(blob, &mut machine, &mut findings);
        }
    }
    machine.keep_boot_cpu(registers::read_affinity(), &mut findings);
    let mut options = command_line::parse(machine.bootargs, &mut findings);
    options.limit_boot_cpu(&cpu, &mut findings);
    // Before any device is touched.
    let realm = realm::find(boot.exception_level, machine.psci.as_ref());
    identity.away = realm.map_or(0, Realm::unprotected);
    identity.open_console(&mut machine, options.exit == Some(Exit::Semihosting), &mut findings);
    let cpu = options.cpus[0].believe(cpu);
    // A tree that is damaged may have lost the words that say how to end.
    if options.exit.is_some() || findings.fatal().is_none() {
        finish::configure(options.exit, machine.psci.map(|psci| firmware::conduit(&psci)));
    }
    let mut map = MemoryMap::new();
    map.make(&mut machine, &occupants(boot), &mut findings);
    let (choice, linear) = choose_map(&cpu, &options, &map, realm, &mut findings);
    let limit = choice.physical_limit.min(linear.limit());
    map.keep_below(limit, &mut machine, &mut findings);
    report(&findings);
    if realm.is_some() {
        realm::claim(&mut map, choice.page_size);
    }
    times::record(Step::DeviceTree);
    enter_high_half(boot, &cpu, identity, &mut map, &machine, Chosen { choice, linear, options, realm })
}

struct Chosen {
    choice: Choice,
    linear: Linear,
    options: Options,
    realm: Option<Realm>,
}

fn enter_high_half(
    boot: &Boot,
    cpu: &IdRegisters,
    mut identity: Identity,
    map: &mut MemoryMap,
    machine: &MachineDescription,
    Chosen { choice, linear, options, realm }: Chosen,
) -> ! {
    let Some(pool) = identity.map_early_memory(map) else {
        refuse(format_args!("memory: no free range could be mapped for early use"));
    };
    let highest = map.ram().last().map_or(0, |range| range.end.bits());
    let (page_size, shape) = (choice.page_size, Shape::chosen(&choice, workshop_end(linear, highest)));
    let (placement, devices) = Placement::new(machine, page_size, identity.away);
    let mut memory = EarlyMemory::new(map, pool, shape);
    let has_monitor = monitor::is_there(boot.exception_level, machine.psci.as_ref());
    // At EL2 our entry code has left stage 2 off; beneath EL1 there may be one, whose part in a TLB conflict EL1 cannot end.
    let handles_conflicts =
        boot.exception_level == 2 || has_monitor && monitor::ends_conflicts() || options.trusts_el1 == Some(true);
    let leaves = match options.linear_map {
        Some(LinearLeaves::Pages) => Leaves::Pages,
        _ if let Some(why) = hides_by_pages(cpu, &options, machine, handles_conflicts) => {
            say!("linear map: in pages, for vellum.pagealloc=debug {why}");
            Leaves::Pages
        }
        Some(LinearLeaves::Blocks) => Leaves::Blocks,
        Some(LinearLeaves::Largest) | None => Leaves::Largest,
    };
    let how = How { linear, leaves, rodata: options.rodata.unwrap_or_default() };
    let upper = build_upper(identity.hardware, how, &placement, &mut memory);
    let lower = build_lower(identity.hardware, &mut memory);
    let workshop = build_workshop(identity.hardware, linear, &mut memory);
    let (upper, (lower, parking), workshop) = match (upper, lower, workshop) {
        (Ok(upper), Ok(lower), Ok(workshop)) => (upper, lower, workshop),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => refuse(format_args!("{error}")),
    };
    let translation = shape.translation(cpu, lower.root(), Some(upper.root()));
    let facts = Facts {
        exception_level: boot.exception_level,
        realm,
        has_monitor,
        handles_conflicts,
        load_address: PhysAddr::new(boot.load_address),
        early_page_size: identity.page_size,
        choice,
        linear,
        leaves,
        workshop,
        parking,
        devices,
        cpus: machine.cpus,
        psci: machine.psci,
        timer_interrupt: machine.timer.virtual_interrupt,
        initrd: machine.initrd.unwrap_or(PhysicalRange::EMPTY),
        command_line: place_of(machine.bootargs),
        options,
    };
    handover::leave(facts, map);
    times::record(Step::Tables);
    let stack = |kind| stacks::range(0, kind, page_size).end;
    let (stack, exception_stack) = (stack(stacks::Kind::Thread), stack(stacks::Kind::Exception));
    // SAFETY: the other CPUs are off. The new tables map the image at its link address, its identity text and both
    // stacks; what the handover holds are plain values, and `high::main` begins with nothing else.
    unsafe { leave_identity_map(&translation, Destination { entry: high::main, argument: 0, stack, exception_stack }) }
}

/// Where a text is in memory: the identity map has it at its physical address.
fn place_of(text: &str) -> PhysicalRange {
    PhysicalRange::from_size(PhysAddr::new(text.as_ptr() as u64), text.len() as u64)
}

/// Why free pages are hidden by pages alone: each leaf that changes size would park CPUs, or may, as those that have not started have told
/// no level.
fn hides_by_pages(
    cpu: &IdRegisters,
    options: &Options,
    machine: &MachineDescription,
    handles_conflicts: bool,
) -> Option<&'static str> {
    if options.page_allocator != Some(PageAllocator::Debug) || machine.cpus.len() == 1 {
        return None;
    }
    let levels = Levels { all: options.bbm_of(0), single: &[] };
    let first = levels.tolerance(0, cpu, Midr::new(registers::read_midr() as u32), handles_conflicts);
    let (mut census, told) = (Census::new(first), || (1..machine.cpus.len()).map(|cpu| options.bbm_of(cpu)));
    told().flatten().for_each(|level| census.admit(Tolerance::new(level, handles_conflicts)));
    match census.tolerated() {
        None => Some("would park other CPUs at each split"),
        Some(_) if told().any(|level| level.is_none()) => {
            Some("may park other CPUs at each split: their level is not known yet, unless vellum.bbm= tells it")
        }
        Some(_) => None,
    }
}

fn occupants(boot: &Boot) -> Occupants {
    Occupants {
        image: tree::image_range(),
        device_tree: PhysicalRange::from_size(PhysAddr::new(boot.device_tree), boot.device_tree_bytes),
    }
}

fn choose_map(
    cpu: &IdRegisters,
    options: &Options,
    map: &MemoryMap,
    realm: Option<Realm>,
    findings: &mut Findings,
) -> (Choice, Linear) {
    let ram = || map.ram().map(|range| (range.start, range.end));
    let (lowest, highest) = (ram().next(), ram().last());
    // Descriptors must reach the devices of a realm, and what it shares.
    let shared_end = PhysAddr::new(realm.map_or(0, |realm| 2 * realm.unprotected()));
    let end = highest.map_or(shared_end, |(_, end)| end.max(shared_end));
    let choice = choose(cpu, options, end, findings);
    let linear = Linear::new(&choice, lowest.map_or(PhysAddr::new(0), |(start, _)| start));
    (choice, linear)
}

/// Says what was wrong with the input; ends the machine if it cannot go on.
fn report(findings: &Findings) {
    for finding in findings.iter().filter(|finding| finding.severity() == Severity::Warning) {
        say!("warning: {finding}");
    }
    if findings.dropped() > 0 {
        say!("warning: {} more findings than could be kept", findings.dropped());
    }
    if let Some(fatal) = findings.fatal() {
        refuse(format_args!("{fatal}"));
    }
}

impl Identity {
    fn new(boot: &Boot, cpu: &IdRegisters) -> Self {
        // SAFETY: the tables of the first identity map lie in the image, which it maps writable, and later ones in
        // early memory, which is mapped before it is used. Only `self` edits: it adds mappings, and takes the guess's.
        let hardware = unsafe { Hardware::new(0) };
        let table = AnyTable::read_current(hardware, AddressHalf::Lower, CAUTIOUS);
        let page_size = default_page_size(cpu);
        let tables = Bump::new(boot.early_tables_left..image::early_tables().end, page_size);
        let table = table.expect("the entry code loaded what `Shape` encoded");
        Self { hardware, table, page_size, tables, away: 0 }
    }

    /// Maps the console and prints there from now on. Where the tree tells of none, or of one that is not there, QEMU's
    /// place is tried, if an emulator is what this runs on or nothing is known at all.
    fn open_console(&mut self, machine: &mut MachineDescription, is_emulated: bool, findings: &mut Findings) {
        let guess = PhysicalRange::from_size(PhysAddr::new(FALLBACK), self.page_size.size_bytes());
        // It has served as one for last words; it may be somebody's memory, or the console may be on the same page.
        if console::set_guess_mapped(false) {
            self.unmap(guess);
        }
        if let Some(console) = machine.console {
            let needs_name = console.compatible == *"arm,pl011";
            if self.try_console(console.registers, needs_name, machine) {
                return;
            }
            machine.console = None;
        }
        let is_blind = machine.banks.is_empty() || is_emulated;
        let is_found = is_blind && self.try_console(guess, true, machine);
        if is_found {
            machine.console = Some(Console { compatible: Text::new("arm,pl011"), registers: guess });
        }
        if findings.fatal().is_none() {
            findings.push(Problem::NoConsole { guess: is_found.then_some(guess.start) });
        }
    }

    /// Prints to this console, if one is there.
    fn try_console(&mut self, registers: PhysicalRange, needs_name: bool, machine: &MachineDescription) -> bool {
        let pages = whole_pages(registers, self.page_size);
        let is_memory = machine.banks.iter().any(|bank| bank.overlaps(&registers));
        if is_memory
            || !self.change(map(
                self.away + pages.start.bits()..self.away + pages.end.bits(),
                pages.start.bits(),
                DEVICE,
            ))
        {
            return false;
        }
        let address = registers.start.bits();
        // SAFETY: just mapped; it is where a UART is said to be, or there is nothing else to try.
        let answer = unsafe { pl011::probe(address) };
        let is_there = if needs_name { answer == Answer::PrimeCell } else { answer != Answer::Nothing };
        match is_there {
            // SAFETY: mapped, and it answers as a PL011 does, as far as it must.
            true => unsafe { console::set(address) },
            false => self.unmap(registers),
        }
        is_there
    }

    fn unmap(&mut self, range: PhysicalRange) {
        let pages = whole_pages(range, self.page_size);
        self.change(Change::Unmap { from: VirtAddr::new(pages.start.bits())..VirtAddr::new(pages.end.bits()) });
    }

    /// Changes the map. Whether that was possible.
    fn change(&mut self, change: Change<El1>) -> bool {
        self.table.change(&[change], None, &mut self.tables).is_ok()
    }

    /// Maps the largest free range that is really there, from which everything early will come.
    fn map_early_memory(&mut self, memory: &mut MemoryMap) -> Option<PhysicalRange> {
        let reach = PhysicalRange::new(PhysAddr::new(0), PhysAddr::new(1 << LOWER_BITS));
        loop {
            let free = memory.free(self.page_size).map(|range| range.intersection(&reach));
            let pool = free.max_by_key(PhysicalRange::size_bytes).filter(|range| !range.is_empty())?;
            if !self.change(map(pool.start.bits()..pool.end.bits(), pool.start.bits(), READ_WRITE)) {
                return None;
            }
            if pages::answers(pool, 0) {
                return Some(pool);
            }
            self.unmap(pool);
            say!("warning: memory: {pool} does not answer, expected RAM as the device tree says; unused");
            // A map that is too full to note it has no early memory either.
            memory.mark(pool, Kind::Lost).ok()?;
        }
    }
}
