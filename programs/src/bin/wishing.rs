//! What a process asks to be: `prctl`, `personality`, users and groups, names of the machine; and where `/proc` tells of it.

use libc::*;
use programs::{Answer, call, child, in_child, tell};
use std::fs;
use std::thread;

fn prctl(what: u64, arguments: [u64; 4]) -> Answer {
    call(SYS_prctl, &[what, arguments[0], arguments[1], arguments[2], arguments[3]])
}

/// What stands behind a name in `/proc/self/status`.
fn status(name: &str) -> String {
    let text = fs::read_to_string("/proc/self/status").expect("status");
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or("nothing").trim().replace('\t', " ")
}

fn tell_file(path: &str) {
    println!("{path}: {:?}", fs::read_to_string(path).map_err(|error| error.kind()));
}

fn set_file(path: &str, text: &str) {
    println!("{path}, {text:?}: {:?}", fs::write(path, text).map_err(|error| error.raw_os_error()));
}

fn main() {
    process();
    names();
    memory_killer();
    users();
    machine();
    first_process();
    killed_in_vfork();
}

fn process() {
    for (what, arguments) in [
        (7, [0; 4]),
        (8, [1, 0, 0, 0]),
        (7, [0; 4]),
        (8, [2, 0, 0, 0]),
        (13, [0; 4]),
        (14, [0; 4]),
        (14, [1, 0, 0, 0]),
        (21, [0; 4]),
        (23, [0; 4]),
        (23, [41, 0, 0, 0]),
        (24, [0; 4]),
        (23, [0; 4]),
        (24, [41, 0, 0, 0]),
        (27, [0; 4]),
        (29, [1234, 0, 0, 0]),
        (30, [0; 4]),
        (29, [0; 4]),
        (30, [0; 4]),
        (33, [1, 0, 0, 0]),
        (34, [0; 4]),
        (33, [0; 4]),
        (34, [0; 4]),
        (33, [1, 3, 0, 0]),
        (34, [0, 1, 0, 0]),
        (38, [0; 4]),
        (38, [1, 1, 0, 0]),
        (39, [0; 4]),
        (38, [1, 0, 0, 0]),
        (39, [0; 4]),
        (39, [0, 1, 0, 0]),
        (41, [1, 0, 0, 0]),
        (42, [0; 4]),
        (41, [0; 4]),
        (41, [1, 1, 0, 0]),
        (42, [1, 0, 0, 0]),
        (47, [1, 0, 0, 0]),
        (47, [3, 0, 0, 0]),
        (47, [4, 0, 0, 0]),
        (47, [9, 0, 0, 0]),
        (57, [1, 0, 0, 0]),
        (58, [0; 4]),
        (57, [2, 0, 0, 0]),
        (40, [8, 0, 0, 0]),
        (9999, [0; 4]),
    ] {
        tell(&format!("prctl {what} {arguments:?}"), prctl(what, arguments));
    }
    println!(
        "no new privileges: {}, blocks: {}, bound: {}",
        status("NoNewPrivs"),
        status("THP_enabled"),
        status("CapBnd")
    );
    in_child("a child has", || println!("the same: {} {:?}", status("NoNewPrivs"), prctl(58, [0; 4])));
    tell("personality", call(SYS_personality, &[0xffff_ffff]));
    tell("another", call(SYS_personality, &[0x4_0000]));
    tell_file("/proc/self/personality");
    tell("asked", call(SYS_personality, &[0xffff_ffff]));
    tell("back", call(SYS_personality, &[0]));
}

fn names() {
    let set = |name: &std::ffi::CStr| prctl(PR_SET_NAME as u64, [name.as_ptr() as u64, 0, 0, 0]);
    tell("named", set(c"the first"));
    tell_file("/proc/self/comm");
    let other = thread::spawn(move || {
        tell_file("/proc/thread-self/comm");
        tell("named", set(c"another-with-a-long-name"));
        tell_file("/proc/thread-self/comm");
        tell_file("/proc/self/comm");
        println!("{}", fs::read_to_string("/proc/thread-self/status").expect("status").lines().next().unwrap_or(""));
        println!("threads: {}", fs::read_dir("/proc/self/task").expect("threads").count());
    });
    other.join().expect("it ends");
    set_file("/proc/self/comm", "by hand, and at length");
    tell_file("/proc/self/comm");
    println!("a link: {}", fs::read_link("/proc/self/root").expect("a link").display());
    tell_file("/proc/self/task/1/comm");
    let text = fs::read_to_string("/proc/self/fdinfo/1").expect("of a file");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(':').next()).collect();
    println!("of a file: {names:?}");
    let stat = fs::read_to_string("/proc/self/stat").expect("stat");
    let fields: Vec<u64> =
        stat.rsplit(')').next().unwrap_or("").split(' ').skip(2).filter_map(|one| one.parse().ok()).collect();
    let stack_address = &raw const fields as u64;
    // Behind state and parent, which is why they are counted from 4 on, but for the one that is negative.
    let field = |number: usize| fields[number - 5];
    println!("the stack begins above: {}", field(28) > stack_address && field(28) - stack_address < 1 << 20);
    let function = main as *const () as u64;
    println!("the code is there: {}", (field(26)..field(27)).contains(&function));
    println!("arguments and environment side by side: {}", field(49) == field(50) && field(48) < field(49));
    println!("they lie above the stack: {}", field(48) > field(28) && field(51) > field(50));
}

