//! A Linux for guests: Debian's kernel, a static busybox, and an init of ours.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{
    apt::{self, Apt},
    cpio::Archive,
    image,
};
use crate::{cargo, outcome::Failure};

/// The suite with today's Linux.
pub(crate) const TODAY: &str = "trixie-backports";

/// Which Linux: the suite it is from, where that is not the host's own, and its pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) suite: Option<String>,
    pub(crate) has_16k_pages: bool,
}

/// What is fetched, and how a guest is made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Linux {
    pub(crate) kernel: PathBuf,
    pub(crate) busybox: PathBuf,
    /// A few of its modules, in the order of their names.
    pub(crate) modules: Vec<PathBuf>,
    /// The package of the kernel.
    pub(crate) name: String,
}

/// Modules that need no other one.
const MODULES: [&str; 5] = ["camellia_generic", "md4", "rmd160", "streebog_generic", "wp512"];

/// The guest mounts what a reader of its memory needs, runs vellum if it has one, says that it is ready, and idles.
const INIT: &str = include_str!("init.sh");

/// The guest of a monitor tells what it sees, and ends the machine.
const MONITORED: &str = include_str!("monitored.sh");

impl Kind {
    /// The host's own, with 4K pages.
    pub(crate) const HOST: Kind = Kind { suite: None, has_16k_pages: false };

    /// The newest of [`TODAY`].
    pub(crate) fn today(has_16k_pages: bool) -> Kind {
        Kind { suite: Some(TODAY.to_owned()), has_16k_pages }
    }

    /// The newest, or the host's own, which has 4K pages.
    pub(crate) fn of(page_size: &str, which: &str) -> Kind {
        let has_16k_pages = page_size == "16k";
        if has_16k_pages || which == "today" { Kind::today(has_16k_pages) } else { Kind::HOST }
    }

    fn flavour(&self) -> &'static str {
        if self.has_16k_pages { "-16k" } else { "" }
    }

    /// Debian's package that depends on the current kernel of this kind.
    fn package(&self) -> String {
        format!("linux-image-arm64{}", self.flavour())
    }

    fn folder(&self) -> PathBuf {
        let suite = self.suite.as_ref().map_or(String::new(), |suite| format!("-{suite}"));
        apt::folder().join(format!("linux{suite}{}", self.flavour()))
    }

    /// What has been fetched, if it has.
    pub(crate) fn find(&self) -> Option<Linux> {
        let folder = self.folder();
        let name = fs::read_to_string(folder.join("package")).ok()?.trim().to_owned();
        let modules = MODULES.iter().map(|module| folder.join(format!("{module}.ko"))).filter(|path| path.exists());
        let modules = modules.collect();
        let linux = Linux { kernel: folder.join("vmlinuz"), busybox: folder.join("busybox"), modules, name };
        [&linux.kernel, &linux.busybox].iter().all(|path| path.exists()).then_some(linux)
    }

    /// What has been fetched, or the one line that says how to.
    pub(crate) fn need(&self) -> Result<Linux, Failure> {
        let suite = self.suite.as_ref().map_or(String::new(), |suite| format!(" linux --suite {suite}"));
        let line = || format!("there is no such arm64 Linux here: cargo xtask fetch{suite}");
        self.find().ok_or_else(|| Failure::host_lacks(line()))
    }

    /// Fetches it, whatever is there.
    pub(crate) fn fetch(&self) -> Result<Linux, Failure> {
        let apt = Apt::new(&apt::folder().join("apt"), "arm64", self.suite.as_deref())?;
        apt.update()?;
        let kernel = apt.newest_kernel(&self.package())?;
        // Newer kernels have their modules in a package of their own.
        let modules = kernel.replacen("linux-binary-", "linux-modules-", 1);
        let both = [kernel.as_str(), &modules];
        let packages = &both[..if modules == kernel { 1 } else { 2 }];
        let unpacked = apt.unpack(&[packages, &["busybox-static"]].concat(), 60)?;
        let folder = self.folder();
        fs::create_dir_all(&folder)?;
        // The package's name comes last: without it, nothing counts as fetched.
        let package = folder.join("package");
        let _ = fs::remove_file(&package);
        take(&kernel_folder(&unpacked), "vmlinuz", &folder.join("vmlinuz"))?;
        image::unpack(&folder.join("vmlinuz"))?;
        let bins = ["bin", "usr/bin"].map(|bin| unpacked.join(bin));
        let busybox = bins.into_iter().find(|bin| bin.join("busybox").exists());
        take(&busybox.unwrap_or(unpacked.clone()), "busybox", &folder.join("busybox"))?;
        for module in MODULES {
            take_module(&unpacked, module, &folder.join(format!("{module}.ko")))?;
        }
        // What is left is ten times as large.
        let _ = fs::remove_dir_all(&unpacked);
        fs::write(&package, format!("{kernel}\n"))?;
        self.find().ok_or_else(|| Failure::failed("what was fetched is not complete"))
    }
}

