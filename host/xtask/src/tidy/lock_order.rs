//! The order of the kernel's locks is written down twice, for the kernel and for people, and no lock is outside it.

use std::fs;

use crate::cargo;

fn read(path: &str) -> String {
    fs::read_to_string(cargo::workspace().join(path)).expect("a file of the workspace")
}

#[test]
fn the_page_has_the_kernels_order() {
    let kernel = read("bare/kernel/src/locks/order.rs");
    let in_kernel: Vec<&str> =
        kernel.lines().filter(|line| line.ends_with("\";")).filter_map(|line| line.split('"').nth(1)).collect();
    let page = read("docs/pairs.md");
    let section = page.split("| lock | kind |").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    let on_page: Vec<&str> = section.lines().filter_map(|line| line.split('`').nth(1)).collect();
    assert!(in_kernel.len() > 50, "{in_kernel:?}");
    assert_eq!(on_page, in_kernel);
}

#[test]
fn no_lock_of_the_kernel_is_outside_the_order() {
    let folder = cargo::workspace().join("bare/kernel/src");
    let mut folders = vec![folder];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&entry).expect("a file");
            let is_outside = text.contains("lock::Lock") || text.contains("SpinMutex::new");
            let may = entry.ends_with("src/locks.rs") || entry.ends_with("cpus/calls.rs");
            assert!(may || !is_outside, "{}: a lock of `crate::locks` was expected", entry.display());
        }
    }
    assert!(files > 200, "{files} files");
}
