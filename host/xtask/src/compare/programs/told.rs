//! What a boot tells of programs: text between marks that the guest's script prints.

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// As a shell tells it: the program's status, or 128 and the signal.
    With(i32),
    /// Neither the program nor its time limit ended it, or the kernel ended first; with the last that the kernel said.
    Never(String),
}

/// What one program said, and its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) lines: Vec<String>,
    pub(crate) end: End,
}

/// What the script prints before a program runs, before what the program said, and after that with the status.
pub(super) const BEGIN: &str = "@@begin ";
pub(super) const OUTPUT: &str = "@@output ";
pub(super) const END: &str = "@@end ";

/// Reads a boot's text. Programs that were begun and did not end come last, at most one.
pub(super) fn read(output: &[u8]) -> Vec<(String, Told)> {
    let text = String::from_utf8_lossy(output);
    let mut all = Vec::new();
    // The program that runs; what the kernel said since it began, until its own lines begin.
    let mut running: Option<(String, Vec<String>)> = None;
    let mut own: Option<Vec<String>> = None;
    for line in text.split('\n').map(|line| line.trim_end_matches('\r')) {
        if let Some(name) = line.strip_prefix(BEGIN) {
            running = Some((name.to_string(), Vec::new()));
            own = None;
        } else if line.starts_with(OUTPUT) && own.is_none() {
            own = Some(Vec::new());
        } else if let Some(ended) = line.strip_prefix(END) {
            let status = ended.rsplit(' ').next().and_then(|status| status.parse().ok());
            if let (Some((name, _)), Some(mut lines), Some(status)) = (running.take(), own.take(), status) {
                // The script ends the last line, whether the program did or not.
                if lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                all.push((name, Told { lines, end: End::With(status) }));
            }
        } else if let Some(own) = &mut own {
            own.push(line.to_string());
        } else if let Some((_, said)) = &mut running {
            said.push(line.to_string());
        }
    }
    if let Some((name, said)) = running {
        let last = said.iter().rev().find(|line| !line.is_empty()).cloned().unwrap_or_default();
        all.push((name, Told { lines: own.unwrap_or_default(), end: End::Never(last) }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_read_program_by_program() {
        let text = b"kernel\r\n@@begin a\r\nout of memory\r\n@@output a\r\none\r\n\r\ntwo\r\n@@end a 3\r\n@@begin b\r\n@@output b\r\n\r\n\
                     @@end b 0\r\n@@begin c\r\npanic: why\r\n\r\n";
        let told = read(text);
        let line = |text: &str| text.to_string();
        assert_eq!(
            told,
            [
                ("a".into(), Told { lines: vec![line("one"), line(""), line("two")], end: End::With(3) }),
                ("b".into(), Told { lines: vec![], end: End::With(0) }),
                ("c".into(), Told { lines: vec![], end: End::Never("panic: why".into()) }),
            ]
        );
    }
}
