//! `/proc` as text that is the same in every run: without addresses, numbers of files and processes.

use std::fs;

use crate::memory::distance;

/// Areas of a range by `/proc/self/maps`, their places from `base` on.
pub fn maps(base: u64, from: u64, to: u64) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/maps").expect("maps");
    text.lines().filter_map(|line| area(line, base, from, to)).collect()
}

fn area(line: &str, base: u64, from: u64, to: u64) -> Option<String> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    if end <= from || start >= to {
        return None;
    }
    let mut words = rest.split_whitespace();
    let (rights, offset) = (words.next()?, words.next()?);
    let (_device, number) = (words.next()?, words.next()?);
    let name: Vec<&str> = words.collect();
    let number = if number == "0" { "no file" } else { "a file" };
    Some(format!("{} to {} {rights} {offset} {number} {}", distance(start, base), distance(end, base), name.join(" ")))
}

/// Prints the areas of a range.
pub fn tell_maps(what: &str, base: u64, from: u64, to: u64) {
    println!("{what}:");
    maps(base, from, to).iter().for_each(|line| println!("    {}", line.trim_end()));
}

/// The rows of the area of `smaps` that begins at an address.
pub fn smaps(start: u64) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let head = format!("{start:08x}-");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let is_row =
        |line: &&str| line.split_once(' ').is_some_and(|(name, _)| name.ends_with(':') || line.starts_with("VmFlags"));
    lines.by_ref().take_while(is_row).map(str::to_string).collect()
}

/// Comes back once a process sleeps, or a thread (`self/task/N`).
pub fn asleep(which: &str) {
    while !fs::read_to_string(format!("/proc/{which}/stat")).expect("stat").contains(") S ") {
        std::thread::yield_now();
    }
}
