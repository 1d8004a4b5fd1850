//! Text from outside (a device tree, a command line), which may hold anything and is still printed as one clear line.

use core::fmt::{self, Write};

/// Bytes that ought to be text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

/// How many bytes of a text are printed before `...` stands for the rest.
const PRINTED_BYTES: usize = 64;

impl<'a> Text<'a> {
    /// The bytes of `text`.
    pub const fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

/// Printable ASCII as it is, every other byte as `?`; a long text is cut, but not by `{:#}`.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printed = if f.alternate() { self.0.len() } else { PRINTED_BYTES };
        for &byte in self.0.iter().take(printed) {
            f.write_char(if matches!(byte, b' '..=b'~') { byte as char } else { '?' })?;
        }
        if self.0.len() > printed { f.write_str("...") } else { Ok(()) }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
