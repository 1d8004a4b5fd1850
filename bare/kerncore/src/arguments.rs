//! A program and its arguments as one text, taken apart as a shell does: white space ends an argument, but for what stands in
//! single or double quotes or behind a backslash. `%22` is a double quote, which the kernel's command line keeps for itself, and
//! `%25` a percent sign.

/// Gives `sink` the bytes of every argument, and `None` at the end of each.
pub fn split(text: &str, mut sink: impl FnMut(Option<u8>)) {
    let mut bytes = text.bytes();
    let (mut quote, mut is_open) = (None, false);
    while let Some(byte) = bytes.next() {
        let (byte, is_plain) = match byte {
            b'%' => decoded(&mut bytes),
            _ => (byte, true),
        };
        match (byte, quote) {
            (b'\'' | b'"', None) if is_plain => (quote, is_open) = (Some(byte), true),
            (_, Some(open)) if is_plain && byte == open => quote = None,
            (b'\\', None | Some(b'"')) => {
                let escaped = bytes.next().map(|next| if next == b'%' { decoded(&mut bytes).0 } else { next });
                is_open = true;
                sink(Some(escaped.unwrap_or(byte)));
            }
            (_, None) if byte.is_ascii_whitespace() => {
                if is_open {
                    sink(None);
                }
                is_open = false;
            }
            _ => {
                is_open = true;
                sink(Some(byte));
            }
        }
    }
    if is_open {
        sink(None);
    }
}

/// What stands behind a percent sign, and whether it may be a quote that a shell sees: `%22` is one.
fn decoded(bytes: &mut core::str::Bytes<'_>) -> (u8, bool) {
    let mut ahead = bytes.clone();
    match (ahead.next(), ahead.next()) {
        (Some(b'2'), Some(b'2')) => {
            *bytes = ahead;
            (b'"', true)
        }
        (Some(b'2'), Some(b'5')) => {
            *bytes = ahead;
            (b'%', false)
        }
        _ => (b'%', false),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;
    use std::vec::Vec;

    fn split(text: &str) -> Vec<String> {
        let (mut all, mut one) = (Vec::new(), Vec::new());
        super::split(text, |byte| match byte {
            Some(byte) => one.push(byte),
            None => all.push(String::from_utf8(std::mem::take(&mut one)).expect("what went in is UTF-8")),
        });
        assert!(one.is_empty());
        all
    }

    #[test]
    fn a_shell_would_take_it_apart_so() {
        assert_eq!(split(" busybox  sh -c 'echo hello; ls /' "), ["busybox", "sh", "-c", "echo hello; ls /"]);
        assert_eq!(split(r"a\ b '' %22c 'd%22 e"), ["a b", "", "c 'd", "e"]);
        assert_eq!(split(r"'%22x%22' date%20+%25s \%22 \'"), ["\"x\"", "date%20+%s", "\"", "'"]);
        assert_eq!(split("é 'open"), ["é", "open"]);
        assert!(split(" \t").is_empty());
        assert_eq!(split("100% a\\"), ["100%", "a\\"]);
    }
}
