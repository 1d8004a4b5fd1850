//! The functions of QEMU's plugin interface, version 7, and of GLib that are used here: declared by hand, from the interface's
//! documentation, and made safe to call.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::slice;

/// The version of the interface that is spoken here.
pub(crate) const VERSION: c_int = 7;

/// What a callback is given when it is registered: nothing here looks behind it.
pub(crate) type Data = *mut c_void;

/// A block of instructions that is being translated.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Block(*mut c_void);

/// One instruction of it.
#[derive(Clone, Copy)]
pub(crate) struct Instruction(*mut c_void);

/// What is known of an access to memory.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Access(u32);

/// A register that can be read.
#[derive(Clone, Copy)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: QEMU's handles of registers are numbers that it reads in whatever thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

#[repr(C)]
struct Description {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
    is_readonly: bool,
}

#[repr(C)]
struct Array {
    data: *mut c_char,
    length: c_uint,
}

#[repr(C)]
struct ByteArray {
    data: *mut u8,
    length: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: c_uint,
    data: [u64; 2],
}

/// What QEMU says of itself when it loads a plugin.
#[repr(C)]
pub(crate) struct Information {
    target: *const c_char,
    least: c_int,
    current: c_int,
    is_system: bool,
    cpus: c_int,
    most_cpus: c_int,
}

type OnCpu = extern "C" fn(c_uint, Data);
type OnBlock = extern "C" fn(Block, Data);
type OnAccess = extern "C" fn(c_uint, Access, u64, Data);
type OnDiscontinuity = extern "C" fn(c_uint, c_int, u64, u64, Data);
type OnExit = extern "C" fn(Data);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_init_cb(id: u64, call: OnCpu, data: Data);
    fn qemu_plugin_register_vcpu_resume_cb(id: u64, call: OnCpu, data: Data);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: OnBlock, data: Data);
    fn qemu_plugin_register_vcpu_discon_cb(id: u64, kinds: c_int, call: OnDiscontinuity, data: Data);
    fn qemu_plugin_register_atexit_cb(id: u64, call: OnExit, data: Data);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, length: usize) -> usize;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    fn qemu_plugin_register_vcpu_insn_exec_cb(instruction: *mut c_void, call: OnCpu, flags: c_int, data: Data);
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        call: OnAccess,
        flags: c_int,
        kinds: c_int,
        data: Data,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut c_void, call: OnCpu, flags: c_int, data: Data);
    fn qemu_plugin_mem_is_store(access: u32) -> bool;
    fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    fn qemu_plugin_mem_get_value(access: u32) -> Value;
    fn qemu_plugin_get_hwaddr(access: u32, address: u64) -> *mut c_void;
    fn qemu_plugin_hwaddr_is_io(found: *const c_void) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(found: *const c_void) -> u64;
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut ByteArray) -> bool;
    fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut ByteArray, length: usize) -> bool;
    fn qemu_plugin_read_memory_hwaddr(address: u64, to: *mut ByteArray, length: usize) -> c_int;
    fn qemu_plugin_set_pc(address: u64);
    fn qemu_plugin_translate_vaddr(address: u64, physical: *mut u64) -> bool;
    fn g_byte_array_new() -> *mut ByteArray;
    fn g_byte_array_set_size(bytes: *mut ByteArray, length: c_uint) -> *mut ByteArray;
    fn g_array_free(array: *mut Array, frees_data: c_int) -> *mut c_char;
}

/// What a callback may do: nothing, read the CPU's registers, or send it elsewhere.
pub(crate) const NO_REGISTERS: c_int = 0;
pub(crate) const READS_REGISTERS: c_int = 1;
pub(crate) const SETS_PLACE: c_int = 3;
/// Which accesses are looked at.
pub(crate) const STORES: c_int = 2;
pub(crate) const LOADS_AND_STORES: c_int = 3;
/// A discontinuity that is an exception of the CPU's own.
pub(crate) const EXCEPTION: c_int = 2;
const ALL_DISCONTINUITIES: c_int = -1;

/// The callbacks that are not of one instruction.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) made: OnCpu,
    pub(crate) resumed: OnCpu,
    pub(crate) translated: OnBlock,
    pub(crate) diverted: OnDiscontinuity,
    pub(crate) ended: OnExit,
}

