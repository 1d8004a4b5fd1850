//! Every system call that the kernel has, by number, name, kind of result and kinds of arguments.
//!
//! Each letter of the last column is the kind of one argument; `values.rs` draws values of it.
//! Results: `m` an area as long as the second argument, `r` as the third, `f` a descriptor, `2` two of them behind the first
//! argument, `p` a process (0 in the child), `x` none that can be repeated, `-` no object.

/// One call.
#[derive(Debug)]
pub struct Row(pub u64, pub &'static str, pub u8, pub &'static str);

macro_rules! rows {
    ($($number:literal $name:ident $result:literal $kinds:literal;)*) => {
        &[$(Row($number, stringify!($name), $result, $kinds)),*]
    };
}

/// Calls by family, by which a run can be restricted.
pub const FAMILIES: [(&str, &[Row]); 9] = [
    ("memory", MEMORY),
    ("paths", PATHS),
    ("files", FILES),
    ("processes", PROCESSES),
    ("identity", IDENTITY),
    ("scheduling", SCHEDULING),
    ("signals", SIGNALS),
    ("time", TIME),
    ("futexes", FUTEXES),
];

const MEMORY: &[Row] = rows! {
    214 brk b'-' "a";
    215 munmap b'-' "al";
    216 mremap b'r' "allna";
    222 mmap b'm' "alrmfo";
    226 mprotect b'-' "alr";
    227 msync b'-' "aln";
    228 mlock b'-' "al";
    229 munlock b'-' "al";
    230 mlockall b'-' "n";
    231 munlockall b'-' "";
    232 mincore b'-' "alb";
    233 madvise b'-' "aln";
    234 remap_file_pages b'-' "alzon";
    279 memfd_create b'f' "pn";
    284 mlock2 b'-' "aln";
    447 memfd_secret b'f' "n";
};

const PATHS: &[Row] = rows! {
    17 getcwd b'-' "bB";
    33 mknodat b'-' "Fpnd";
    34 mkdirat b'-' "Fpn";
    35 unlinkat b'-' "Fpn";
    36 symlinkat b'-' "pFp";
    37 linkat b'-' "FpFpn";
    38 renameat b'-' "FpFp";
    43 statfs b'-' "Pb";
    45 truncate b'-' "po";
    48 faccessat b'-' "FPn";
    49 chdir b'-' "p";
    53 fchmodat b'-' "Fpn";
    54 fchownat b'-' "Fpuun";
    56 openat b'f' "FPhn";
    78 readlinkat b'-' "FPbB";
    79 newfstatat b'-' "FPbn";
    88 utimensat b'-' "Fptn";
    276 renameat2 b'-' "FpFpn";
    291 statx b'-' "FPnnb";
    439 faccessat2 b'-' "FPnn";
};

const FILES: &[Row] = rows! {
    19 eventfd2 b'f' "xn";
    23 dup b'f' "f";
    24 dup3 b'f' "fxn";
    25 fcntl b'-' "fny";
    29 ioctl b'-' "fxb";
    44 fstatfs b'-' "fb";
    46 ftruncate b'-' "fo";
    47 fallocate b'-' "fnoo";
    50 fchdir b'-' "f";
    52 fchmod b'-' "fn";
    55 fchown b'-' "fuu";
    57 close b'-' "f";
    59 pipe2 b'2' "bh";
    61 getdents64 b'-' "fbB";
    62 lseek b'-' "fon";
    63 read b'-' "fbB";
    64 write b'-' "fbB";
    65 readv b'-' "fvc";
    66 writev b'-' "fvc";
    67 pread64 b'-' "fbBo";
    68 pwrite64 b'-' "fbBo";
    71 sendfile b'-' "ffOl";
    72 pselect6 b'-' "nbbbtb";
    73 ppoll b'-' "bctSq";
    75 vmsplice b'-' "fvcn";
    76 splice b'-' "fOfOln";
    77 tee b'-' "ffln";
    80 fstat b'-' "fb";
    81 sync b'-' "";
    82 fsync b'-' "f";
    83 fdatasync b'-' "f";
    213 readahead b'-' "fol";
    223 fadvise64 b'-' "foon";
    436 close_range b'-' "xxn";
};

const PROCESSES: &[Row] = rows! {
    93 exit b'x' "n";
    94 exit_group b'x' "n";
    95 waitid b'-' "nxbnb";
    96 set_tid_address b'-' "w";
    105 init_module b'-' "bBp";
    106 delete_module b'-' "pn";
    167 prctl b'-' "nyyyy";
    220 clone b'p' "naaaa";
    221 execve b'x' "EVV";
    260 wait4 b'-' "xbnb";
    261 prlimit64 b'-' "inbb";
    273 finit_module b'-' "fpz";
    283 membarrier b'-' "nnn";
    293 rseq b'-' "bBnx";
    435 clone3 b'p' "bB";
};

