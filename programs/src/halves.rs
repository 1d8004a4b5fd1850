//! Parameters of 32 bits, of which the upper half of the register means nothing: calls about memory as they are, and with rubbish there.

use libc::*;

use crate::bounds::{done, sweep};
use crate::memory::{READ_WRITE, file};
use crate::{call, child, page};

/// What stands in the upper half of a register, beside a parameter of 32 bits.
const RUBBISH: u64 = 0xdead_beef << 32;

/// Makes a call as it is, then with rubbish beside each of its parameters of 32 bits: `ints` names them by their places.
fn with_rubbish(what: &str, number: c_long, ints: &[usize], arguments: &[u64]) {
    let mut bounds = vec![("as it is".to_string(), 0)];
    bounds.extend(ints.iter().map(|place| (format!("beside {place}"), 1 << place)));
    sweep(what, &bounds, |places| {
        let word =
            |(place, word): (usize, &u64)| if places >> place & 1 == 1 { *word as u32 as u64 | RUBBISH } else { *word };
        let passed: Vec<u64> = arguments.iter().enumerate().map(word).collect();
        let answer = call(number, &passed);
        if number == SYS_memfd_create
            && let Ok(opened) = answer
        {
            call(SYS_close, &[opened]).expect("it is open");
        }
        done(answer)
    });
}

/// Tells of calls about memory what comes of rubbish beside their parameters; `base` is memory of four pages, of which the third is zeros.
pub fn tell(base: u64) {
    memory(base);
    for status in [3, RUBBISH | 3] {
        for number in [SYS_exit, SYS_exit_group] {
            println!("an end: {}", child(|| call(number, &[status]).map_or(1, |_| 2)));
        }
    }
}

/// Memory, and words in it.
fn memory(base: u64) {
    let [zero, to] = [2, 3].map(|place| base + place * page());
    let (one, path) = (file(page()) as u64, c"/".as_ptr() as u64);
    with_rubbish("futex", SYS_futex, &[1, 2], &[base, 129, 1, 0, 0, 0]);
    with_rubbish("futex", SYS_futex, &[1, 2, 3, 5], &[base, 132, 1, 0, base, 0]);
    with_rubbish("futex", SYS_futex, &[1, 2], &[base, 128, 7, zero, 0, 0]);
    with_rubbish("get_robust_list", SYS_get_robust_list, &[0], &[0, to, to]);
    with_rubbish("membarrier", SYS_membarrier, &[0, 1], &[0, 0]);
    with_rubbish("futex_waitv", SYS_futex_waitv, &[1, 2, 3, 4], &[base, 0, 0, 0, 0]);
    with_rubbish("mmap", SYS_mmap, &[4], &[0, 4096, READ_WRITE as u64, MAP_PRIVATE as u64, one, 0]);
    with_rubbish("msync", SYS_msync, &[2], &[base, page(), MS_SYNC as u64]);
    with_rubbish("msync", SYS_msync, &[2], &[base, page(), 8]);
    with_rubbish("mlock2", SYS_mlock2, &[2], &[base, page(), 0]);
    with_rubbish("mlock2", SYS_mlock2, &[2], &[base, page(), 2]);
    with_rubbish("mlockall", SYS_mlockall, &[0], &[(MCL_CURRENT | MCL_ONFAULT) as u64]);
    with_rubbish("mlockall", SYS_mlockall, &[0], &[0]);
    with_rubbish("munlockall", SYS_munlockall, &[], &[]);
    with_rubbish("madvise", SYS_madvise, &[2], &[base, page(), MADV_NORMAL as u64]);
    with_rubbish("madvise", SYS_madvise, &[2], &[base, page(), 5]);
    with_rubbish("getrandom", SYS_getrandom, &[2], &[to, 8, GRND_NONBLOCK as u64]);
    with_rubbish("getrandom", SYS_getrandom, &[2], &[to, 8, 8]);
    with_rubbish("memfd_create", SYS_memfd_create, &[1], &[path, MFD_CLOEXEC as u64]);
    with_rubbish("memfd_create", SYS_memfd_create, &[1], &[path, 0x100]);
}
