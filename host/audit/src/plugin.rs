//! What QEMU calls: it loads the plugin, translates, executes, stores, and ends. A panic of ours ends the audit, and never the
//! guest.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use machine::event::Level;
use machine::registers::Register;
use machine::syndrome::AccessKind;
use machine::trace::{REGISTERS, set_features};

use crate::auditor::{Auditor, Guest};
use crate::cpu::{Cpu, level};
use crate::frames::Frames;
use crate::halt;
use crate::instruction::{self, Store, System};
use crate::interface::{self, Access, Block, Calls, Data, Handle, Information};
use crate::options::Options;
use crate::registers;
use crate::report;
use crate::state::{DOUBTFUL, INSTRUCTIONS, PLACE, Plugin, Report, Shown, Site, State, is_owing};

/// The version of the interface that this plugin wants: QEMU looks for it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that QEMU looks for")]
pub(crate) static qemu_plugin_version: c_int = interface::VERSION;

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Runs a callback; what panics in it ends the audit.
fn guarded(call: impl FnOnce(&'static Plugin)) {
    let Some(plugin) = PLUGIN.get().filter(|it| !it.is_over.load(Ordering::Relaxed)) else { return };
    if catch_unwind(AssertUnwindSafe(|| call(plugin))).is_err() {
        plugin.is_over.store(true, Ordering::Relaxed);
    }
}

fn with_state(call: impl FnOnce(&'static Plugin, &mut State)) {
    guarded(|plugin| {
        let mut state = plugin.state.lock().unwrap_or_else(PoisonError::into_inner);
        call(plugin, &mut state);
    });
}

/// QEMU loads the plugin.
///
/// # Safety
/// QEMU calls it, with a block of information and as many arguments as it says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    information: *const std::ffi::c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's information is there during this call.
    let information = unsafe { &*information.cast::<Information>() };
    // SAFETY: the arguments are QEMU's own.
    let words = unsafe { interface::arguments(count, words) };
    match information.machine().and_then(|cpus| Ok((cpus, Options::read(&words)?))) {
        Ok((cpus, options)) => {
            install(id, cpus, options);
            0
        }
        Err(line) => {
            eprintln!("vellum audit: {line}");
            1
        }
    }
}

fn install(id: u64, cpus: usize, options: Options) {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("a panic").replace('\n', " ");
        let place = panic.location().map(|it| format!("{}:{}", it.file(), it.line())).unwrap_or_default();
        eprintln!(
            "vellum audit: an error of its own at {place}: {what}; the guest goes on, and is not judged any more"
        );
    }));
    let mut options = options;
    if options.stops {
        halt::ask();
    }
    let report = Mutex::new(Report { to: options.report.take(), owed: Vec::new() });
    let cpus = (0..cpus).map(|_| None).collect();
    let state =
        State { options, cpus, sites: Vec::new(), numbers: HashMap::new(), pages: HashMap::new(), auditor: None };
    let plugin =
        Plugin { frames: Frames::default(), is_over: AtomicBool::new(false), report, state: Mutex::new(state) };
    if PLUGIN.set(plugin).is_err() {
        eprintln!("vellum audit: loaded twice; the second one judges nothing");
        return;
    }
    interface::register(id, Calls { made, resumed, translated, diverted, ended });
}

/// A CPU is there.
extern "C" fn made(cpu: c_uint, _: Data) {
    with_state(|_, state| {
        let registers = interface::registers();
        let find = |name: &str| registers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|it| it.1);
        find("pc").map(|it| PLACE.get_or_init(|| it));
        let values = registers::NAMES.map(|name| find(name).and_then(interface::register_value).unwrap_or(0));
        let system: Vec<(Register, Handle)> =
            REGISTERS.iter().filter_map(|(name, it)| Some((*it, find(name)?))).collect();
        let mut features = registers::features(values, find("HCR_EL2").is_some());
        // Each was looked at when the plugin was loaded. What is said of one CPU counts more than what is said of all.
        for which in [None, Some(cpu)] {
            let fields = state.options.cpu.iter().filter(|it| it.0 == which);
            fields.for_each(|(_, field)| drop(set_features(&mut features, field)));
        }
        let known = Cpu {
            general: (0..31).map(|number| find(&format!("x{number}"))).collect(),
            state: find("cpsr"),
            system,
            saved: [find("SPSR_EL1"), find("SPSR_EL2")],
            features,
        };
        if let Some(place) = state.cpus.get_mut(cpu as usize) {
            *place = Some(known);
        }
    });
}

