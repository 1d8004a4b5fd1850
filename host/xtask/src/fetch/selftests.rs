//! Linux's own selftests of memory management: Debian's source of today's Linux, and a compiler that makes arm64 programs of it.
//!
//! ```text
//! .fetched/selftests/compiler   gcc of the host's own sources with its libraries, and the C library for arm64
//!                   /headers    Linux's and libcap's, for arm64
//!                   /source     tools/testing/selftests/mm, and what it includes
//! ```

use std::{
    env::consts,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use fs_err as fs;

use super::{
    apt::{self, Apt},
    linux::TODAY,
    qemu::architecture,
};
use crate::{cargo, command::output, outcome::Failure};

/// The tests that are built.
pub(crate) const NAMES: [&str; 9] = [
    "cow",
    "madv_populate",
    "map_fixed_noreplace",
    "map_populate",
    "memfd_secret",
    "mkdirty",
    "mlock2-tests",
    "mremap_dontunmap",
    "mremap_test",
];

/// What the tests use of Linux's source, from its root.
const PARTS: [&str; 6] = [
    MM,
    "tools/testing/selftests/kselftest.h",
    "tools/testing/selftests/kselftest_harness.h",
    "tools/testing/selftests/pidfd/pidfd.h",
    "tools/include",
    "mm/gup_test.h",
];
const MM: &str = "tools/testing/selftests/mm";

/// Sources that belong to each test.
const SHARED: [&str; 2] = ["vm_util.c", "hugepage_settings.c"];

/// What a script of Linux's writes before it builds: liburing is not here, and a test that wants it is left out.
const CONFIG: &str = "local_config.h_gen";

const COMPILER: &str = "gcc-aarch64-linux-gnu";
const LIBRARY: &str = "libc6-dev-arm64-cross";

fn folder() -> PathBuf {
    apt::folder().join("selftests")
}

/// The package of the source, if all has been fetched.
pub(crate) fn find() -> Option<String> {
    fs::read_to_string(folder().join("package")).ok().map(|name| name.trim().to_owned())
}

/// The same, or the one line that says how to have it.
pub(crate) fn need() -> Result<String, Failure> {
    let line = "there are no selftests of Linux's here: cargo xtask fetch selftests";
    find().ok_or_else(|| Failure::host_lacks(line))
}

/// Fetches all of it, whatever is there.
pub(super) fn fetch() -> Result<(), Failure> {
    let Some(architecture) = architecture().filter(|name| *name == "amd64") else {
        let line = format!("no compiler for arm64 is looked for on {}: on x86-64 alone", consts::ARCH);
        return Err(Failure::host_lacks(line));
    };
    let (package, root) = (folder().join("package"), apt::folder().join("apt"));
    // The package's name comes last: without it, nothing counts as fetched.
    let _ = fs::remove_file(&package);
    let host = Apt::new(&root, architecture, None)?;
    host.update()?;
    host.unpack_with_all_it_needs(&[COMPILER, LIBRARY], &folder().join("compiler"))?;
    let guest = Apt::new(&root, "arm64", None)?;
    guest.update()?;
    let headers = folder().join("headers");
    let _ = fs::remove_dir_all(&headers);
    fs::create_dir_all(&headers)?;
    take_usr(&guest.unpack(&["libcap-dev"], 1)?, &headers)?;
    let today = Apt::new(&root, "arm64", Some(TODAY))?;
    today.update()?;
    let source = today.newest("linux-source", "linux-source-")?;
    let unpacked = today.unpack(&[&source, "linux-libc-dev"], 170)?;
    take_source(&unpacked.join(format!("usr/src/{source}.tar.xz")), &source)?;
    take_usr(&unpacked, &headers)?;
    let _ = fs::remove_dir_all(&unpacked);
    let version = today.version(&source)?.unwrap_or_default();
    Ok(fs::write(&package, format!("{source} {version}\n"))?)
}

/// Copies headers and libraries, and nothing else that the packages have.
fn take_usr(unpacked: &Path, to: &Path) -> Result<(), Failure> {
    for part in ["usr/include", "usr/lib"].map(|part| unpacked.join(part)) {
        output(Command::new("cp").arg("--archive").args([&part, to]))?;
    }
    Ok(())
}

/// Unpacks what the tests use of the archive, whose files are all in a folder `name`.
fn take_source(archive: &Path, name: &str) -> Result<(), Failure> {
    let source = folder().join("source");
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--xz", "--strip-components=1", "--file"]).arg(archive).arg("--directory").arg(&source);
    output(tar.args(PARTS.map(|part| format!("{name}/{part}"))))?;
    let config = source.join(MM).join(CONFIG);
    Ok(fs::write(config, "")?)
}

/// Builds every test that has not been built since it was fetched, as a static program; returns the folder where they are,
/// `target/selftests`.
pub(crate) fn build(say: &mut dyn FnMut(&str)) -> Result<PathBuf, Failure> {
    need()?;
    let to = cargo::metadata()?.target_directory.into_std_path_buf().join("selftests");
    fs::create_dir_all(&to)?;
    let fetched = modified(&folder().join("package"));
    for name in NAMES.into_iter().filter(|name| modified(&to.join(name)) <= fetched) {
        say(&format!("compiling {name}"));
        output(&mut compile(name, &to.join(name)))?;
    }
    Ok(to)
}

/// When a file was written; none if there is none.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// The options are those of Linux's own makefile; `-static`, as our kernel has no dynamic linker.
fn compile(name: &str, to: &Path) -> Command {
    let (compiler, headers, source) = (folder().join("compiler"), folder().join("headers"), folder().join("source"));
    let mut gcc = Command::new(compiler.join("usr/bin").join("aarch64-linux-gnu-gcc"));
    gcc.env("LD_LIBRARY_PATH", compiler.join(format!("usr/lib/{}-linux-gnu", consts::ARCH)));
    gcc.current_dir(source.join(MM)).args(["-static", "-O2", "-w", "-U_FORTIFY_SOURCE", "-I..", "-I"]).arg(&source);
    let systems =
        [headers.join("include"), headers.join("include/aarch64-linux-gnu"), source.join("tools/include/uapi")];
    systems.iter().for_each(|folder| {
        gcc.arg("-isystem").arg(folder);
    });
    gcc.arg("-L").arg(headers.join("lib/aarch64-linux-gnu")).arg("-o").arg(to).arg(format!("{name}.c")).args(SHARED);
    gcc.args(["-lrt", "-lpthread", "-lm", "-lcap"]);
    gcc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_compiled_where_its_sources_are() {
        let command = compile("cow", Path::new("/target/cow"));
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert!(words.windows(4).any(|four| four == ["-o", "/target/cow", "cow.c", "vm_util.c"]), "{words:?}");
        assert!(command.get_current_dir().is_some_and(|folder| folder.ends_with(MM)));
    }
}
