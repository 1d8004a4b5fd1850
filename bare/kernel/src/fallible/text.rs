//! Texts that may have no memory for what is to be said.

use alloc::string::String;
use core::fmt::{self, Write};

use super::NoMemory;

/// A text of its own.
pub(crate) fn try_text(text: &str) -> Result<String, NoMemory> {
    let mut own = String::new();
    own.try_add(text)?;
    Ok(own)
}

/// A text of what `format!` makes one of, if there is memory for it.
macro_rules! try_format {
    ($($words:tt)*) => {
        $crate::fallible::format(format_args!($($words)*))
    };
}
pub(crate) use try_format;

/// What a text of `alloc` does, if there is memory for it.
pub(crate) trait AddText {
    fn try_add(&mut self, text: &str) -> Result<(), NoMemory>;
}

struct Writer(String);

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_add(text).map_err(|NoMemory| fmt::Error)
    }
}

/// What [`try_format`] makes.
pub(crate) fn format(words: fmt::Arguments) -> Result<String, NoMemory> {
    let mut writer = Writer(String::new());
    writer.write_fmt(words).map_err(|_| NoMemory)?;
    Ok(writer.0)
}

/// Bytes of a text that may be none: what is no text is shown as a mark.
pub(crate) struct Lossy<'b>(pub(crate) &'b [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl AddText for String {
    #[inline(always)]
    fn try_add(&mut self, text: &str) -> Result<(), NoMemory> {
        self.try_reserve(text.len()).map_err(|_| NoMemory)?;
        // The comparison leaves the compiler no way to a text that grows.
        if text.len() <= self.capacity().wrapping_sub(self.len()) {
            self.push_str(text);
        }
        Ok(())
    }
}
