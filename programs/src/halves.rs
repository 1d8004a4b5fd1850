//! Parameters of 32 bits, of which the upper half of the register means nothing: each call as it is, and with rubbish there.

use libc::*;

use crate::bounds::{done, sweep, write_word};
use crate::machine::exit;
use crate::memory::{READ_WRITE, file};
use crate::{call, child, page, peek};

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
        match answer {
            Ok(0) if number == SYS_clone => exit(0),
            Ok(opened) if [SYS_openat, SYS_memfd_create, SYS_eventfd2, SYS_dup].contains(&number) => {
                call(SYS_close, &[opened]).expect("it is open");
            }
            _ => {}
        }
        done(answer)
    });
}

/// Tells of each call what comes of rubbish beside its parameters; `base` is memory of four pages, of which the third is zeros.
pub fn tell(base: u64) {
    descriptors(base);
    names(base + 2 * page());
    memory(base);
    processes(base + 2 * page());
    times(base + 2 * page());
    for status in [3, RUBBISH | 3] {
        for number in [SYS_exit, SYS_exit_group] {
            println!("an end: {}", child(|| call(number, &[status]).map_or(1, |_| 2)));
        }
    }
}

/// Descriptors: files, and pipes that have nothing.
fn descriptors(base: u64) {
    let [one, other] = [(); 2].map(|()| file(4 * page()) as u64);
    let nowhere = u64::MAX;
    let [[out, into], [_, second]] = [(); 2].map(|()| {
        call(SYS_pipe2, &[base, O_NONBLOCK as u64]).expect("a pipe");
        [0, 4].map(|at| u64::from(peek(base + at)))
    });
    let [at, zero, to] = [1, 2, 3].map(|place| base + place * page());
    [at + 64, 8].iter().zip((at..).step_by(8)).for_each(|(word, at)| write_word(at, *word));
    with_rubbish("eventfd2", SYS_eventfd2, &[0, 1], &[0, O_CLOEXEC as u64]);
    with_rubbish("dup", SYS_dup, &[0], &[one]);
    with_rubbish("dup3", SYS_dup3, &[0, 1, 2], &[one, 90, O_CLOEXEC as u64]);
    with_rubbish("fcntl", SYS_fcntl, &[0, 1], &[one, F_GETFD as u64]);
    with_rubbish("fcntl", SYS_fcntl, &[0, 1], &[one, F_SETFL as u64, 0]);
    with_rubbish("fcntl", SYS_fcntl, &[0, 1], &[one, F_GET_SEALS as u64]);
    with_rubbish("fcntl", SYS_fcntl, &[0, 1], &[into, F_GETPIPE_SZ as u64]);
    with_rubbish("ioctl", SYS_ioctl, &[0, 1], &[into, FIONREAD as _, to]);
    with_rubbish("flock", SYS_flock, &[0, 1], &[one, LOCK_UN as u64]);
    with_rubbish("ftruncate", SYS_ftruncate, &[0], &[one, 8192]);
    with_rubbish("fallocate", SYS_fallocate, &[0, 1], &[one, 0, 0, 4096]);
    with_rubbish("fallocate", SYS_fallocate, &[0, 1], &[one, 3, 0, 4096]);
    with_rubbish("fallocate", SYS_fallocate, &[0, 1], &[into, 0, 0, 4096]);
    with_rubbish("fchmod", SYS_fchmod, &[0, 1], &[one, 0o777]);
    with_rubbish("fchown", SYS_fchown, &[0, 1, 2], &[one, 0, 0]);
    with_rubbish("close", SYS_close, &[0], &[99]);
    with_rubbish("getdents64", SYS_getdents64, &[0, 2], &[one, to, 100]);
    with_rubbish("lseek", SYS_lseek, &[0, 2], &[one, 0, SEEK_END as u64]);
    with_rubbish("lseek", SYS_lseek, &[0, 2], &[one, 0, SEEK_HOLE as u64]);
    with_rubbish("read", SYS_read, &[0], &[other, to, 8]);
    with_rubbish("write", SYS_write, &[0], &[other, zero, 8]);
    with_rubbish("readv", SYS_readv, &[0, 2], &[other, at, 1]);
    with_rubbish("writev", SYS_writev, &[0, 2], &[other, at, 1]);
    with_rubbish("pread64", SYS_pread64, &[0], &[other, to, 8, 0]);
    with_rubbish("pwrite64", SYS_pwrite64, &[0], &[other, zero, 8, 0]);
    with_rubbish("preadv", SYS_preadv, &[0, 2], &[other, at, 1, 0]);
    with_rubbish("pwritev", SYS_pwritev, &[0, 2], &[other, at, 1, 0]);
    with_rubbish("preadv2", SYS_preadv2, &[0, 2, 5], &[other, at, 1, 0, 0, 0]);
    with_rubbish("preadv2", SYS_preadv2, &[0, 2, 5], &[other, at, 1, nowhere, 0, 0x80]);
    with_rubbish("pwritev2", SYS_pwritev2, &[0, 2, 5], &[other, at, 1, 0, 0, 2]);
    with_rubbish("pwritev2", SYS_pwritev2, &[0, 2, 5], &[other, at, 1, nowhere, 0, 0x80]);
    with_rubbish("sendfile", SYS_sendfile, &[0, 1], &[other, one, 0, 0]);
    with_rubbish("splice", SYS_splice, &[0, 2, 5], &[one, 0, into, 0, 1, SPLICE_F_NONBLOCK as u64]);
    with_rubbish("splice", SYS_splice, &[0, 2, 5], &[out, 0, other, 0, 1, SPLICE_F_NONBLOCK as u64]);
    with_rubbish("vmsplice", SYS_vmsplice, &[0, 2, 3], &[into, at, 1, SPLICE_F_NONBLOCK as u64]);
    with_rubbish("vmsplice", SYS_vmsplice, &[0, 2, 3], &[into, at, 1, 0x10]);
    with_rubbish("tee", SYS_tee, &[0, 1, 3], &[out, second, 1, SPLICE_F_NONBLOCK as u64]);
    with_rubbish("tee", SYS_tee, &[0, 1, 3], &[out, second, 1, 0x10]);
    with_rubbish("copy_file_range", SYS_copy_file_range, &[0, 2, 5], &[one, 0, other, 0, 0, 0]);
    with_rubbish("fstat", SYS_fstat, &[0], &[one, to]);
    with_rubbish("fstatfs", SYS_fstatfs, &[0], &[one, to]);
    with_rubbish("fsync", SYS_fsync, &[0], &[one]);
    with_rubbish("sync_file_range", SYS_sync_file_range, &[0, 3], &[one, 0, 0, 2]);
    with_rubbish("readahead", SYS_readahead, &[0], &[one, 0, 8]);
    with_rubbish("fadvise64", SYS_fadvise64, &[0, 3], &[one, 0, 0, POSIX_FADV_WILLNEED as u64]);
    with_rubbish("syncfs", SYS_syncfs, &[0], &[one]);
    with_rubbish("close_range", SYS_close_range, &[0, 1, 2], &[95, 98, 0]);
    with_rubbish("close_range", SYS_close_range, &[0, 1, 2], &[95, 98, 8]);
    with_rubbish("pipe2", SYS_pipe2, &[1], &[zero, 1]);
}

