//! Two calls at once on names of files and on descriptors. Whatever the order, folders are a tree, and every name is reached.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};

use libc::*;
use programs::{Answer, call, race, rounds, tell_race};

type Path = &'static std::ffi::CStr;

fn main() {
    if env::args().any(|word| word == "nothing") {
        // Run by `descriptors_of_others`.
        return;
    }
    circles();
    replaced();
    exchanged();
    removed_and_filled();
    linked_and_unlinked();
    where_it_is();
    listed();
    created_by_two();
    duplicated_and_closed();
    the_last_number();
    flags_of_a_file();
    descriptors_of_zombies();
    descriptors_of_others();
}

fn at(number: c_long, path: Path, more: &[u64]) -> Answer {
    call(number, &[&[AT_FDCWD as u64, path.as_ptr() as u64], more].concat())
}

fn rename(from: Path, to: Path, flags: u32) -> Answer {
    at(SYS_renameat2, from, &[AT_FDCWD as u64, to.as_ptr() as u64, flags.into()])
}

fn folder(path: Path) {
    at(SYS_mkdirat, path, &[0o700]).expect("a folder");
}

fn remove(path: Path, flags: i32) -> Answer {
    at(SYS_unlinkat, path, &[flags as u64])
}

fn open(path: Path, flags: i32) -> Answer {
    at(SYS_openat, path, &[flags as u64, 0o600])
}

fn close(number: u64) {
    call(SYS_close, &[number]).expect("it is open");
}

fn create(path: Path) {
    close(open(path, O_CREAT | O_RDWR).expect("a file"));
}

fn is_there(path: Path) -> bool {
    at(SYS_faccessat, path, &[0]).is_ok()
}

/// Each of two folders goes into the other: one of them alone can.
fn circles() {
    let prepare = || ["c/a", "c/b"].iter().for_each(|path| fs::create_dir_all(path).expect("a folder"));
    let (one, other) = (|| rename(c"c/a", c"c/b/a", 0), || rename(c"c/b", c"c/a/b", 0));
    let wrong = race(2 * rounds(), prepare, [&one, &other], |answers| {
        let is_tree = match answers {
            [Ok(0), Err(_)] => is_there(c"c/b/a") && !is_there(c"c/a"),
            [Err(_), Ok(0)] => is_there(c"c/a/b") && !is_there(c"c/b"),
            _ => false,
        };
        fs::remove_dir_all("c").is_ok() && is_tree
    });
    tell_race("folders into each other", wrong);
}

/// A name that is replaced is never without a file.
fn replaced() {
    create(c"target");
    let replace = || {
        create(c"new");
        rename(c"new", c"target", 0)
    };
    let look = || open(c"target", O_RDONLY).inspect(|number| close(*number)).map(|_| 0);
    let wrong = race(4 * rounds(), || (), [&replace, &look], |answers| answers == [Ok(0); 2]);
    remove(c"target", 0).expect("it goes");
    tell_race("a name that is replaced", wrong);
}

/// Two names that are exchanged are both there all the time.
fn exchanged() {
    ["one", "two"].iter().for_each(|path| fs::create_dir(path).expect("a folder"));
    create(c"one/file");
    folder(c"two/folder");
    let exchange = || rename(c"one/file", c"two/folder", RENAME_EXCHANGE);
    let look = || Ok(u64::from(is_there(c"one/file") && is_there(c"two/folder")));
    let wrong = race(4 * rounds(), || (), [&exchange, &look], |answers| answers == [Ok(0), Ok(1)]);
    let links = |path| fs::metadata(path).map(|found| std::os::unix::fs::MetadataExt::nlink(&found)).unwrap_or(0);
    println!("links: {} and {}", links("one"), links("two"));
    ["one", "two"].iter().for_each(|path| fs::remove_dir_all(path).expect("it goes"));
    tell_race("names that are exchanged", wrong);
}

/// A folder is removed, or gets a file.
fn removed_and_filled() {
    let fill = || open(c"d/file", O_CREAT | O_RDWR).inspect(|number| close(*number)).map(|_| 0);
    let wrong = race(
        4 * rounds(),
        || folder(c"d"),
        [&|| remove(c"d", AT_REMOVEDIR), &fill],
        |[removed, filled]| {
            let is_one = match (removed, filled) {
                (Ok(0), Err(error)) => error.0 == ENOENT && !is_there(c"d"),
                (Err(error), Ok(0)) => error.0 == ENOTEMPTY && is_there(c"d/file"),
                _ => false,
            };
            let _ = fs::remove_dir_all("d");
            is_one
        },
    );
    tell_race("a folder that is removed and filled", wrong);
}

