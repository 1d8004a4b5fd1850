//! One boot of a kernel with the program as its first process, and what that says.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt::Write,
    path::PathBuf,
};

use fs_err as fs;

use super::settings::{MACHINE, Row, Setting};
use crate::{
    boot::{self, Programs, guest, options},
    cargo,
    fetch::{cpio::Archive, linux::Linux},
    outcome::Failure,
    terminal::quoted,
};

const MEMORY_BYTES: u64 = 2 << 30;

pub(super) type Costs = BTreeMap<String, u64>;

/// The program as the first process of both kernels, in a file that goes with this.
pub(super) struct Initrd(PathBuf);

impl Initrd {
    pub(super) fn write(program: &[u8]) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("vellum-costs-{}.cpio", std::process::id()));
        let mut archive = Archive::new();
        ["dev", "proc"].iter().for_each(|folder| archive.folder(folder));
        archive.console("dev/console");
        archive.program("init", program);
        fs::write(&path, archive.finish())?;
        Ok(Self(path))
    }
}

impl Drop for Initrd {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn of_linux(linux: &Linux, setting: &Setting) -> Vec<OsString> {
    let Setting { theirs, word, .. } = setting;
    // What stands behind the last word is the program's.
    let words = format!("console=ttyAMA0 quiet loglevel=0 panic=-1 {theirs} -- {word}");
    ["--append".into(), words.trim_end_matches(" -- ").into(), "--kernel".into(), linux.kernel.clone().into()].into()
}

pub(super) fn of_ours(size: &str, setting: &Setting) -> Vec<OsString> {
    let init = format!("/init {}", setting.word);
    let words = ["--page-size", size, "--append", setting.ours, "--init", init.trim_end()];
    words.map(Into::into).into()
}

/// Boots, and reads what the program says.
pub(super) fn costs(
    setting: &Setting,
    words: &[OsString],
    initrd: &Initrd,
    built: &Programs,
    commands: &mut String,
) -> Result<Costs, Failure> {
    let mut all: Vec<OsString> = ["--cpus", "1", "--memory", "2G", "--icount", "--initrd"].map(Into::into).into();
    all.push((&initrd.0).into());
    if setting.is_monitored {
        all.extend(["--monitor".into(), "--machine".into(), cargo::workspace().join(MACHINE).into()]);
    }
    all.extend(words.iter().cloned());
    all.extend(
        words.iter().any(|word| word == "--kernel").then(|| ["--".into(), "-no-reboot".into()]).into_iter().flatten(),
    );
    let options = options::parse(&all)?;
    let (mut command, _files) = boot::command(&options, built)?;
    let folder = cargo::workspace().to_string_lossy().into_owned();
    let line: Vec<String> =
        command.get_args().map(|word| quoted(OsStr::new(&word.to_string_lossy().replace(&*folder, ".")))).collect();
    let line = line.join(" ").replace(&*initrd.0.to_string_lossy(), "costs.cpio");
    let _ = writeln!(commands, "qemu-system-aarch64 {line}");
    let ended = guest::run(&mut command, None, &mut |_| {})?;
    let text = String::from_utf8_lossy(&ended.output);
    read(&text, setting.rows).ok_or_else(|| {
        let last = text.lines().last().unwrap_or_default();
        Failure::failed(format!("the program did not tell all: {last}"))
    })
}

/// The program's lines; none if one of these is missing.
pub(super) fn read(text: &str, rows: &[Row]) -> Option<Costs> {
    let words = text.lines().filter_map(|line| line.split_once("cost: ")?.1.trim().split_once(' '));
    let mut costs: Costs = words.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect();
    let used = MEMORY_BYTES.checked_sub(*costs.get("free")?)?;
    costs.insert("used".to_owned(), used >> 10);
    rows.iter().all(|row| costs.contains_key(row.key)).then_some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::kernel::settings::{PAGES, SETTINGS};

    #[test]
    fn what_the_program_says_is_read() {
        let mut text = "[1.0] x\r\ncost: free 2147483000\r\n".to_owned();
        assert_eq!(read(&text, &PAGES), None);
        PAGES.iter().for_each(|row| text += &format!("cost: {} 7\r\n", row.key));
        let costs = read(&text, &PAGES).expect("all is there");
        assert_eq!((costs["touch"], costs["used"]), (7, 0));
    }

    #[test]
    fn the_program_is_asked_for_what_a_setting_says() {
        let linux = Linux { kernel: "vmlinuz".into(), busybox: "".into(), modules: Vec::new(), name: String::new() };
        let words = |setting: &Setting| {
            let last = |words: Vec<OsString>, place: usize| words[place].to_string_lossy().into_owned();
            (last(of_linux(&linux, setting), 1), last(of_ours("4k", setting), 5))
        };
        let (theirs, ours) = words(&SETTINGS[0]);
        assert!(theirs.ends_with(" transparent_hugepage=never") && ours == "/init", "{theirs}: {ours}");
        let (theirs, ours) = words(&SETTINGS[3]);
        assert!(theirs.ends_with(" secretmem.enable=1 -- secret") && ours == "/init secret", "{theirs}: {ours}");
    }
}