/// Names of files.
fn names(zero: u64) {
    let (here, nowhere, to) = (AT_FDCWD as u64, u64::MAX, zero + page());
    let [path, none] = [c"/", c"/none"].map(|path| path.as_ptr() as u64);
    with_rubbish("mkdirat", SYS_mkdirat, &[0, 2], &[nowhere, none, 0]);
    with_rubbish("unlinkat", SYS_unlinkat, &[0, 2], &[here, none, AT_REMOVEDIR as u64]);
    with_rubbish("symlinkat", SYS_symlinkat, &[1], &[path, nowhere, none]);
    with_rubbish("linkat", SYS_linkat, &[0, 2, 4], &[here, none, here, none, AT_SYMLINK_FOLLOW as u64]);
    with_rubbish("renameat", SYS_renameat, &[0, 2], &[here, none, here, none]);
    with_rubbish("renameat2", SYS_renameat2, &[0, 2, 4], &[here, none, here, none, 2]);
    with_rubbish("renameat2", SYS_renameat2, &[0, 2, 4], &[here, none, here, none, 8]);
    with_rubbish("faccessat", SYS_faccessat, &[0, 2], &[here, path, 7]);
    with_rubbish("faccessat2", SYS_faccessat2, &[0, 2, 3], &[here, path, 7, AT_EACCESS as u64]);
    with_rubbish("fchownat", SYS_fchownat, &[0, 2, 3, 4], &[here, path, nowhere, nowhere, 0]);
    with_rubbish("openat", SYS_openat, &[0, 2, 3], &[here, path, O_CLOEXEC as u64, 0]);
    with_rubbish("openat", SYS_openat, &[0, 2, 3], &[here, none, O_CLOEXEC as u64, 0]);
    with_rubbish("readlinkat", SYS_readlinkat, &[0, 3], &[here, none, to, 8]);
    with_rubbish("newfstatat", SYS_newfstatat, &[0, 3], &[here, path, to, AT_SYMLINK_NOFOLLOW as u64]);
    with_rubbish("statx", SYS_statx, &[0, 2, 3], &[here, path, 0, 0x7ff, to]);
    with_rubbish("finit_module", SYS_finit_module, &[0, 2], &[99, path, 0]);
    with_rubbish("delete_module", SYS_delete_module, &[1], &[none, 0]);
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

/// Processes, users and what they may have.
fn processes(zero: u64) {
    let (own, nowhere, to) = (u64::from(std::process::id()), u64::MAX, zero + page());
    with_rubbish("utimensat", SYS_utimensat, &[0, 3], &[nowhere, 0, 0, 0]);
    with_rubbish("waitid", SYS_waitid, &[0, 1, 3], &[P_PID as u64, own, to, (WEXITED | WNOHANG) as u64, 0]);
    with_rubbish("wait4", SYS_wait4, &[0, 2], &[nowhere, 0, WNOHANG as u64, 0]);
    with_rubbish("wait4", SYS_wait4, &[0, 2], &[nowhere, 0, 0x10, 0]);
    with_rubbish("clone", SYS_clone, &[0], &[SIGCHLD as u64, 0, 0, 0, 0]);
    with_rubbish("kill", SYS_kill, &[0, 1], &[own, 0]);
    with_rubbish("kill", SYS_kill, &[0, 1], &[own, 65]);
    with_rubbish("tkill", SYS_tkill, &[0, 1], &[own, 0]);
    with_rubbish("tgkill", SYS_tgkill, &[0, 1, 2], &[own, own, 0]);
    with_rubbish("rt_sigaction", SYS_rt_sigaction, &[0], &[SIGUSR1 as u64, 0, 0, 8]);
    with_rubbish("rt_sigaction", SYS_rt_sigaction, &[0], &[SIGKILL as u64, 0, 0, 8]);
    with_rubbish("rt_sigprocmask", SYS_rt_sigprocmask, &[0], &[SIG_BLOCK as u64, zero, 0, 8]);
    with_rubbish("rt_sigprocmask", SYS_rt_sigprocmask, &[0], &[3, zero, 0, 8]);
    with_rubbish("rt_sigqueueinfo", SYS_rt_sigqueueinfo, &[0, 1], &[own, 0, zero]);
    with_rubbish("rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, &[0, 1, 2], &[own, own, 0, zero]);
    with_rubbish("setregid", SYS_setregid, &[0, 1], &[nowhere, nowhere]);
    with_rubbish("setgid", SYS_setgid, &[0], &[0]);
    with_rubbish("setreuid", SYS_setreuid, &[0, 1], &[nowhere, nowhere]);
    with_rubbish("setuid", SYS_setuid, &[0], &[0]);
    with_rubbish("setresuid", SYS_setresuid, &[0, 1, 2], &[nowhere, nowhere, nowhere]);
    with_rubbish("setresgid", SYS_setresgid, &[0, 1, 2], &[nowhere, nowhere, nowhere]);
    with_rubbish("setfsuid", SYS_setfsuid, &[0], &[0]);
    with_rubbish("setfsgid", SYS_setfsgid, &[0], &[0]);
    with_rubbish("setpgid", SYS_setpgid, &[0, 1], &[0, 0]);
    with_rubbish("getpgid", SYS_getpgid, &[0], &[own]);
    with_rubbish("getsid", SYS_getsid, &[0], &[own]);
    with_rubbish("getgroups", SYS_getgroups, &[0], &[0, 0]);
    with_rubbish("setgroups", SYS_setgroups, &[0], &[0, 0]);
    with_rubbish("sethostname", SYS_sethostname, &[1], &[zero, 65]);
    with_rubbish("setdomainname", SYS_setdomainname, &[1], &[zero, 65]);
    with_rubbish("getrlimit", SYS_getrlimit, &[0], &[RLIMIT_NOFILE as u64, to]);
    with_rubbish("setrlimit", SYS_setrlimit, &[0], &[16, zero]);
    with_rubbish("prlimit64", SYS_prlimit64, &[0, 1], &[own, RLIMIT_NOFILE as u64, 0, to]);
    with_rubbish("getrusage", SYS_getrusage, &[0], &[RUSAGE_THREAD as u64, to]);
    with_rubbish("umask", SYS_umask, &[0], &[0o22]);
    with_rubbish("prctl", SYS_prctl, &[0], &[PR_GET_DUMPABLE as u64, 0, 0, 0, 0]);
    with_rubbish("prctl", SYS_prctl, &[0], &[PR_GET_NAME as u64, to, 0, 0, 0]);
    with_rubbish("personality", SYS_personality, &[0], &[0xffff_ffff]);
    with_rubbish("syslog", SYS_syslog, &[0, 2], &[10, 0, 0]);
}

/// Clocks, timers, and when a thread runs.
fn times(zero: u64) {
    let to = zero + page();
    with_rubbish("pselect6", SYS_pselect6, &[0], &[1, 0, 0, 0, zero, 0]);
    with_rubbish("ppoll", SYS_ppoll, &[1], &[zero, 1, zero, 0, 8]);
    with_rubbish("getitimer", SYS_getitimer, &[0], &[0, to]);
    with_rubbish("setitimer", SYS_setitimer, &[0], &[0, zero, 0]);
    with_rubbish("setitimer", SYS_setitimer, &[0], &[3, zero, 0]);
    with_rubbish("timer_gettime", SYS_timer_gettime, &[0], &[77, to]);
    with_rubbish("timer_getoverrun", SYS_timer_getoverrun, &[0], &[77]);
    with_rubbish("timer_settime", SYS_timer_settime, &[0, 1], &[77, 0, zero, 0]);
    with_rubbish("timer_delete", SYS_timer_delete, &[0], &[77]);
    with_rubbish("clock_gettime", SYS_clock_gettime, &[0], &[1, to]);
    with_rubbish("clock_getres", SYS_clock_getres, &[0], &[1, to]);
    with_rubbish("clock_settime", SYS_clock_settime, &[0], &[1, zero]);
    with_rubbish("clock_nanosleep", SYS_clock_nanosleep, &[0, 1], &[1, 0, zero, 0]);
    with_rubbish("clock_nanosleep", SYS_clock_nanosleep, &[0, 1], &[1, 1, zero, 0]);
    with_rubbish("clock_nanosleep", SYS_clock_nanosleep, &[0, 1], &[10, 1, zero, 0]);
    with_rubbish("sched_setscheduler", SYS_sched_setscheduler, &[0, 1], &[0, 0, zero]);
    with_rubbish("sched_getscheduler", SYS_sched_getscheduler, &[0], &[0]);
    with_rubbish("sched_getparam", SYS_sched_getparam, &[0], &[0, to]);
    with_rubbish("sched_setparam", SYS_sched_setparam, &[0], &[0, zero]);
    with_rubbish("sched_setaffinity", SYS_sched_setaffinity, &[0, 1], &[0, 0, zero]);
    with_rubbish("sched_getaffinity", SYS_sched_getaffinity, &[0, 1], &[0, 8, to]);
    with_rubbish("sched_get_priority_max", SYS_sched_get_priority_max, &[0], &[1]);
    with_rubbish("sched_get_priority_min", SYS_sched_get_priority_min, &[0], &[1]);
    with_rubbish("sched_rr_get_interval", SYS_sched_rr_get_interval, &[0], &[0, to]);
    with_rubbish("setpriority", SYS_setpriority, &[0, 1, 2], &[0, 0, 0]);
    with_rubbish("getpriority", SYS_getpriority, &[0, 1], &[0, 0]);
}
