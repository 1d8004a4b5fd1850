//! Files, pipes and descriptors: what is refused, and how.

use libc::*;
use programs::memory::READ_WRITE;
use programs::{Answer, call, child, map, page, peek, tell, tell_at};
use std::ffi::CStr;

// Of one type with every C library.
const FIONREAD: u64 = 0x541b;
const TCGETS: u64 = 0x5401;

fn open(path: &CStr, flags: i32) -> Answer {
    call(SYS_openat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644])
}

fn write(number: u64, bytes: &[u8]) -> Answer {
    call(SYS_write, &[number, bytes.as_ptr() as u64, bytes.len() as u64])
}

fn read(number: u64, bytes: &mut [u8]) -> Answer {
    call(SYS_read, &[number, bytes.as_mut_ptr() as u64, bytes.len() as u64])
}

fn seek(number: u64, offset: i64, from: i32) -> Answer {
    call(SYS_lseek, &[number, offset as u64, from as u64])
}

fn main() {
    opening();
    content();
    names();
    emptied();
    pipes();
    polls();
    descriptors();
    bad_addresses();
    memory_files();
}

fn opening() {
    tell("nothing there", open(c"nowhere", O_RDONLY));
    tell("no name", open(c"", O_RDONLY));
    tell("no folder", open(c"nowhere/file", O_CREAT | O_RDWR));
    tell("made", open(c"f", O_CREAT | O_EXCL | O_RDWR));
    tell("made again", open(c"f", O_CREAT | O_EXCL | O_RDWR));
    tell("a file as a folder", open(c"f/g", O_RDONLY));
    tell("a file with a slash", open(c"f/", O_RDONLY));
    tell("no folder is meant", open(c"f", O_RDONLY | O_DIRECTORY));
    tell("a folder to be written", open(c".", O_WRONLY));
    tell("a folder to be made", open(c".", O_CREAT | O_RDONLY));
    tell("too long", open(&std::ffi::CString::new("x".repeat(256)).expect("a name"), O_CREAT | O_RDWR));
    tell("much too long", open(&std::ffi::CString::new("x/".repeat(2100)).expect("a name"), O_RDONLY));
    tell("a link to itself", call(SYS_symlinkat, &[c"loop".as_ptr() as u64, AT_FDCWD as u64, c"loop".as_ptr() as u64]));
    tell("opened", open(c"loop", O_RDONLY));
    tell("not followed", open(c"loop", O_RDONLY | O_NOFOLLOW));
    tell("as a path", open(c"loop", O_PATH | O_NOFOLLOW));
    tell("both ways of access", open(c"f", 3));
    tell("another folder", call(SYS_openat, &[99, c"f".as_ptr() as u64, 0, 0]));
    tell("a file as a start", call(SYS_openat, &[3, c"f".as_ptr() as u64, 0, 0]));
    tell(
        "a pipe with a name",
        call(SYS_mknodat, &[AT_FDCWD as u64, c"p".as_ptr() as u64, u64::from(S_IFIFO | 0o644), 0]),
    );
    tell("to be written, that nobody reads", open(c"p", O_WRONLY | O_NONBLOCK));
    tell("to be read, that nobody writes", open(c"p", O_RDONLY | O_NONBLOCK));
    tell("to be written, that somebody reads", open(c"p", O_WRONLY));
    tell("both", open(c"p", O_RDWR));
    tell("without a name", open(c".", O_TMPFILE | O_RDWR));
    tell("without a name, for reading", open(c".", O_TMPFILE | O_RDONLY));
    (3..12).for_each(|number| {
        call(SYS_close, &[number]).ok();
    });
}