fn memory_killer() {
    let path = "/proc/self/oom_score_adj";
    tell_file(path);
    for text in ["-1000", "1001", "-1001", "x", "17\n"] {
        set_file(path, text);
        tell_file(path);
    }
    in_child("a child has", || tell_file(path));
    set_file("/proc/self/oom_adj", "15");
    tell_file(path);
    tell_file("/proc/self/oom_adj");
    set_file(path, "0");
    for text in ["1", "4", "5", "0", "9"] {
        set_file("/proc/self/clear_refs", text);
    }
    set_file("/proc/sys/vm/drop_caches", "3");
    set_file("/proc/sys/vm/overcommit_ratio", "60");
    tell_file("/proc/sys/vm/overcommit_ratio");
    set_file("/proc/sys/vm/overcommit_ratio", "50");
    set_file("/proc/sys/vm/overcommit_memory", "3");
    tell_file("/proc/sys/kernel/tainted");
    tell_file("/proc/swaps");
    tell_file("/proc/self/timerslack_ns");
}

fn ids() -> String {
    let three = |number| {
        let mut ids = [9u32; 3];
        let places = [0, 1, 2].map(|at| &raw mut ids[at] as u64);
        call(number, &places).expect("three");
        ids
    };
    format!("{:?} {:?}; {}; {}", three(SYS_getresuid), three(SYS_getresgid), status("Uid"), status("Gid"))
}

fn users() {
    const KEEP: u64 = u32::MAX as u64;
    println!("as root: {}", ids());
    in_child("for a while", || {
        tell("effective", call(SYS_setresuid, &[KEEP, 1000, KEEP]));
        println!("{}", ids());
        tell("somebody else", call(SYS_setuid, &[7]));
        tell("a group", call(SYS_setgid, &[7]));
        tell("groups", call(SYS_setgroups, &[0, 0]));
        tell("root again", call(SYS_setuid, &[0]));
        println!("{}", ids());
    });
    in_child("for good", || {
        let groups = [30u32, 10, 20];
        tell("groups", call(SYS_setgroups, &[3, groups.as_ptr() as u64]));
        tell("how many", call(SYS_getgroups, &[0, 0]));
        let mut found = [0u32; 3];
        tell("too little room", call(SYS_getgroups, &[2, found.as_mut_ptr() as u64]));
        tell("which", call(SYS_getgroups, &[3, found.as_mut_ptr() as u64]));
        println!("{found:?}, {}", status("Groups"));
        tell("a group", call(SYS_setresgid, &[1, 2, 3]));
        tell("two groups", call(SYS_setregid, &[KEEP, 4]));
        println!("{}", ids());
        tell("a user", call(SYS_setuid, &[1000]));
        println!("{}, real {:?}", ids(), call(SYS_getuid, &[]));
        tell("root again", call(SYS_setuid, &[0]));
        tell("two", call(SYS_setreuid, &[0, KEEP]));
        of_the_machine();
        tell("a signal to another", call(SYS_kill, &[call(SYS_getppid, &[]).expect("a parent"), 0]));
        tell("a signal to itself", call(SYS_kill, &[call(SYS_getpid, &[]).expect("a number"), 0]));
    });
    in_child("to be ended first", || {
        // Opened as root: what is whose below `/proc` changes with the user.
        let path = c"/proc/self/oom_score_adj".as_ptr() as u64;
        let file = call(SYS_openat, &[AT_FDCWD as u64, path, O_WRONLY as u64, 0]).expect("it opens");
        let set = |text: &std::ffi::CStr| {
            let written = call(SYS_pwrite64, &[file, text.as_ptr() as u64, text.count_bytes() as u64, 0]);
            tell(&format!("to be ended first, {text:?}"), written);
        };
        set(c"50");
        tell("a user", call(SYS_setuid, &[1000]));
        [c"100", c"60", c"50", c"49", c"-1000", c"2000"].into_iter().for_each(set);
    });
    in_child("two", || {
        tell("both", call(SYS_setreuid, &[5, 6]));
        println!("{}", ids());
        tell("the other way round", call(SYS_setreuid, &[6, 5]));
        println!("{}", ids());
        tell("of files", call(SYS_setfsuid, &[6]));
        tell("of files, of another", call(SYS_setfsuid, &[77]));
        tell("of files, asked", call(SYS_setfsuid, &[KEEP]));
    });
    tell("nobody", call(SYS_setuid, &[KEEP]));
}

