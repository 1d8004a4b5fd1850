//! Folders in folders, as deep as their path has room, and deeper; and links on one way.

use libc::*;
use programs::{Answer, call, child, tell};
use std::ffi::CString;

fn make_folder(name: &str) -> Answer {
    let name = CString::new(name).expect("a name");
    call(SYS_mkdirat, &[AT_FDCWD as u64, name.as_ptr() as u64, 0o700])
}

fn change(path: &str) -> Answer {
    let path = CString::new(path).expect("a path");
    call(SYS_chdir, &[path.as_ptr() as u64])
}

/// Makes a folder with a name so long, and goes there.
fn enter(bytes: usize) {
    let name = "a".repeat(bytes);
    make_folder(&name).expect("a folder");
    change(&name).expect("it is there");
}

fn where_it_is(room: u64) -> Answer {
    let mut path = vec![0u8; 70_000];
    let answer = call(SYS_getcwd, &[path.as_mut_ptr() as u64, room])?;
    let is_whole = path[0] == b'/' && path.iter().position(|byte| *byte == 0) == Some(answer as usize - 1);
    if is_whole { Ok(answer) } else { Ok(0) }
}

fn main() {
    println!("lengths: {}", child(lengths));
    println!("far down: {}", child(far_down));
    println!("links: {}", child(links));
}

/// Paths of one byte less than there is room for, of as many, and of one more.
fn lengths() -> i32 {
    const BELOW: usize = 4096 - 256 * 15;
    for (name, rest) in [("one less", BELOW - 2), ("all", BELOW - 1), ("one more", BELOW)] {
        change("/").expect("the root");
        let top = format!("lengths {name}");
        make_folder(&top).expect("a folder");
        change(&top).expect("it is there");
        // What the first name takes is taken from the last.
        (0..15).for_each(|_| enter(255));
        let last = rest - 1 - top.len() - 1;
        enter(last);
        let whole = where_it_is(70_000);
        tell(name, whole);
        for room in [0, 1, 64, 4094, 4095, 4096, 4097] {
            tell(&format!("{name}, room for {room}"), where_it_is(room));
        }
    }
    0
}

/// Where a folder's path is longer than any may be, there are files.
fn far_down() -> i32 {
    change("/").expect("the root");
    make_folder("far down").expect("a folder");
    change("far down").expect("it is there");
    (0..600).for_each(|_| enter(255));
    tell("where it is", where_it_is(70_000));
    tell("where it is, room for 64", where_it_is(64));
    let file = call(SYS_openat, &[AT_FDCWD as u64, c"file".as_ptr() as u64, (O_CREAT | O_RDWR) as u64, 0o600]);
    println!("a file: {}", file.is_ok());
    tell("up", change(".."));
    for (name, bytes) in [("4094", 4094), ("4095", 4095), ("4096", 4096), ("40950", 40_950)] {
        tell(&format!("a path of {name}"), change(&"./".repeat(bytes / 2 + 1)[..bytes]));
    }
    let up = "../".repeat(600);
    tell("to the top", change(&up));
    0
}

/// 40 links are followed, and no more.
fn links() -> i32 {
    change("/").expect("the root");
    make_folder("links").expect("a folder");
    change("links").expect("it is there");
    let link = |to: &str, name: &str| {
        let [to, name] = [to, name].map(|text| CString::new(text).expect("a path"));
        call(SYS_symlinkat, &[to.as_ptr() as u64, AT_FDCWD as u64, name.as_ptr() as u64]).expect("a link");
    };
    make_folder("0").expect("a folder");
    (1..=45).for_each(|number| link(&(number - 1).to_string(), &number.to_string()));
    for number in [1, 39, 40, 41, 45] {
        tell(&format!("{number} links"), change(&number.to_string()));
        change("/links").expect("it is there");
    }
    link("x", "x");
    tell("a circle", change("x"));
    0
}
