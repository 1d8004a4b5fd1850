//! A text that is made when it is opened: in parts, so that no text needs a large block.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::fallible::List;

/// Bytes of a part.
const PART: usize = 4 << 10;

/// A text.
#[derive(Default)]
pub(crate) struct Text {
    /// All but the last are full.
    parts: Vec<Vec<u8>>,
    is_cut: bool,
}

impl Text {
    pub(crate) const fn new() -> Self {
        Self { parts: Vec::new(), is_cut: false }
    }

    /// There is no memory for the rest.
    pub(crate) const fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Whether there was no memory for the rest.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What stands at an offset, up to the end of a part; nothing behind the text.
    pub(crate) fn at(&self, offset: u64) -> &[u8] {
        let (part, byte) = (offset / PART as u64, offset % PART as u64);
        let part = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
        part.and_then(|part| part.get(byte as usize..)).unwrap_or_default()
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_cut {
            if self.parts.last().is_none_or(|part| part.len() == PART) {
                self.is_cut = self.parts.try_push(Vec::new()).is_err();
                continue;
            }
            let Some(part) = self.parts.last_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(PART - part.len()));
            self.is_cut = part.try_extend_from(now).is_err();
            bytes = later;
        }
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        let mut text = Self::new();
        text.push(&bytes);
        text
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}
