//! `/sys`: what programs read and write there about folios, in Linux's words.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::inode::{Body, Inode, Made, S_IFDIR, S_IFREG};
use crate::facts::page_size;
use crate::memory::folios;
use crate::process::errno::{EACCES, EINVAL, ENOTDIR, Errno};

/// A place of `/sys`, by its path below it, which is empty of `/sys` itself.
pub(super) struct Sys {
    path: String,
    text: Option<Text>,
}

/// A text.
#[derive(Clone, Copy)]
enum Text {
    /// When there are folios, of all sizes or of one order.
    Enabled(Option<u32>),
    /// The bytes of a block.
    BlockBytes,
    /// Nothing is moved or written elsewhere to make room.
    Defrag,
    /// There is no large page of zeros.
    LargeZeros,
}

const FOLDER: &str = "kernel/mm/transparent_hugepage";

/// All texts, with their paths.
fn texts() -> Vec<(String, Text)> {
    let own = [
        ("defrag", Text::Defrag),
        ("enabled", Text::Enabled(None)),
        ("hpage_pmd_size", Text::BlockBytes),
        ("use_zero_page", Text::LargeZeros),
    ];
    let own = own.into_iter().map(|(name, text)| (alloc::format!("{FOLDER}/{name}"), text));
    let sizes = folios::sizes().map(|order| {
        let kib = page_size().size_bytes() << order >> 10;
        (alloc::format!("{FOLDER}/hugepages-{kib}kB/enabled"), Text::Enabled(Some(order)))
    });
    own.chain(sizes).collect()
}

/// `/sys`.
pub(super) fn root() -> Arc<Inode> {
    Sys { path: String::new(), text: None }.inode()
}

impl Sys {
    fn inode(self) -> Arc<Inode> {
        let mode = match self.text {
            None => 0o755,
            Some(Text::Enabled(_)) => 0o644,
            Some(_) => 0o444,
        };
        Inode::new(Body::Made(Box::new(self)), mode)
    }

    /// What is at a path, if anything is.
    fn at(path: &str) -> Option<Self> {
        let all = texts();
        let found = all.iter().find(|(known, _)| known == path).map(|(_, text)| *text);
        let is_folder = || all.iter().any(|(known, _)| below(known, path).is_some());
        (found.is_some() || is_folder()).then(|| Self { path: path.to_string(), text: found })
    }
}

/// The rest of a path that lies below a folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

impl Made for Sys {
    fn kind(&self) -> u32 {
        if self.text.is_some() { S_IFREG } else { S_IFDIR }
    }

    fn path(&self) -> String {
        alloc::format!("/sys/{}", self.path).trim_end_matches('/').to_string()
    }

    fn find(&self, name: &str) -> Result<Option<Arc<Inode>>, Errno> {
        let path = match (self.text, name, self.path.rsplit_once('/')) {
            (Some(_), ..) => return Err(ENOTDIR),
            (None, "..", _) if self.path.is_empty() => return Ok(Some(super::tree::root())),
            (None, "..", above) => above.map_or("", |(above, _)| above).to_string(),
            (None, ..) if self.path.is_empty() => name.to_string(),
            (None, ..) => alloc::format!("{}/{name}", self.path),
        };
        Ok(Self::at(&path).map(Self::inode))
    }

    fn entries(&self) -> Result<Vec<(u64, u32, String)>, Errno> {
        if self.text.is_some() {
            return Err(ENOTDIR);
        }
        let mut all: Vec<(u64, u32, String)> = Vec::new();
        for (path, _) in texts() {
            let Some(rest) = below(&path, &self.path) else { continue };
            let (kind, name) = rest.split_once('/').map_or((S_IFREG, rest), |(folder, _)| (S_IFDIR, folder));
            if !all.iter().any(|(.., known)| known == name) {
                all.push((1, kind, name.to_string()));
            }
        }
        Ok(all)
    }

    fn link(&self) -> Result<String, Errno> {
        Err(EINVAL)
    }

    fn follow(&self) -> Result<Arc<Inode>, Errno> {
        Err(EINVAL)
    }

    fn text(&self) -> super::text::Text {
        let text = match self.text {
            None => String::new(),
            Some(Text::Enabled(order)) => folios::text(order),
            Some(Text::BlockBytes) => alloc::format!("{}\n", page_size().size_bytes() << folios::block()),
            Some(Text::Defrag) => String::from("always defer defer+madvise madvise [never]\n"),
            Some(Text::LargeZeros) => String::from("0\n"),
        };
        text.into()
    }

    fn part(&self, _: u64, _: u64) -> Option<Result<Vec<u8>, Errno>> {
        None
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        let Some(Text::Enabled(order)) = self.text else { return Err(EACCES) };
        let word = core::str::from_utf8(bytes).map_err(|_| EINVAL)?.trim_end();
        if folios::set(order, word) { Ok(()) } else { Err(EINVAL) }
    }
}