/// Where packages keep the kernel: in boot, newer ones beside its modules.
fn kernel_folder(unpacked: &Path) -> PathBuf {
    let modules = unpacked.join("usr/lib/modules");
    let versions = fs::read_dir(modules).into_iter().flatten().flatten().map(|entry| entry.path());
    versions.into_iter().find(|folder| folder.join("vmlinuz").exists()).unwrap_or(unpacked.join("boot"))
}

/// Copies the file of a folder whose name starts with `prefix`.
fn take(folder: &Path, prefix: &str, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(folder)?;
    let starts = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    let Some(entry) = entries.flatten().find(starts) else {
        return Err(Failure::failed(format!("{}: no {prefix}… in the package", folder.display())));
    };
    fs::copy(entry.path(), to)?;
    Ok(())
}

/// Copies a module, wherever it is, and unpacks it if it is compressed.
fn take_module(unpacked: &Path, module: &str, to: &Path) -> Result<(), Failure> {
    let mut folders = vec![unpacked.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if name == format!("{module}.ko.xz") {
                let packed = fs::read(&path)?;
                return image::decompress("xz", &packed, to);
            } else if name == format!("{module}.ko") {
                return Ok(fs::copy(&path, to).map(drop)?);
            }
        }
    }
    Err(Failure::failed(format!("{}: no {module}.ko in the packages", unpacked.display())))
}

impl Linux {
    /// Where something that is built of it goes: `target/linux`, in a folder as it was fetched to.
    pub(crate) fn built(&self, name: &str) -> Result<PathBuf, Failure> {
        let fetched = self.kernel.parent().and_then(Path::file_name).unwrap_or_default();
        let folder = cargo::metadata()?.target_directory.into_std_path_buf().join("linux").join(fetched);
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }

    /// Writes a guest's initial file system to `to`: busybox, an init that idles, and `vellum` if there is one.
    pub(crate) fn write_initramfs(&self, vellum: Option<&Path>, to: &Path) -> Result<(), Failure> {
        self.write_with(
            INIT,
            &vellum.map(|it| ("bin/vellum".to_owned(), it.to_owned())).into_iter().collect::<Vec<_>>(),
            to,
        )
    }

    /// Writes the initial file system of a monitor's guest to `to`.
    pub(crate) fn write_monitored(&self, to: &Path) -> Result<(), Failure> {
        self.write_with(MONITORED, &[], to)
    }

    /// Writes an initial file system with `init` and these files, by the names that they have there.
    pub(crate) fn write_with(&self, init: &str, files: &[(String, PathBuf)], to: &Path) -> Result<(), Failure> {
        let mut archive = Archive::new();
        for folder in ["bin", "dev", "modules", "proc", "programs", "sys", "tmp"] {
            archive.folder(folder);
        }
        archive.console("dev/console");
        archive.program("bin/busybox", &fs::read(&self.busybox)?);
        archive.program("init", init.as_bytes());
        for (name, file) in files {
            archive.program(name, &fs::read(file)?);
        }
        Ok(fs::write(to, archive.finish())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_a_folder() {
        let kinds = [Kind::HOST, Kind::today(false), Kind::today(true)];
        let folders = kinds.each_ref().map(Kind::folder);
        assert!(folders.iter().all(|one| folders.iter().filter(|other| one == *other).count() == 1), "{folders:?}");
        assert_eq!(kinds[2].package(), "linux-image-arm64-16k");
    }
}
