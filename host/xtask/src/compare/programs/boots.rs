//! Boots that run many programs each, one after the other, until all have been run.

use std::{collections::BTreeMap, time::Duration};

use clap::ValueEnum;

use super::{
    folder::Named,
    told::{self, End, Told},
};
use crate::{
    boot::{
        self, Programs,
        emulator::Emulator,
        guest::{self, Chunk, Ended},
        options::{self, PageSize},
        transcript,
    },
    fetch::{cpio::Archive, linux::Linux},
    outcome::Failure,
};

/// Which kernel is booted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    Ours,
    Linux,
}

/// What both kernels are booted on, and with.
pub(crate) struct Machine<'m> {
    pub(crate) linux: &'m Linux,
    pub(crate) built: &'m Programs,
    pub(crate) emulator: &'m Emulator,
    /// Of our kernel; Linux has its own.
    pub(crate) page_size: &'m str,
    pub(crate) cpus: u32,
    /// Of each program, in seconds.
    pub(crate) timeout: u64,
    /// Words for our kernel's command line.
    pub(crate) words: &'m str,
    /// Of the machine.
    pub(crate) memory: &'m str,
}

/// Runs every program by its name, tells of each, and ends the machine.
const SCRIPT: &str = include_str!("init.sh");
/// How much memory the programs of one boot may have.
const MOST_BYTES: usize = 160 << 20;
/// How long a kernel may say nothing beyond what a program may.
const SILENCE_SECONDS: u64 = 90;

/// What all boots of one kernel come to.
pub(crate) struct Ran {
    /// What each program tells, in the order of `programs`.
    pub(crate) told: Vec<Told>,
    /// Checks of our kernel that failed once the programs of a boot had ended.
    pub(crate) failed: Vec<String>,
}

impl Machine<'_> {
    /// Runs all programs.
    pub(crate) fn run_all(
        &self,
        kernel: Kernel,
        programs: &[Named],
        say: &mut dyn FnMut(&str),
    ) -> Result<Ran, Failure> {
        let (mut told, mut failed) = (BTreeMap::new(), Vec::new());
        let mut left: Vec<&Named> = programs.iter().collect();
        while !left.is_empty() {
            let now = first_box(&left);
            let ended = self.boot(kernel, now, &mut |count, name| {
                say(&format!("{kernel:?}: {}/{} {name}", programs.len() - left.len() + count, programs.len()));
            })?;
            let read = told::read(&ended.output);
            if read.is_empty() {
                let last = String::from_utf8_lossy(&ended.output).lines().last().unwrap_or_default().to_owned();
                let line = format!("{kernel:?} ran no program; its last line: {last} {}", ended.complaints.trim());
                return Err(Failure::failed(line));
            }
            failed.extend(failed_checks(&ended.output));
            if let Some((name, Told { end: End::Never(last), .. })) = read.last() {
                say(&format!("{kernel:?}: {name} did not end ({last}); the others go on in another boot"));
            }
            told.extend(read);
            left.retain(|program| !told.contains_key(&program.name));
        }
        Ok(Ran { told: programs.iter().filter_map(|program| told.remove(&program.name)).collect(), failed })
    }

    /// Runs these programs, and tells of each that begins.
    fn boot(&self, kernel: Kernel, programs: &[&Named], began: &mut dyn FnMut(usize, &str)) -> Result<Ended, Failure> {
        let initrd = self.linux.built(&format!("programs-{}.cpio", std::process::id()))?;
        fs_err::write(&initrd, self.archive(programs)?)?;
        let plain = options::of(&format!("--timeout 86400 --memory {} --cpus {}", self.memory, self.cpus))?;
        let plain = options::Options { initrd: Some(initrd.clone()), emulator: self.emulator.clone(), ..plain };
        let options = match kernel {
            Kernel::Ours => options::Options {
                page_size: PageSize::from_str(self.page_size, false).ok(),
                append: vec![self.words.to_owned()],
                init: Some("busybox sh /init ours".to_owned()),
                ..plain
            },
            Kernel::Linux => options::Options {
                kernel: Some(self.linux.kernel.clone()),
                append: vec!["console=ttyAMA0 quiet loglevel=0 panic=-1 secretmem.enable=y".to_owned()],
                qemu: vec!["-no-reboot".into()],
                ..plain
            },
        };
        let (mut command, _files) = boot::command(&options, self.built)?;
        let (mut text, mut count) = (Vec::new(), 0);
        let silence = Duration::from_secs(self.timeout + SILENCE_SECONDS);
        let ended = guest::run_while_it_speaks(&mut command, silence, &mut |chunk| {
            let Chunk::Output(bytes) = chunk else { return };
            text.extend(bytes);
            while let Some(at) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=at).collect();
                if let Some(name) = String::from_utf8_lossy(&line).trim_end().strip_prefix(told::BEGIN) {
                    count += 1;
                    began(count, name);
                }
            }
        });
        let _ = fs_err::remove_file(&initrd);
        ended.map_err(|error| Failure::failed(error.to_string()))
    }

    /// The first file system of both kernels: busybox, the script, the programs and their names.
    fn archive(&self, programs: &[&Named]) -> Result<Vec<u8>, Failure> {
        let busybox = &self.linux.busybox;
        let busybox = fs_err::read(busybox)?;
        let mut archive = Archive::new();
        ["bin", "dev", "etc", "proc", "sys", "tmp", "programs"].iter().for_each(|folder| archive.folder(folder));
        archive.console("dev/console");
        archive.program("bin/busybox", &busybox);
        archive.link("bin/sh", "busybox");
        archive.program("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n");
        archive.program("etc/group", b"root:x:0:\n");
        archive.program("init", SCRIPT.as_bytes());
        let names: String = programs.iter().map(|program| format!("{}\n", program.name)).collect();
        archive.program("etc/programs", names.as_bytes());
        archive.program("etc/seconds", self.timeout.to_string().as_bytes());
        for program in programs {
            archive.program(&format!("programs/{}", program.name), &program.content);
        }
        Ok(archive.finish())
    }
}