const IDENTITY: &[Row] = rows! {
    90 capget b'-' "bb";
    91 capset b'-' "bb";
    92 personality b'-' "x";
    144 setgid b'-' "u";
    146 setuid b'-' "u";
    147 setresuid b'-' "uuu";
    148 getresuid b'-' "bbb";
    149 setresgid b'-' "uuu";
    150 getresgid b'-' "bbb";
    154 setpgid b'-' "ii";
    155 getpgid b'-' "i";
    156 getsid b'-' "i";
    157 setsid b'-' "";
    158 getgroups b'-' "nb";
    159 setgroups b'-' "nb";
    160 uname b'-' "b";
    165 getrusage b'-' "nb";
    166 umask b'-' "n";
    168 getcpu b'-' "bbb";
    172 getpid b'-' "";
    173 getppid b'-' "";
    174 getuid b'-' "";
    175 geteuid b'-' "";
    176 getgid b'-' "";
    177 getegid b'-' "";
    178 gettid b'-' "";
    179 sysinfo b'-' "b";
    278 getrandom b'-' "bBn";
};

const SCHEDULING: &[Row] = rows! {
    122 sched_setaffinity b'-' "iBb";
    123 sched_getaffinity b'-' "iBb";
    124 sched_yield b'-' "";
};

const SIGNALS: &[Row] = rows! {
    129 kill b'-' "is";
    130 tkill b'-' "is";
    131 tgkill b'-' "iis";
    132 sigaltstack b'-' "bb";
    133 rt_sigsuspend b'-' "Sq";
    134 rt_sigaction b'-' "sAbq";
    135 rt_sigprocmask b'-' "nSbq";
    136 rt_sigpending b'-' "bq";
    137 rt_sigtimedwait b'-' "Sbtq";
    138 rt_sigqueueinfo b'-' "isb";
    139 rt_sigreturn b'x' "";
    240 rt_tgsigqueueinfo b'-' "iisb";
};

const TIME: &[Row] = rows! {
    101 nanosleep b'-' "tb";
    102 getitimer b'-' "nb";
    103 setitimer b'-' "ntb";
    107 timer_create b'-' "kbb";
    108 timer_gettime b'-' "nb";
    109 timer_getoverrun b'-' "n";
    110 timer_settime b'-' "nntb";
    111 timer_delete b'-' "n";
    113 clock_gettime b'-' "kb";
    114 clock_getres b'-' "kb";
    115 clock_nanosleep b'-' "kntb";
    153 times b'-' "b";
    169 gettimeofday b'-' "bb";
};

const FUTEXES: &[Row] = rows! {
    98 futex b'-' "wnntwn";
    99 set_robust_list b'-' "bB";
    100 get_robust_list b'-' "ibb";
    449 futex_waitv b'-' "bcntk";
};

/// Calls that change one object beside each other; a race takes one of these, or calls at random.
pub const TOGETHER: [[&str; 3]; 14] = [
    ["finit_module", "ftruncate", "ftruncate"],
    ["pwrite64", "fcntl", "ftruncate"],
    ["mmap", "fcntl", "munmap"],
    ["renameat", "renameat2", "unlinkat"],
    ["mkdirat", "unlinkat", "renameat"],
    ["futex", "futex", "futex"],
    ["mremap", "madvise", "mprotect"],
    ["mmap", "mremap", "munmap"],
    ["mlock", "munlock", "munmap"],
    ["close", "dup3", "read"],
    ["timer_settime", "timer_delete", "timer_create"],
    ["splice", "vmsplice", "read"],
    ["fallocate", "sendfile", "ftruncate"],
    ["rt_sigaction", "kill", "rt_sigprocmask"],
];

/// The call of a name.
pub fn named(name: &str) -> Option<&'static Row> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter()).find(|row| row.1 == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and names of the kernel's own tables: rows as `(215, "munmap", munmap),`.
    fn of_kernel() -> Vec<(u64, String)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../bare/kernel/src/process/calls");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).expect("the kernel's calls") {
            let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a source");
            for part in text.split("&[Row]").skip(1) {
                let table = part.split("];").next().unwrap_or_default();
                for row in table.split('(').skip(1) {
                    let mut words = row.split(", ");
                    let number = words.next().and_then(|word| word.trim().parse().ok());
                    let name = words.next().map(|word| word.trim_matches('"').to_owned());
                    found.extend(number.zip(name));
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn has_every_call_of_the_kernel() {
        let mut own: Vec<_> = FAMILIES.iter().flat_map(|(_, rows)| rows.iter()).collect();
        own.sort_by_key(|row| row.0);
        let own: Vec<_> = own.into_iter().map(|row| (row.0, row.1.to_owned())).collect();
        assert!(own.len() > 130, "{} calls", own.len());
        assert_eq!(own, of_kernel());
    }

    /// Rows as `| 215 | munmap | there | 770 |`.
    #[test]
    fn the_page_of_calls_names_the_kernels() {
        let page = include_str!("../../../docs/linux-compat.md");
        let named = page.lines().filter(|line| line.contains("| there |")).map(|line| {
            let mut words = line.split(" | ");
            let number = words.next().and_then(|word| word.trim_start_matches("| ").parse().ok()).expect("a number");
            (number, words.next().expect("a name").to_owned())
        });
        assert_eq!(named.collect::<Vec<_>>(), of_kernel());
    }

    #[test]
    fn has_every_call_of_a_race() {
        let missing: Vec<_> = TOGETHER.as_flattened().iter().filter(|name| named(name).is_none()).collect();
        assert_eq!(missing, Vec::<&&str>::new());
    }
}
