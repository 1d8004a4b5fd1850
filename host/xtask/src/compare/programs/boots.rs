//! Boots that run many programs each, one after the other, until all have been run.

use std::{collections::BTreeMap, time::Duration};

use super::{
    folder::Named,
    told::{self, End, Told},
};
use crate::{
    boot::{
        self, Programs,
        emulator::Emulator,
        guest::{self, Chunk, Ended},
        options::{self, Asked},
    },
    fetch::{cpio::Archive, linux::Linux},
    outcome::{Failure, Status},
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

impl Machine<'_> {
    /// What each program tells, in the order of `programs`.
    pub(crate) fn run_all(
        &self,
        kernel: Kernel,
        programs: &[Named],
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Told>, Failure> {
        let mut told = BTreeMap::new();
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
                return Err(Failure::new(Status::Failed, line));
            }
            if let Some((name, Told { end: End::Never(last), .. })) = read.last() {
                say(&format!("{kernel:?}: {name} did not end ({last}); the others go on in another boot"));
            }
            told.extend(read);
            left.retain(|program| !told.contains_key(&program.name));
        }
        Ok(programs.iter().filter_map(|program| told.remove(&program.name)).collect())
    }

    /// Runs these programs, and tells of each that begins.
    fn boot(&self, kernel: Kernel, programs: &[&Named], began: &mut dyn FnMut(usize, &str)) -> Result<Ended, Failure> {
        let initrd = self.linux.built(&format!("programs-{}.cpio", std::process::id()))?;
        std::fs::write(&initrd, self.archive(programs)?).map_err(|error| Failure::file(&initrd, &error))?;
        let mut words: Vec<std::ffi::OsString> =
            ["--memory", self.memory, "--timeout", "86400", "--initrd"].map(Into::into).to_vec();
        words.extend([initrd.clone().into(), "--cpus".into(), self.cpus.to_string().into()]);
        match kernel {
            Kernel::Ours => {
                let ours = ["--append", self.words, "--init", "busybox sh /init ours"];
                words.extend(["--page-size", self.page_size].into_iter().chain(ours).map(Into::into));
            }
            Kernel::Linux => words.extend(
                ["--append", "console=ttyAMA0 quiet loglevel=0 panic=-1 secretmem.enable=y", "--kernel"]
                    .map(Into::into)
                    .into_iter()
                    .chain([self.linux.kernel.clone().into(), "--".into(), "-no-reboot".into()]),
            ),
        }
        let Asked::Run(options) = options::parse(&words)? else {
            return Err(Failure::new(Status::Failed, "the options of a boot ask for help"));
        };
        let options = options::Options { emulator: self.emulator.clone(), ..*options };
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
        let _ = std::fs::remove_file(&initrd);
        ended.map_err(|error| Failure::new(Status::Failed, error.to_string()))
    }

    /// The first file system of both kernels: busybox, the script, the programs and their names.
    fn archive(&self, programs: &[&Named]) -> Result<Vec<u8>, Failure> {
        let busybox = &self.linux.busybox;
        let busybox = std::fs::read(busybox).map_err(|error| Failure::file(busybox, &error))?;
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
    fn a_box_is_as_large_as_memory_allows() {
        let of = |bytes: usize| Named { name: "a".into(), content: vec![0; bytes] };
        let (small, half, large) = (of(1), of(MOST_BYTES / 2 + 1), of(MOST_BYTES + 1));
        assert_eq!(first_box(&[&small, &half, &half]).len(), 2);
        assert_eq!(first_box(&[&large, &small]).len(), 1);
        assert_eq!(first_box(&[&small, &small]).len(), 2);
    }
}