/// Asks QEMU for them.
pub(crate) fn register(id: u64, calls: Calls) {
    let none = std::ptr::null_mut();
    // SAFETY: `id` is what QEMU gave; the functions have the types that version 7 expects, and stay.
    unsafe { qemu_plugin_register_vcpu_init_cb(id, calls.made, none) };
    // SAFETY: as above.
    unsafe { qemu_plugin_register_vcpu_resume_cb(id, calls.resumed, none) };
    // SAFETY: as above.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, calls.translated, none) };
    // SAFETY: as above.
    unsafe { qemu_plugin_register_vcpu_discon_cb(id, ALL_DISCONTINUITIES, calls.diverted, none) };
    // SAFETY: as above.
    unsafe { qemu_plugin_register_atexit_cb(id, calls.ended, none) };
}

impl Information {
    /// Whether this is a whole machine of arm64, and its CPUs.
    pub(crate) fn machine(&self) -> Result<usize, String> {
        // SAFETY: QEMU's name of its target is a string that stays.
        let target = unsafe { CStr::from_ptr(self.target) }.to_string_lossy();
        match (self.is_system, target.as_ref(), usize::try_from(self.cpus)) {
            (true, "aarch64", Ok(cpus @ 1..=64)) => Ok(cpus),
            (true, "aarch64", _) => Err(format!("{} CPUs, expected 1 to 64", self.cpus)),
            _ => Err(format!("a QEMU for {target}, expected qemu-system-aarch64")),
        }
    }
}

impl Block {
    pub(crate) fn instructions(self) -> impl Iterator<Item = Instruction> {
        // SAFETY: QEMU's block is there while its callback runs, to which a `Block` is bound.
        let count = unsafe { qemu_plugin_tb_n_insns(self.0) };
        (0..count).map(move |index| {
            // SAFETY: as above; `index` is below their number.
            Instruction(unsafe { qemu_plugin_tb_get_insn(self.0, index) })
        })
    }

    /// `call` comes before each execution.
    pub(crate) fn on_execution(self, call: OnCpu, flags: c_int, data: usize) {
        // SAFETY: the block is there, and `call` has the expected type.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(self.0, call, flags, data as Data) };
    }
}

impl Instruction {
    /// Its 32 bits, unless it has others.
    pub(crate) fn word(self) -> Option<u32> {
        // SAFETY: the instruction is there while its block is.
        if unsafe { qemu_plugin_insn_size(self.0) } != 4 {
            return None;
        }
        let mut word = [0; 4];
        // SAFETY: as above; there is room for four bytes.
        let read = unsafe { qemu_plugin_insn_data(self.0, word.as_mut_ptr().cast(), word.len()) };
        (read == word.len()).then(|| u32::from_le_bytes(word))
    }

    pub(crate) fn address(self) -> u64 {
        // SAFETY: the instruction is there while its block is.
        unsafe { qemu_plugin_insn_vaddr(self.0) }
    }

    /// `call` comes before each execution.
    pub(crate) fn on_execution(self, call: OnCpu, flags: c_int, data: usize) {
        // SAFETY: the instruction is there, and `call` has the expected type.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.0, call, flags, data as Data) };
    }

    /// `call` comes after each access.
    pub(crate) fn on_access(self, call: OnAccess, kinds: c_int, flags: c_int, data: usize) {
        // SAFETY: the instruction is there, and `call` has the expected type.
        unsafe { qemu_plugin_register_vcpu_mem_cb(self.0, call, flags, kinds, data as Data) };
    }
}

impl Access {
    pub(crate) fn is_store(self) -> bool {
        // SAFETY: the number is QEMU's own.
        unsafe { qemu_plugin_mem_is_store(self.0) }
    }

    pub(crate) fn bytes(self) -> u64 {
        // SAFETY: the number is QEMU's own.
        1 << unsafe { qemu_plugin_mem_size_shift(self.0) }
    }

    /// The low 64 bits of what was read or written.
    pub(crate) fn value(self) -> u64 {
        // SAFETY: the number is QEMU's own, and its callback is running.
        unsafe { qemu_plugin_mem_get_value(self.0) }.data[0]
    }

    /// Where memory was accessed; nothing for devices.
    #[inline]
    pub(crate) fn physical(self, address: u64) -> Option<u64> {
        // SAFETY: the number is QEMU's own, and its callback is running.
        let found = unsafe { qemu_plugin_get_hwaddr(self.0, address) };
        // SAFETY: what was found is there while the callback runs.
        if found.is_null() || unsafe { qemu_plugin_hwaddr_is_io(found) } {
            return None;
        }
        // SAFETY: as above.
        Some(unsafe { qemu_plugin_hwaddr_phys_addr(found) })
    }
}