/// What root alone may.
fn of_the_machine() {
    let (time, text, parent) = ([1u64 << 31, 0], c"x".as_ptr() as u64, call(SYS_getppid, &[]).expect("a parent"));
    let (at, number) = (time.as_ptr() as u64, [7u32]);
    tell("a host's name", call(SYS_sethostname, &[text, 1]));
    tell("a host's name, too long", call(SYS_sethostname, &[text, 65]));
    tell("a domain", call(SYS_setdomainname, &[text, 0]));
    tell("a time", call(SYS_clock_settime, &[0, at]));
    tell("no time", call(SYS_clock_settime, &[0, 8]));
    tell("a module", call(SYS_init_module, &[8, 100, text]));
    tell("a module of a file", call(SYS_finit_module, &[99, text, 0]));
    tell("a module that goes", call(SYS_delete_module, &[8, 0]));
    for what in [2, 3, 8, 10, 11] {
        tell(&format!("syslog {what}"), call(SYS_syslog, &[what, at, 7]));
    }
    tell("a capability less", prctl(24, [0; 4]));
    tell("no capability", prctl(24, [99, 0, 0, 0]));
    tell("secure bits", prctl(28, [16, 0, 0, 0]));
    tell("a device", call(SYS_mknodat, &[AT_FDCWD as u64, c"/tmp/device".as_ptr() as u64, S_IFCHR.into(), 0x103]));
    for (which, nice) in [(0, 5), (0, 4), (0, 5), (0, 19), (9, 0)] {
        tell(&format!("nice {nice}"), call(SYS_setpriority, &[which, 0, nice]));
    }
    tell("another is nice", call(SYS_setpriority, &[0, parent, 7]));
    for class in [1, 2, 5, 0, 3, 0x4000_0000, 0] {
        let priority = [u32::from(class == 1 || class == 2)];
        tell(&format!("class {class}"), call(SYS_sched_setscheduler, &[0, class, priority.as_ptr() as u64]));
    }
    tell("another's class", call(SYS_sched_setscheduler, &[parent, 3, [0u32].as_ptr() as u64]));
    tell("no priority", call(SYS_sched_setparam, &[0, number.as_ptr() as u64]));
    tell("a CPU of another", call(SYS_sched_setaffinity, &[parent, 8, [1u64].as_ptr() as u64]));
    tell("a limit of another", call(SYS_prlimit64, &[parent, 0, 0, [0u64; 2].as_ptr() as u64]));
    tell("a limit that grows", call(SYS_prlimit64, &[0, 14, [1u64; 2].as_ptr() as u64, 0]));
    tell_file("/proc/sys/kernel/hostname");
}

fn machine() {
    tell("too long", call(SYS_sethostname, &[c"x".as_ptr() as u64, 65]));
    tell("negative", call(SYS_sethostname, &[c"x".as_ptr() as u64, u64::MAX]));
    tell("nowhere", call(SYS_sethostname, &[8, 3]));
    tell_file("/proc/sys/kernel/hostname");
    tell("named", call(SYS_sethostname, &[c"vellum".as_ptr() as u64, 6]));
    tell_file("/proc/sys/kernel/hostname");
    tell("as before", call(SYS_sethostname, &[c"(none)".as_ptr() as u64, 6]));
    tell("a domain", call(SYS_setdomainname, &[c"(none)".as_ptr() as u64, 6]));
    for (what, to, bytes) in [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 10),
        (3, 8, u64::MAX),
        (5, 0, 0),
        (8, 0, 9),
        (8, 0, 0),
        (8, 0, 7),
        (10, 0, 0),
        (11, 0, 0),
    ] {
        tell(&format!("syslog {what} {bytes}"), call(SYS_syslog, &[what, to, bytes]));
    }
}

fn first_process() {
    for signal in [SIGUSR1, SIGTERM, SIGKILL] {
        tell("a signal to the first process", call(SYS_kill, &[1, signal as u64]));
    }
    thread::yield_now();
    tell("it is there", call(SYS_kill, &[1, 0]));
}

/// Who waits for a child that has its memory is killed at once.
fn killed_in_vfork() {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    println!(
        "killed in vfork: {}",
        child(|| {
            let own = call(SYS_getpid, &[]).expect("a number");
            let flags = CLONE_VFORK as u64 | SIGCHLD as u64;
            if call(SYS_clone, &[flags, 0, 0, 0, 0]).expect("a child") == 0 {
                call(SYS_kill, &[own, SIGKILL as u64]).expect("a signal");
                // It goes on when the other has ended: nobody else writes.
                let mut byte = 0u8;
                call(SYS_close, &[ends[1] as u64]).expect("it closes");
                call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]).ok();
                programs::machine::exit(0);
            }
            3
        })
    );
}