/// A CPU goes on after it slept: it may have been off.
extern "C" fn resumed(cpu: c_uint, _: Data) {
    DOUBTFUL.fetch_or(1 << (cpu % 64), Ordering::Relaxed);
    halt::resumed(cpu);
}

extern "C" fn translated(block: Block, _: Data) {
    with_state(|_, state| {
        let (mut count, mut first) = (0, 0);
        for instruction in block.instructions() {
            count += 1;
            let (word, place) = (instruction.word(), instruction.address());
            if count == 1 {
                first = place;
            }
            if let Some(word) = word.filter(|word| instruction::system(*word).is_some()) {
                let site = Site { place, word };
                let next = state.sites.len();
                let number = *state.numbers.entry(site).or_insert(next);
                if number == next {
                    state.sites.push(site);
                }
                instruction.on_execution(executed, interface::READS_REGISTERS, number);
            }
            if let Some(number) = state.options.frees.iter().position(|it| (it.place ^ place) & 0xfff == 0) {
                instruction.on_execution(freed, interface::READS_REGISTERS, number);
            }
            let how = word.map(instruction::store).unwrap_or_default();
            if how.is_release {
                instruction.on_execution(releasing, interface::NO_REGISTERS, place as usize);
            }
            // What a store-exclusive compares with is no load of the guest's.
            let is_exclusive = how.is_compared && !how.is_exchange;
            let kinds = if is_exclusive { interface::STORES } else { interface::LOADS_AND_STORES };
            // An address of an instruction is a multiple of 4: how it stores, or loads, fits in.
            let is_ordered = how.is_release || word.is_some_and(instruction::acquires);
            let data =
                place as usize & !3 | usize::from(is_ordered) << 1 | usize::from(how.is_compared || how.is_exchange);
            instruction.on_access(accessed, kinds, interface::NO_REGISTERS, data);
        }
        block.on_execution(begun, halt::flags(), packed(first, count));
    });
}

/// The guest has come to a halt: from now on a debugger finds it so.
fn tell_held() {
    guarded(|plugin| Shown { plugin, frame: None, may_read: false }.tell(&report::held()));
}

/// Bits of an address of instructions: 52, and the one that says which half. The two lowest are zero.
const ADDRESS_BITS: u32 = 53;
/// Bits beside it for how many instructions a block has: QEMU makes them of 512 at most.
const COUNT_BITS: u32 = 64 - ADDRESS_BITS + 2;

fn packed(address: u64, count: usize) -> usize {
    (address >> 2 << COUNT_BITS) as usize | count
}

/// A block of instructions is executed: where it was when it was translated, and how many.
extern "C" fn begun(cpu: c_uint, data: Data) {
    if is_owing(cpu) {
        with_state(|plugin, state| {
            let chain = state.shown(plugin, cpu as usize).chain();
            plugin.report.lock().unwrap_or_else(PoisonError::into_inner).pay(&chain);
        });
    }
    halt::wait(cpu, PLACE.get().copied(), tell_held);
    INSTRUCTIONS.fetch_add(data as u64 % (1 << COUNT_BITS), Ordering::Relaxed);
    // The sign of the address comes back with it.
    let address = (data as i64 >> COUNT_BITS << 2) as u64;
    if PLUGIN.get().is_some_and(|it| it.frames.fresh.has(cpu as u8, address)) {
        used(cpu, address, address, AccessKind::Fetch);
    }
}

extern "C" fn accessed(cpu: c_uint, access: Access, address: u64, data: Data) {
    let Some(plugin) = PLUGIN.get() else { return };
    let data = data as u64;
    let is_exchange = data & 1 != 0;
    if plugin.frames.fresh.has(cpu as u8, address) {
        used(cpu, address, data & !3, if access.is_store() { AccessKind::Write } else { AccessKind::Read });
    }
    let is_acquire = data & 2 != 0 && !access.is_store();
    if (is_exchange || is_acquire) && plugin.frames.locks.may_take(cpu as u8) {
        passed_on(cpu, data & !3, Auditor::lock);
    }
    if !access.is_store() && !is_exchange {
        return;
    }
    let Some(physical) = access.physical(address) else { return };
    if !access.is_store() {
        if plugin.frames.is_table(physical) {
            with_state(|plugin, state| {
                let guest = Shown { plugin, frame: None, may_read: true };
                let (value, place) = (access.value(), state.place(data & !3));
                if let Some(auditor) = &mut state.auditor
                    && access.bytes() == 8
                {
                    auditor.saw(&guest, cpu as u8, place, physical, value);
                }
            });
        }
        return;
    }
    if plugin.frames.store(cpu as u8, physical) {
        with_state(|plugin, state| {
            let guest = Shown { plugin, frame: None, may_read: true };
            let how = Store { is_release: data & 2 != 0, is_exchange, is_compared: is_exchange };
            let place = state.place(data & !3);
            if let Some(auditor) = &mut state.auditor {
                auditor.store(&guest, cpu as u8, place, how, physical, access.bytes());
            }
        });
    }
}