/// A file has as many links as names.
fn linked_and_unlinked() {
    let link = || at(SYS_linkat, c"f", &[AT_FDCWD as u64, c"g".as_ptr() as u64, 0]);
    let wrong = race(
        4 * rounds(),
        || create(c"f"),
        [&link, &|| remove(c"f", 0)],
        |[linked, removed]| {
            let found = fs::metadata("g").map(|found| std::os::unix::fs::MetadataExt::nlink(&found));
            let is_right = match linked {
                Ok(0) => found.is_ok_and(|links| links == 1),
                _ => found.is_err(),
            };
            let _ = remove(c"g", 0);
            removed == Ok(0) && is_right
        },
    );
    tell_race("a link and a removal", wrong);
}

/// A process knows where it is, wherever that is moved.
fn where_it_is() {
    let home = env::current_dir().expect("a folder");
    ["left/in/deep", "right"].iter().for_each(|path| fs::create_dir_all(path).expect("a folder"));
    let absolute = |path: &str| std::ffi::CString::new(format!("{}/{path}", home.display())).expect("no zeros");
    let (left, right) = (absolute("left/in"), absolute("right/in"));
    let go = |from: &std::ffi::CStr, to: &std::ffi::CStr| {
        call(SYS_renameat, &[AT_FDCWD as u64, from.as_ptr() as u64, AT_FDCWD as u64, to.as_ptr() as u64])
    };
    let there = || go(&left, &right).and_then(|_| go(&right, &left));
    let ask = || {
        let mut room = [0u8; 4096];
        let count = call(SYS_getcwd, &[room.as_mut_ptr() as u64, room.len() as u64])?;
        let path = &room[..count as usize - 1];
        Ok(u64::from(path.ends_with(b"/left/in/deep") || path.ends_with(b"/right/in/deep")))
    };
    env::set_current_dir("left/in/deep").expect("a folder");
    let wrong = race(4 * rounds(), || (), [&there, &ask], |answers| answers == [Ok(0), Ok(1)]);
    env::set_current_dir(&home).expect("a folder");
    ["left", "right"].iter().for_each(|path| fs::remove_dir_all(path).expect("it goes"));
    tell_race("where a process is", wrong);
}

/// Two that list a folder by one descriptor get each name once.
fn listed() {
    const FILES: usize = 40;
    fs::create_dir("many").expect("a folder");
    (0..FILES).for_each(|number| drop(fs::File::create(format!("many/{number}")).expect("a file")));
    let (folder, names) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let list = || {
        let mut room = [0u8; 256];
        loop {
            let arguments = [folder.load(Ordering::SeqCst), room.as_mut_ptr() as u64, room.len() as u64];
            let count = call(SYS_getdents64, &arguments)? as usize;
            if count == 0 {
                return Ok(0);
            }
            let mut at = 0;
            while at < count {
                let bytes = usize::from(u16::from_le_bytes([room[at + 16], room[at + 17]]));
                let name = room[at + 19..at + bytes].split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
                names.lock().expect("whole").push(name);
                at += bytes;
            }
        }
    };
    let prepare = || {
        names.lock().expect("whole").clear();
        folder.store(open(c"many", O_RDONLY | O_DIRECTORY).expect("a folder"), Ordering::SeqCst);
    };
    let wrong = race(rounds(), prepare, [&list, &list], |answers| {
        close(folder.load(Ordering::SeqCst));
        let all = names.lock().expect("whole");
        let each: BTreeSet<_> = all.iter().collect();
        answers == [Ok(0); 2] && all.len() == FILES + 2 && each.len() == all.len()
    });
    fs::remove_dir_all("many").expect("it goes");
    tell_race("a folder that is listed", wrong);
}

/// Who opens what is made if there is none, opens it.
fn created_by_two() {
    let prepare = || _ = remove(c"made", 0);
    let make = || open(c"made", O_CREAT | O_RDWR);
    let alone = || open(c"made", O_CREAT | O_EXCL | O_RDWR);
    let wrong = race(4 * rounds(), prepare, [&make, &make], |answers| {
        answers.iter().flatten().for_each(|number| close(*number));
        answers.iter().all(Result::is_ok)
    });
    tell_race("two that open what is not there", wrong);
    let wrong = race(4 * rounds(), prepare, [&alone, &alone], |answers| {
        answers.iter().flatten().for_each(|number| close(*number));
        answers.iter().flatten().count() == 1
    });
    tell_race("two that make a file of their own", wrong);
}

fn pipe(flags: i32) -> [u64; 2] {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, flags as u64]).expect("a pipe");
    ends.map(|end| end as u64)
}

