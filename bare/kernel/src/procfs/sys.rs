//! `/sys`: what programs read and write there about folios, in Linux's words.

use alloc::string::String;
use alloc::vec::Vec;

use core::fmt::Write;

use super::areas::line;
use crate::errno::{EACCES, EINVAL, ENOTDIR, Errno};
use crate::facts::page_size;
use crate::fallible::{Arc, List, NoMemory, try_box, try_format, try_text};
use crate::files::inode::{Body, Inode, Made, S_IFDIR, S_IFREG};
use crate::files::{inode, text, tree};
use crate::memory::folios;

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
    /// Whether reads find a block of zeros.
    UsesZeros,
    /// The bytes of a block.
    BlockBytes,
    /// What cannot be changed here: to set what it says already is no error.
    Fixed(&'static str),
}

const FOLDER: &str = "kernel/mm/transparent_hugepage";

/// Nothing is moved or written elsewhere to make room, files and shared memory have no folios, and nobody collapses pages by and by.
const FIXED: [(&str, &str); 9] = [
    ("defrag", "always defer defer+madvise madvise [never]\n"),
    ("khugepaged/alloc_sleep_millisecs", "0\n"),
    ("khugepaged/defrag", "0\n"),
    ("khugepaged/max_ptes_none", "0\n"),
    ("khugepaged/max_ptes_shared", "0\n"),
    ("khugepaged/max_ptes_swap", "0\n"),
    ("khugepaged/pages_to_scan", "0\n"),
    ("khugepaged/scan_sleep_millisecs", "0\n"),
    ("shmem_enabled", "always within_size advise [never] deny force\n"),
];

/// All texts, with their paths.
fn texts() -> Result<Vec<(String, Text)>, NoMemory> {
    let own =
        [("enabled", Text::Enabled(None)), ("hpage_pmd_size", Text::BlockBytes), ("use_zero_page", Text::UsesZeros)];
    let own = own.into_iter().chain(FIXED.map(|(name, text)| (name, Text::Fixed(text))));
    let mut all = Vec::new();
    for (name, text) in own {
        all.try_push((try_format!("{FOLDER}/{name}")?, text))?;
    }
    for order in folios::sizes() {
        let kib = page_size().size_bytes() << order >> 10;
        all.try_push((try_format!("{FOLDER}/hugepages-{kib}kB/enabled")?, Text::Enabled(Some(order))))?;
    }
    Ok(all)
}

/// `/sys`.
pub(super) fn root() -> Result<Arc<Inode>, Errno> {
    Sys { path: String::new(), text: None }.inode()
}

impl Sys {
    fn inode(self) -> Result<Arc<Inode>, Errno> {
        let mode = match self.text {
            None => 0o755,
            Some(Text::Enabled(_) | Text::UsesZeros | Text::Fixed(_)) => 0o644,
            Some(Text::BlockBytes) => 0o444,
        };
        let number = inode::number_of(&[&self.path()?]);
        Ok(Inode::made(Body::Made(try_box(self)?), mode, number)?)
    }

    /// What is at a path, if anything is.
    fn at(path: &str) -> Result<Option<Self>, NoMemory> {
        let all = texts()?;
        let found = all.iter().find(|(known, _)| known == path).map(|(_, text)| *text);
        let is_folder = || all.iter().any(|(known, _)| below(known, path).is_some());
        (found.is_some() || is_folder()).then(|| Ok(Self { path: try_text(path)?, text: found })).transpose()
    }
}

/// What a text says: of several words the one in brackets.
fn chosen(text: &str) -> &str {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(text.trim_end(), |(word, _)| word)
}

/// The rest of a path that lies below a folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

impl Made for Sys {
    fn kind(&self) -> u32 {
        if self.text.is_some() { S_IFREG } else { S_IFDIR }
    }

    fn path(&self) -> Result<String, NoMemory> {
        if self.path.is_empty() { try_text("/sys") } else { try_format!("/sys/{}", self.path) }
    }

    fn is_of_sys(&self) -> bool {
        true
    }

    fn find(&self, name: &str) -> Result<Option<Arc<Inode>>, Errno> {
        let path = match (self.text, name, self.path.rsplit_once('/')) {
            (Some(_), ..) => return Err(ENOTDIR),
            (None, "..", _) if self.path.is_empty() => return Ok(Some(tree::root())),
            (None, "..", above) => above.map_or(Ok(String::new()), |(above, _)| try_text(above))?,
            (None, ..) if self.path.is_empty() => try_text(name)?,
            (None, ..) => try_format!("{}/{name}", self.path)?,
        };
        Self::at(&path)?.map(Self::inode).transpose()
    }

    fn entries(&self) -> Result<Vec<(u64, u32, String)>, Errno> {
        if self.text.is_some() {
            return Err(ENOTDIR);
        }
        let mut all: Vec<(u64, u32, String)> = Vec::new();
        for (path, _) in texts()? {
            let Some(rest) = below(&path, &self.path) else { continue };
            let (kind, name) = rest.split_once('/').map_or((S_IFREG, rest), |(folder, _)| (S_IFDIR, folder));
            if !all.iter().any(|(.., known)| known == name) {
                let number = inode::number_of(&[&self.path()?, "/", name]);
                all.try_push((number, kind, try_text(name)?))?;
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

    fn text(&self) -> text::Text {
        let mut told = text::Text::new();
        match self.text {
            None => {}
            Some(Text::Enabled(order)) => folios::write(order, &mut told),
            Some(Text::UsesZeros) => line!(told, "{}", u32::from(folios::uses_zeros())),
            Some(Text::BlockBytes) => line!(told, "{}", page_size().size_bytes() << folios::block()),
            Some(Text::Fixed(text)) => told.push_str(text),
        }
        told
    }

    fn part(&self, _: u64, _: u64) -> Option<Result<Vec<u8>, Errno>> {
        None
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        // Some write the zero that ends a text along with it.
        let word = core::str::from_utf8(bytes).map_err(|_| EINVAL)?.trim_end_matches('\0').trim_end();
        let is_set = match self.text {
            Some(Text::Enabled(order)) => folios::set(order, word),
            Some(Text::UsesZeros) => ["0", "1"].iter().position(|known| *known == word).is_some_and(|uses| {
                folios::use_zeros(uses == 1);
                true
            }),
            Some(Text::Fixed(text)) => chosen(text) == word,
            Some(Text::BlockBytes) | None => return Err(EACCES),
        };
        if is_set { Ok(()) } else { Err(EINVAL) }
    }
}