/// A CPU is about to execute a store-release. Behind its store, another CPU may have read that already, and be told of first.
extern "C" fn releasing(cpu: c_uint, data: Data) {
    if PLUGIN.get().is_some_and(|it| it.frames.locks.may_give(cpu as u8)) {
        passed_on(cpu, data as u64, Auditor::unlock);
    }
}

/// A lock is taken, or given away.
#[cold]
fn passed_on(cpu: c_uint, place: u64, tell: fn(&mut Auditor<'static>, &dyn Guest, u8, u64)) {
    with_state(|plugin, state| {
        let guest = Shown { plugin, frame: None, may_read: true };
        let place = state.place(place);
        if let Some(auditor) = &mut state.auditor {
            tell(auditor, &guest, cpu as u8, place);
        }
    });
}

/// A CPU uses an address that walks may not find yet.
#[cold]
fn used(cpu: c_uint, address: u64, place: u64, kind: AccessKind) {
    with_state(|plugin, state| {
        let guest = Shown { plugin, frame: None, may_read: true };
        let place = state.place(place);
        if let Some(auditor) = &mut state.auditor {
            auditor.access(&guest, cpu as u8, place, address, kind);
        }
    });
}

extern "C" fn executed(cpu: c_uint, data: Data) {
    with_state(|plugin, state| {
        let Some(Site { place, word }) = state.sites.get(data as usize).copied() else { return };
        let Some(system) = instruction::system(word) else { return };
        let place = state.find_place(place);
        let Some(guest) = state.look(plugin, cpu as usize) else { return };
        let (Some(Some(known)), Some(auditor)) = (state.cpus.get(cpu as usize), &mut state.auditor) else { return };
        match system {
            System::Write(_, xt) | System::Tlbi(_, xt) => {
                auditor.system(&guest, cpu as u8, place, system, known.general(xt));
            }
            System::Barrier(_) => auditor.system(&guest, cpu as u8, place, system, 0),
            System::Call => auditor.system(&guest, cpu as u8, place, system, known.general(0)),
            System::Return => {
                let from = known.level();
                let saved = known.saved[usize::from(from == Level::El2)].and_then(interface::register_value);
                if let Some(level) = saved.map(level) {
                    auditor.enter(&guest, cpu as u8, place, level, false);
                }
            }
            System::ZeroBlock(xt) => {
                // The largest there is: words that do not change count for nothing.
                const BLOCK: u64 = 2048;
                let start = known.general(xt) & !(BLOCK - 1);
                if let Some(physical) = interface::translate(start)
                    && plugin.frames.store(cpu as u8, physical)
                {
                    auditor.zero(&guest, cpu as u8, place, physical, BLOCK);
                }
            }
        }
    });
}

/// A function begins that may free memory: it does if it is at its own address, and not at another page's.
extern "C" fn freed(cpu: c_uint, data: Data) {
    with_state(|plugin, state| {
        let Some(offset) = state.options.frees.get(data as usize).map(|it| it.place & 0xfff) else { return };
        let place = state.find_place(offset);
        let Some(free) = state.options.frees.iter().find(|it| it.place == place).copied() else { return };
        let Some(guest) = state.look(plugin, cpu as usize) else { return };
        let (Some(Some(known)), Some(auditor)) = (state.cpus.get(cpu as usize), &mut state.auditor) else { return };
        if let Some((address, bytes)) = free.range(auditor.page_bytes(cpu as u8), |number| known.general(number)) {
            auditor.free(&guest, cpu as u8, place, address, bytes);
        }
    });
}

extern "C" fn diverted(cpu: c_uint, kind: c_int, from: u64, _to: u64, _: Data) {
    with_state(|plugin, state| {
        let Some(guest) = state.look(plugin, cpu as usize) else { return };
        let (Some(Some(known)), Some(auditor)) = (state.cpus.get(cpu as usize), &mut state.auditor) else { return };
        auditor.enter(&guest, cpu as u8, from, known.level(), kind == interface::EXCEPTION);
    });
}

extern "C" fn ended(_: Data) {
    with_state(|plugin, state| {
        let guest = Shown { plugin, frame: None, may_read: false };
        if let Some(auditor) = &mut state.auditor {
            auditor.end(&guest);
        }
        plugin.is_over.store(true, Ordering::Relaxed);
    });
}
