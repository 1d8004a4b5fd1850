//! Addresses with a tag in their top byte, frames of signals that are none, ID registers, `membarrier`.

use libc::*;
use programs::machine::{execute, handle, skip_instruction};
use programs::memory::{ANONYMOUS, READ_WRITE, pages};
use programs::{Answer, call, child, faults, map, page, peek, poke, tell};

const SET_CONTROL: u64 = 55;
const GET_CONTROL: u64 = 56;

fn tagged(address: u64) -> u64 {
    address | 0xab << 56
}

fn main() {
    let base = pages(8);
    accesses(base);
    for is_on in [0, 1, 0] {
        tell("tags", call(SYS_prctl, &[SET_CONTROL, is_on, 0, 0, 0]));
        calls(base);
        tell("tags are", call(SYS_prctl, &[GET_CONTROL, 0, 0, 0, 0]));
    }
    for wrong in [[SET_CONTROL, 1, 1, 0, 0], [SET_CONTROL, 1 << 62, 0, 0, 0], [GET_CONTROL, 1, 0, 0, 0]] {
        tell("a wrong word", call(SYS_prctl, &wrong));
    }
    frames();
    identity(base);
    barriers();
}

fn accesses(base: u64) {
    poke(tagged(base), 7);
    println!("written by a tag: {} {}", peek(base), peek(tagged(base)));
    faults("a hole", base, || peek(tagged(base + 8 * page())));
    faults("no address", base, || peek(base | 1 << 52));
}

/// Those about memory take tags always, but where they say where something is to be; others if that was asked for.
fn calls(base: u64) {
    let page = page();
    let one = tagged(base + page);
    tell("mprotect", call(SYS_mprotect, &[one, page, READ_WRITE as u64]));
    tell("madvise", call(SYS_madvise, &[one, page, MADV_DONTNEED as u64]));
    tell("mlock", call(SYS_mlock, &[one, page]));
    tell("munlock", call(SYS_munlock, &[one, page]));
    tell("msync", call(SYS_msync, &[one, page, MS_SYNC as u64]));
    let mut there = 0u8;
    tell("mincore", call(SYS_mincore, &[one, page, &raw mut there as u64]));
    tell("mincore, by a tag", call(SYS_mincore, &[base, page, tagged(&raw mut there as u64)]));
    tell("munmap", call(SYS_munmap, &[tagged(base + 2 * page), page]));
    tell("at a tag", map(tagged(base + 2 * page), page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0));
    map(base + 2 * page, page, READ_WRITE, ANONYMOUS | MAP_FIXED, -1, 0).expect("room");
    tell("to a tag", call(SYS_mremap, &[base, page, page, 3, tagged(base + 4 * page)]));
    tell("a path", call(SYS_openat, &[AT_FDCWD as u64, tagged(c"nowhere".as_ptr() as u64), 0]));
    tell("random", call(SYS_getrandom, &[tagged(base), 4, 0]));
    tell("a futex", call(SYS_futex, &[tagged(base + 3 * page), FUTEX_WAIT as u64, 1, 0]));
    tell("words", call(SYS_write, &[1, tagged(base), 0]));
}

extern "C" fn refused(signal: i32, info: &siginfo_t, _: *mut c_void) {
    println!("  told: {signal} code {}", info.si_code);
    programs::machine::exit(3);
}

/// What a frame has that is no program's, by the place of a word among the words of the context.
fn frames() {
    const STATUS: usize = 22 + 1 + 31 + 2;
    const RECORDS: usize = STATUS + 2;
    extern "C" fn spoil(_: i32, info: &siginfo_t, context: *mut c_void) {
        let which = programs::machine::sender(info).1 as usize;
        let (place, value) = [(STATUS, 5), (STATUS, 1 << 4), (STATUS, 1 << 7), (RECORDS, 0x999), (RECORDS, 0)][which];
        programs::machine::word(context as u64 + place as u64 * 8).store(value, std::sync::atomic::Ordering::Relaxed);
    }
    for which in 0..5u64 {
        let end = child(|| {
            handle(SIGUSR1, spoil, 0).expect("a handler");
            handle(SIGSEGV, refused, 0).expect("a handler");
            // `siginfo_t` of `sigqueue`: the value is where a child's status is.
            let info = [0u64, SI_QUEUE as u32 as u64, u64::from(std::process::id()), which];
            call(SYS_rt_sigqueueinfo, &[std::process::id().into(), SIGUSR1 as u64, info.as_ptr() as u64])
                .expect("sent");
            0
        });
        println!("a bad frame, {which}: {end}");
    }
}

/// MRS of ID registers, as far as all machines say the same.
fn identity(base: u64) {
    extern "C" fn no_instruction(_: i32, _: &siginfo_t, context: *mut c_void) {
        println!("  it is none");
        skip_instruction(context);
    }
    handle(SIGILL, no_instruction, 0).expect("a handler");
    let place = base + 6 * page();
    call(SYS_mprotect, &[place, page(), (PROT_READ | PROT_WRITE | PROT_EXEC) as u64]).expect("rights");
    // MRS X0, S3_0_C0_Cm_op2; RET.
    let read = |crm: u64, op2: u64| {
        let words = [0xd538_0000 | crm << 8 | op2 << 5, 0xd65f_03c0];
        words.iter().zip(0..).for_each(|(word, at)| {
            let word = *word as u32;
            programs::machine::word(place + 4 * at).store(word, std::sync::atomic::Ordering::Relaxed);
        });
        call(SYS_mprotect, &[place, page(), PROT_READ as u64]).expect("rights");
        call(SYS_mprotect, &[place, page(), (PROT_READ | PROT_WRITE | PROT_EXEC) as u64]).expect("rights");
        execute(place)
    };
    println!("MPIDR_EL1 {:#x}, levels {:#x}", read(0, 5), read(4, 0) & 0xff);
    println!("atomics {}, debug {:#x}, sizes {:#x}", read(6, 0) >> 20 & 15, read(5, 0), read(7, 0) >> 20);
    read(1, 0);
    let auxiliary = std::fs::read("/proc/self/auxv").expect("auxv");
    let words: Vec<u64> = auxiliary.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let bits = |key: u64| words.chunks(2).find(|pair| pair[0] == key).map_or(0, |pair| pair[1]);
    println!("AT_HWCAP {:#x}, AT_HWCAP2 {}", bits(AT_HWCAP) & 0x0000_0fff & !4, bits(AT_HWCAP2) & 1);
}

fn barriers() {
    let barrier = |command: u64, flags: u64| -> Answer { call(SYS_membarrier, &[command, flags, 0]) };
    tell("barriers", barrier(0, 0).map(|all| all & 0x1ff));
    for command in [1, 2, 4, 8, 16, 8, 32, 64, 32, 128, 256, 128, 3, u64::MAX] {
        tell(&format!("barrier {command:#x}"), barrier(command, 0));
    }
    tell("of one CPU", barrier(128, 1));
    tell("wrong flags", barrier(8, 1));
    tell("flags", barrier(0, 1));
}