/// What our kernel found wrong behind the programs, which may print what they like.
fn failed_checks(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let after = text.rsplit_once(transcript::AFTER_INIT).map_or("", |(_, after)| after);
    let of_processes = |line: &&str| line.starts_with("process ");
    let is_wrong = |line: &&str| line.starts_with("check ") && line.contains(": FAILED (") || of_processes(line);
    after.lines().filter(is_wrong).map(str::to_owned).collect()
}

/// As many programs as one boot has memory for, at least one.
fn first_box<'b, 'n>(programs: &'b [&'n Named]) -> &'b [&'n Named] {
    let mut bytes = 0;
    let fits = |program: &&&Named| {
        bytes += program.content.len();
        bytes <= MOST_BYTES
    };
    &programs[..programs.iter().take_while(fits).count().max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_behind_programs_is_told() {
        let text = b"check a: FAILED (a program)\r\n# after init\r\nprocess 2 (x) cannot be killed\r\n\
                     check b: FAILED (1 of 2)\r\ncheck c: ok (none)\r\n# verdict\r\n";
        assert_eq!(failed_checks(text), ["process 2 (x) cannot be killed", "check b: FAILED (1 of 2)"]);
        assert!(failed_checks(b"check a: FAILED (no end)\n").is_empty());
    }

    #[test]
    fn a_box_is_as_large_as_memory_allows() {
        let of = |bytes: usize| Named { name: "a".into(), content: vec![0; bytes] };
        let (small, half, large) = (of(1), of(MOST_BYTES / 2 + 1), of(MOST_BYTES + 1));
        assert_eq!(first_box(&[&small, &half, &half]).len(), 2);
        assert_eq!(first_box(&[&large, &small]).len(), 1);
        assert_eq!(first_box(&[&small, &small]).len(), 2);
    }
}