fn content() {
    let number = open(c"g", O_CREAT | O_RDWR).expect("a file");
    tell("write", write(number, b"hello"));
    tell("beyond", seek(number, 10, SEEK_SET));
    tell("write there", write(number, b"world"));
    let mut bytes = [9u8; 20];
    tell("back", seek(number, -15, SEEK_CUR));
    tell("read", read(number, &mut bytes));
    println!("{:?}", &bytes[..16]);
    tell("at the end", read(number, &mut bytes));
    tell("before the start", seek(number, -1, SEEK_SET));
    tell("from the end", seek(number, -3, SEEK_END));
    tell("an unknown start", seek(number, 0, 9));
    tell("data", seek(number, 0, SEEK_DATA));
    tell("a hole", seek(number, 0, SEEK_HOLE));
    tell("no data behind the end", seek(number, 100, SEEK_DATA));
    tell("shorter", call(SYS_ftruncate, &[number, 3]));
    tell("longer", call(SYS_ftruncate, &[number, 8]));
    tell("negative", call(SYS_ftruncate, &[number, -1i64 as u64]));
    tell("read at 0", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 20, 0]));
    println!("{:?}", &bytes[..8]);
    tell("read at -1", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 20, -1i64 as u64]));
    tell("write at 6", call(SYS_pwrite64, &[number, c"xyz".as_ptr() as u64, 3, 6]));
    let appended = open(c"g", O_WRONLY | O_APPEND).expect("a file");
    tell("append", write(appended, b"!"));
    tell("read what is for writing", read(appended, &mut bytes));
    let read_only = open(c"g", O_RDONLY).expect("a file");
    tell("write what is for reading", write(read_only, b"x"));
    tell("cut what is for reading", call(SYS_ftruncate, &[read_only, 0]));
    let vectors = [c"ab".as_ptr() as u64, 2, c"cd".as_ptr() as u64, 2];
    tell("two buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 2]));
    tell("no buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 0]));
    tell("too many buffers", call(SYS_writev, &[number, vectors.as_ptr() as u64, 2000]));
    tell("allocate", call(SYS_fallocate, &[number, 0, 0, 100]));
    tell("length", seek(number, 0, SEEK_END));
    tell("allocate nothing", call(SYS_fallocate, &[number, 0, 0, 0]));
    tell("punch", call(SYS_fallocate, &[number, 3, 1, 3]));
    tell("read", call(SYS_pread64, &[number, bytes.as_mut_ptr() as u64, 5, 0]));
    println!("{:?}", &bytes[..5]);
    tell("emptied", open(c"g", O_RDWR | O_TRUNC));
    tell("length", seek(number, 0, SEEK_END));
    tell("closed twice", call(SYS_close, &[number]).and_then(|_| call(SYS_close, &[number])));
    tell("read what is closed", read(number, &mut bytes));
    tell("a folder read", read(open(c".", O_RDONLY).expect("a folder"), &mut bytes));
}

fn names() {
    let two = |number: c_long, from: &CStr, to: &CStr| {
        let folder = AT_FDCWD as u64;
        call(number, &[folder, from.as_ptr() as u64, folder, to.as_ptr() as u64, 0])
    };
    let make = |path: &CStr| call(SYS_mkdirat, &[AT_FDCWD as u64, path.as_ptr() as u64, 0o755]);
    let remove = |path: &CStr, flags: u64| call(SYS_unlinkat, &[AT_FDCWD as u64, path.as_ptr() as u64, flags]);
    tell("folder", make(c"d"));
    tell("again", make(c"d"));
    tell("in it", make(c"d/e"));
    tell("the root", make(c"/"));
    tell("here", make(c"."));
    tell("remove a full one", remove(c"d", 0x200));
    tell("remove a folder as a file", remove(c"d", 0));
    tell("remove a file as a folder", remove(c"g", 0x200));
    tell("remove here", remove(c".", 0x200));
    tell("remove above", remove(c"d/..", 0x200));
    tell("unknown flags", remove(c"d", 1));
    tell("into itself", two(SYS_renameat2, c"d", c"d/e/f"));
    tell("a file onto a folder", two(SYS_renameat2, c"g", c"d"));
    tell("a folder onto a file", two(SYS_renameat2, c"d", c"g"));
    tell("a folder onto a full one", two(SYS_renameat2, c"d/e", c"d"));
    tell("onto itself", two(SYS_renameat2, c"g", c"g"));
    tell("nothing", two(SYS_renameat2, c"nowhere", c"h"));
    tell("link", two(SYS_linkat, c"g", c"h"));
    tell("link to a folder", two(SYS_linkat, c"d", c"h2"));
    tell("link where something is", two(SYS_linkat, c"g", c"h"));
    tell("rename one onto the other", two(SYS_renameat2, c"g", c"h"));
    let mut text = [0u8; 16];
    let read_link =
        |path: &CStr, room: u64, to: u64| call(SYS_readlinkat, &[AT_FDCWD as u64, path.as_ptr() as u64, to, room]);
    tell("read a file as a link", read_link(c"g", 16, text.as_mut_ptr() as u64));
    tell("read a link", read_link(c"loop", 2, text.as_mut_ptr() as u64));
    tell("without room", read_link(c"loop", 0, text.as_mut_ptr() as u64));
    tell("change to a file", call(SYS_chdir, &[c"g".as_ptr() as u64]));
    tell("a short room for the folder", call(SYS_getcwd, &[text.as_mut_ptr() as u64, 2]));
    tell("access", call(SYS_faccessat, &[AT_FDCWD as u64, c"g".as_ptr() as u64, X_OK as u64]));
    tell("unknown access", call(SYS_faccessat, &[AT_FDCWD as u64, c"g".as_ptr() as u64, 8]));
}

/// A folder is listed while its names go: each is told once.
fn emptied() {
    for count in [0, 1, 63, 64, 65, 640] {
        std::fs::create_dir("full").expect("a folder");
        (0..count).for_each(|number| drop(std::fs::File::create(format!("full/{number}")).expect("a file")));
        let folder = open(c"full", O_RDONLY | O_DIRECTORY).expect("a folder");
        let (mut room, mut told) = ([0u8; 256], 0);
        while let Ok(bytes @ 1..) = call(SYS_getdents64, &[folder, room.as_mut_ptr() as u64, 256]) {
            let mut rest = &room[..bytes as usize];
            while !rest.is_empty() {
                let name = CStr::from_bytes_until_nul(&rest[19..]).expect("a name");
                told += u64::from(call(SYS_unlinkat, &[folder, name.as_ptr() as u64, 0]).is_ok());
                rest = &rest[usize::from(u16::from_le_bytes([rest[16], rest[17]]))..];
            }
        }
        tell(&format!("of {count} names, those told while they go"), Ok(told));
        tell("the folder goes", call(SYS_unlinkat, &[AT_FDCWD as u64, c"full".as_ptr() as u64, AT_REMOVEDIR as u64]));
        call(SYS_close, &[folder]).expect("open");
    }
}

fn pipes() {
    let mut ends = [0i32; 2];
    tell("unknown flags", call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 1]));
    tell("to nowhere", call(SYS_pipe2, &[8, 0]));
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, O_NONBLOCK as u64]).expect("a pipe");
    let (from, to) = (ends[0] as u64, ends[1] as u64);
    let mut bytes = [0u8; 100];
    tell("empty", read(from, &mut bytes));
    let many = vec![1u8; 100_000];
    tell("full", write(to, &many));
    tell("fuller", write(to, &many));
    tell("one byte more", write(to, &[1]));
    tell("its size", call(SYS_fcntl, &[to, F_GETPIPE_SZ as u64]));
    let mut waiting = 0i32;
    tell("how many", call(SYS_ioctl, &[from, FIONREAD, &raw mut waiting as u64]));
    println!("{waiting}");
    tell("seek", seek(from, 0, SEEK_CUR));
    tell("read at", call(SYS_pread64, &[from, bytes.as_mut_ptr() as u64, 1, 0]));
    tell("write to the reading end", write(from, &[1]));
    tell("read from the writing end", read(to, &mut bytes));
    let mut all = vec![0u8; 70_000];
    tell("all", read(from, &mut all));
    call(SYS_close, &[to]).expect("closed");
    tell("no writer", read(from, &mut bytes));
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    call(SYS_close, &[ends[0] as u64]).expect("closed");
    tell("no reader, ignored", write(ends[1] as u64, &[1]));
    println!(
        "no reader: {}",
        child(|| {
            programs::machine::dispose(SIGPIPE, SIG_DFL).expect("usual");
            write(ends[1] as u64, &[1]).map_or(1, |_| 2)
        })
    );
}