/// The registers of the CPU whose callback runs: name and handle.
pub(crate) fn registers() -> Vec<(String, Handle)> {
    // SAFETY: asked from the callback of a CPU.
    let array = unsafe { qemu_plugin_get_registers() };
    if array.is_null() {
        return Vec::new();
    }
    // SAFETY: QEMU gives an array of its own.
    let Array { data, length } = unsafe { array.read() };
    // SAFETY: an array has as many descriptions as it says.
    let known = unsafe { slice::from_raw_parts(data.cast::<Description>(), length as usize) };
    let found = known.iter().map(|it| {
        // SAFETY: names are strings that stay.
        let name = unsafe { CStr::from_ptr(it.name) };
        (name.to_string_lossy().into_owned(), Handle(it.handle))
    });
    let found = found.collect();
    // SAFETY: the array is ours to free, with its data.
    unsafe { g_array_free(array, 1) };
    found
}

/// Bytes as QEMU wants them; one for each thread.
struct Bytes(*mut ByteArray);

thread_local! {
    static BYTES: Bytes = Bytes(
        // SAFETY: GLib's allocation needs nothing.
        unsafe { g_byte_array_new() },
    );
}

/// What `fill` puts into an array of bytes that is empty at first.
fn filled<T>(fill: impl FnOnce(*mut ByteArray) -> bool, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
    BYTES.with(|Bytes(bytes)| {
        // SAFETY: the array is this thread's own.
        unsafe { g_byte_array_set_size(*bytes, 0) };
        if !fill(*bytes) {
            return None;
        }
        // SAFETY: as above.
        let ByteArray { data, length } = unsafe { bytes.read() };
        if data.is_null() {
            return None;
        }
        // SAFETY: an array has as many bytes as it says.
        Some(read(unsafe { slice::from_raw_parts(data, length as usize) }))
    })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

/// The value of a register, of up to 64 bits.
pub(crate) fn register_value(handle: Handle) -> Option<u64> {
    filled(
        // SAFETY: the handle is QEMU's own; where registers may not be read, it says no.
        |bytes| unsafe { qemu_plugin_read_register(handle.0, bytes) },
        |bytes| bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}

/// Memory by physical address, as the CPU sees it whose callback runs.
pub(crate) fn read_physical(address: u64, to: &mut [u64]) -> bool {
    let length = to.len() * 8;
    // SAFETY: the array takes as many bytes as are asked for.
    let fill = |bytes| unsafe { qemu_plugin_read_memory_hwaddr(address, bytes, length) } == 0;
    let read = |bytes: &[u8]| {
        to.iter_mut().zip(words(bytes)).for_each(|(to, word)| *to = word);
        bytes.len() == length
    };
    filled(fill, read) == Some(true)
}

/// One word by virtual address.
pub(crate) fn read_virtual(address: u64) -> Option<u64> {
    // SAFETY: as above.
    let fill = |bytes| unsafe { qemu_plugin_read_memory_vaddr(address, bytes, 8) };
    filled(fill, |bytes| words(bytes).next()).flatten()
}

/// The CPU goes on at `address`. Does not return where its callback may do that ([`SETS_PLACE`]): nothing of whoever calls may wait
/// to be dropped.
pub(crate) fn go_to(address: u64) {
    // SAFETY: QEMU leaves by a jump to its own frame, over frames in which nothing is dropped.
    unsafe { qemu_plugin_set_pc(address) };
}

/// The physical address behind a virtual one.
pub(crate) fn translate(address: u64) -> Option<u64> {
    let mut physical = 0;
    // SAFETY: `physical` is there while it is written.
    let is_mapped = unsafe { qemu_plugin_translate_vaddr(address, &raw mut physical) };
    is_mapped.then_some(physical)
}

/// The arguments of a plugin.
///
/// # Safety
/// `words` are `count` strings, as QEMU gives them to a plugin that it loads.
pub(crate) unsafe fn arguments(count: c_int, words: *const *const c_char) -> Vec<String> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: there are as many as the caller says.
    let words = unsafe { slice::from_raw_parts(words, count) };
    let word = |word: &*const c_char| {
        // SAFETY: each is a string.
        unsafe { CStr::from_ptr(*word) }.to_string_lossy().into_owned()
    };
    words.iter().map(word).collect()
}
