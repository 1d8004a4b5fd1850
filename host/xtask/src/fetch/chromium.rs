//! A browser for the tests of pages: Debian's `chromium-headless-shell` with all its libraries, and a script that runs it.
//!
//! It comes from the host's own sources, so that the host's loader and C library fit.

use std::{
    env::consts,
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    apt::{self, Apt},
    qemu::architecture,
};
use crate::outcome::Failure;

const PACKAGE: &str = "chromium-headless-shell";

/// The script, whether it is there or not.
pub(crate) fn path() -> PathBuf {
    apt::folder().join("chromium/chromium")
}

/// Fetches it, whatever is there.
pub(super) fn fetch() -> Result<(), Failure> {
    let Some(architecture) = architecture() else {
        return Err(Failure::host_lacks(format!("Debian's {PACKAGE} is not looked for on {}", consts::ARCH)));
    };
    let apt = Apt::new(&apt::folder().join("apt"), architecture, None)?;
    apt.update()?;
    if apt.version(PACKAGE)?.is_none() {
        return Err(Failure::host_lacks(format!("the host's package sources have no {PACKAGE}: only Debian does")));
    }
    let (script, root) = (path(), path().with_file_name("root"));
    let _ = fs::remove_file(&script);
    apt.unpack_with_all_it_needs(&[PACKAGE], &root)?;
    fs::write(&script, text(&root))?;
    Ok(fs::set_permissions(&script, Permissions::from_mode(0o755))?)
}

fn text(root: &Path) -> String {
    let triplet = format!("{}-linux-gnu", consts::ARCH);
    let root = root.display();
    format!(
        "#!/bin/sh\nexport LD_LIBRARY_PATH='{root}/usr/lib/{triplet}:{root}/lib/{triplet}:{root}/usr/lib/{triplet}/pulseaudio'\n\
         exec '{root}/usr/lib/chromium/chromium-headless-shell' \"$@\"\n"
    )
}