fn polls() {
    let poll = |what: &str, number: i32, events: i16| {
        let mut asked = pollfd { fd: number, events, revents: 0 };
        let time = [0u64, 1_000_000];
        let answer = call(SYS_ppoll, &[&raw mut asked as u64, 1, time.as_ptr() as u64, 0, 8]);
        println!(
            "{what}: {} {:#x}",
            answer.map_or_else(|error| error.to_string(), |count| count.to_string()),
            asked.revents
        );
    };
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    poll("empty", ends[0], POLLIN);
    poll("room", ends[1], POLLOUT);
    write(ends[1] as u64, b"x").expect("it writes");
    poll("something", ends[0], POLLIN | POLLOUT);
    poll("a closed number", 99, POLLIN);
    poll("no number", -1, POLLIN);
    call(SYS_close, &[ends[1] as u64]).expect("closed");
    poll("no writer", ends[0], POLLIN);
    poll("a file", open(c"g", O_RDWR).expect("a file") as i32, POLLIN | POLLOUT);
    poll("null", open(c"/dev/null", O_RDWR).expect("it opens") as i32, POLLIN | POLLOUT);
    let (mut set, time) = (1u64 << ends[0], [0u64, 1_000_000]);
    tell("select", call(SYS_pselect6, &[ends[0] as u64 + 1, &raw mut set as u64, 0, 0, time.as_ptr() as u64, 0]));
}