/// Each end is counted, whatever its numbers come to.
fn duplicated_and_closed() {
    const NUMBER: u64 = 100;
    let ends = Mutex::new([0; 2]);
    let writer = || ends.lock().expect("whole")[1];
    let duplicate = || call(SYS_dup3, &[writer(), NUMBER, 0]);
    let read = || call(SYS_read, &[NUMBER, &mut 0u8 as *mut u8 as u64, 1]);
    let closes = || call(SYS_close, &[NUMBER]);
    let prepare = || *ends.lock().expect("whole") = pipe(O_NONBLOCK);
    let wrong = race(2 * rounds(), prepare, [&duplicate, &closes, &read], |[duplicated, _, read]| {
        let _ = closes();
        let [from, to] = *ends.lock().expect("whole");
        close(to);
        let end = call(SYS_read, &[from, &mut 0u8 as *mut u8 as u64, 1]);
        close(from);
        duplicated == Ok(NUMBER) && end == Ok(0) && read.is_err_and(|error| error.0 == EBADF)
    });
    tell_race("a descriptor that is duplicated and closed", wrong);
}

/// Two that want the last number: one gets it, and whoever does not has made no file.
fn the_last_number() {
    const NAME: Path = c"race.last";
    let free = call(SYS_dup, &[0]).expect("a number");
    close(free);
    let mut limits = [0u64; 2];
    call(SYS_prlimit64, &[0, RLIMIT_NOFILE as u64, 0, limits.as_mut_ptr() as u64]).expect("limits");
    let limit = |most: u64| call(SYS_prlimit64, &[0, RLIMIT_NOFILE as u64, [most, limits[1]].as_ptr() as u64, 0]);
    limit(free + 1).expect("a limit");
    let (duplicate, make) = (|| call(SYS_dup, &[0]), || open(NAME, O_CREAT | O_RDWR));
    let wrong = race(
        4 * rounds(),
        || (),
        [&duplicate, &make],
        |answers| {
            close(free);
            let is_made = remove(NAME, 0).is_ok();
            let none = Err(programs::Errno(EMFILE));
            answers == if is_made { [none, Ok(free)] } else { [Ok(free), none] }
        },
    );
    limit(limits[0]).expect("as before");
    tell_race("two that want the last number", wrong);
}

/// F_SETFL and FIONBIO set flags of one file: neither takes back what the other has done.
fn flags_of_a_file() {
    // Of one type with every C library: FIONBIO.
    const SET_NONBLOCK: u64 = 0x5421;
    let [from, to] = pipe(0);
    let (append, nonblock) = (O_APPEND as u64, O_NONBLOCK as u64);
    let set = |flags: u64| call(SYS_fcntl, &[from, F_SETFL as u64, flags]);
    let one = 1u32;
    let other = || call(SYS_ioctl, &[from, SET_NONBLOCK, &raw const one as u64]);
    for (before, now) in [(0, append), (append, 0)] {
        let (prepare, sets) = (|| _ = set(before).expect("flags"), || set(now));
        let wrong = race(4 * rounds(), prepare, [&sets, &other], |answers| {
            let flags = call(SYS_fcntl, &[from, F_GETFL as u64]).expect("flags");
            answers == [Ok(0); 2] && [now, now | nonblock].contains(&(flags & (append | nonblock)))
        });
        tell_race("flags of one file", wrong);
    }
    [from, to].into_iter().for_each(close);
}

/// A child that shares descriptors with this process.
fn sharing_child(body: impl FnOnce()) -> u64 {
    match call(SYS_clone, &[(CLONE_FILES | SIGCHLD) as u64, 0, 0, 0, 0]).expect("a child") {
        0 => {
            body();
            programs::machine::exit(0)
        }
        number => number,
    }
}

/// Waits for the end of a child, which stays as it is then.
fn over(number: u64) {
    let mut info = [0u64; 16];
    let options = (WEXITED | WNOWAIT) as u64;
    call(SYS_waitid, &[P_PID.into(), number, info.as_mut_ptr() as u64, options, 0]).expect("it ends");
}

/// What two processes had open is closed with them, though nobody has waited for either.
fn descriptors_of_zombies() {
    let [from, to] = pipe(O_NONBLOCK);
    let first = match programs::machine::fork() {
        Some(number) => number as u64,
        None => {
            over(sharing_child(|| ()));
            programs::machine::exit(0)
        }
    };
    close(to);
    over(first);
    programs::tell("what zombies shared", call(SYS_read, &[from, &mut 0u8 as *mut u8 as u64, 1]));
    programs::child::wait(first as i32);
    close(from);
}

/// Who runs another program closes what that does not get for itself alone.
fn descriptors_of_others() {
    let kept = open(c"/proc/self/exe", O_RDONLY | O_CLOEXEC).expect("a file");
    let arguments = [c"racing".as_ptr() as u64, c"nothing".as_ptr() as u64, 0];
    let child = sharing_child(|| {
        let _ = call(SYS_execve, &[c"/proc/self/exe".as_ptr() as u64, arguments.as_ptr() as u64, 0]);
    });
    println!("the child: {}", programs::child::ended(programs::child::wait(child as i32)));
    programs::tell("what it shared", call(SYS_fcntl, &[kept, F_GETFD as u64]));
}