fn descriptors() {
    tell("dup of what is closed", call(SYS_dup, &[99]));
    tell("dup3 onto itself", call(SYS_dup3, &[1, 1, 0]));
    tell("dup3, unknown flags", call(SYS_dup3, &[1, 50, 1]));
    tell("dup3, a number too large", call(SYS_dup3, &[1, 1 << 20, 0]));
    tell("dup3", call(SYS_dup3, &[1, 50, O_CLOEXEC as u64]));
    let control = |number: u64, what: i32, value: u64| call(SYS_fcntl, &[number, what as u64, value]);
    tell("flags", control(50, F_GETFD, 0));
    tell("set flags", control(50, F_SETFD, 0));
    tell("flags", control(50, F_GETFD, 0));
    tell("dup from 60 on", control(50, F_DUPFD, 60));
    tell("dup from too far", control(50, F_DUPFD, 1 << 20));
    let number = open(c"g", O_RDWR | O_APPEND).expect("a file");
    tell("status", control(number, F_GETFL, 0));
    tell("status of null", control(open(c"/dev/null", O_WRONLY).expect("it opens"), F_GETFL, 0));
    tell("unknown control", control(number, 999, 0));
    tell("a terminal", call(SYS_ioctl, &[number, TCGETS, 0]));
    tell("close a range", call(SYS_close_range, &[50, 70, 0]));
    tell("a range backwards", call(SYS_close_range, &[5, 4, 0]));
    tell("it is closed", control(50, F_GETFD, 0));
}

/// Addresses where nothing is, for calls that read or write there.
fn bad_addresses() {
    let none = map(0, 2 * page(), READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
    call(SYS_munmap, &[none + page(), page()]).expect("it goes");
    let end = none + page();
    let number = open(c"k", O_CREAT | O_RDWR).expect("a file");
    tell("write from nowhere", call(SYS_write, &[number, 8, 1]));
    tell("write over the end", call(SYS_write, &[number, end - 4, 8]));
    tell("written", seek(number, 0, SEEK_END));
    tell("write from the kernel's", call(SYS_write, &[number, u64::MAX << 48, 8]));
    tell("write no bytes from nowhere", call(SYS_write, &[number, 8, 0]));
    write(number, b"0123456789").expect("room");
    seek(number, 0, SEEK_SET).expect("there");
    tell("read to nowhere", call(SYS_read, &[number, 8, 4]));
    tell("read over the end", call(SYS_read, &[number, end - 4, 8]));
    println!("read: {}", peek(end - 1));
    let read_only = map(0, page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0).expect("room");
    tell("read to what is read-only", call(SYS_read, &[number, read_only, 4]));
    for (name, call_number, arguments) in [
        ("open", SYS_openat, [AT_FDCWD as u64, 8, 0, 0, 0]),
        ("stat", SYS_newfstatat, [AT_FDCWD as u64, c"g".as_ptr() as u64, 8, 0, 0]),
        ("uname", SYS_uname, [8, 0, 0, 0, 0]),
        ("pipe", SYS_pipe2, [8, 0, 0, 0, 0]),
        ("clock", SYS_clock_gettime, [0, 8, 0, 0, 0]),
        ("sleep", SYS_nanosleep, [8, 0, 0, 0, 0]),
        ("mask", SYS_rt_sigprocmask, [0, 8, 0, 8, 0]),
        ("folder", SYS_getcwd, [8, 4096, 0, 0, 0]),
        ("entries", SYS_getdents64, [open(c".", O_RDONLY).expect("it opens"), 8, 4096, 0, 0]),
        ("random", SYS_getrandom, [8, 16, 0, 0, 0]),
        ("poll", SYS_ppoll, [8, 1, 0, 0, 8]),
        ("system", SYS_sysinfo, [8, 0, 0, 0, 0]),
        ("usage", SYS_getrusage, [0, 8, 0, 0, 0]),
        ("program", SYS_execve, [8, 0, 0, 0, 0]),
        ("arguments", SYS_execve, [c"/bin/busybox".as_ptr() as u64, 8, 0, 0, 0]),
        ("buffers", SYS_writev, [number, 8, 1, 0, 0]),
        ("affinity", SYS_sched_getaffinity, [0, 8, 8, 0, 0]),
    ] {
        tell(name, call(call_number, &arguments));
    }
}

fn memory_files() {
    let make = |name: &CStr, flags: u64| call(SYS_memfd_create, &[name.as_ptr() as u64, flags]);
    tell("unknown flags", make(c"m", 0x100).map(|_| 0));
    tell("a name too long", make(&std::ffi::CString::new("x".repeat(250)).expect("a name"), 0).map(|_| 0));
    let number = make(c"m", MFD_ALLOW_SEALING.into()).expect("a file");
    let control = |what: i32, value: u64| call(SYS_fcntl, &[number, what as u64, value]);
    tell("seals", control(F_GET_SEALS, 0));
    call(SYS_ftruncate, &[number, page()]).expect("longer");
    let shared = map(0, page(), READ_WRITE, MAP_SHARED, number as i32, 0);
    tell("seal writes while it is mapped", control(F_ADD_SEALS, F_SEAL_WRITE as u64));
    tell("seal the size", control(F_ADD_SEALS, (F_SEAL_SHRINK | F_SEAL_GROW) as u64));
    tell("shorter", call(SYS_ftruncate, &[number, 0]));
    tell("longer", call(SYS_ftruncate, &[number, 2 * page()]));
    call(SYS_munmap, &[shared.expect("room"), page()]).expect("it goes");
    tell("seal writes", control(F_ADD_SEALS, F_SEAL_WRITE as u64));
    tell("write", write(number, b"x"));
    tell_at("map to be written", map(0, page(), READ_WRITE, MAP_SHARED, number as i32, 0), 0);
    tell_at("map privately", map(0, page(), READ_WRITE, MAP_PRIVATE, number as i32, 0), 0);
    tell_at("map to be read", map(0, page(), PROT_READ, MAP_SHARED, number as i32, 0), 0);
    tell("seal seals", control(F_ADD_SEALS, F_SEAL_SEAL as u64));
    tell("seal more", control(F_ADD_SEALS, F_SEAL_GROW as u64));
    tell("seals", control(F_GET_SEALS, 0));
    let plain = make(c"p", 0).expect("a file");
    tell("seals of a plain one", call(SYS_fcntl, &[plain, F_GET_SEALS as u64, 0]));
    tell("seal a plain one", call(SYS_fcntl, &[plain, F_ADD_SEALS as u64, F_SEAL_GROW as u64]));
    println!("its name: {:?}", std::fs::read_link(format!("/proc/self/fd/{plain}")).ok());
}
