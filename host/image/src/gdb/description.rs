//! The target description: XML that names every register of a stub, with its number. Numbers vary from one version of
//! QEMU to the next, and from one CPU model to another.

use crate::Error;

use super::packet::Connection;

/// A register of the stub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Register {
    pub(crate) name: String,
    pub(crate) number: u32,
}

/// More files than a description includes, more bytes than one has, and more elements.
const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 1 << 20;
const MOST_ELEMENTS: u32 = 1 << 16;

/// Reads `target.xml` and what it includes.
pub(crate) fn read(connection: &mut Connection) -> Result<Vec<Register>, Error> {
    let main = read_file(connection, "target.xml")?;
    let mut registers = Vec::new();
    let mut next = 0;
    parse(&main, &mut next, &mut registers)?;
    for name in includes(&main)?.into_iter().take(MOST_FILES) {
        let text = read_file(connection, &name)?;
        parse(&text, &mut next, &mut registers)?;
    }
    Ok(registers)
}

fn read_file(connection: &mut Connection, name: &str) -> Result<String, Error> {
    let mut text = Vec::new();
    loop {
        let reply = connection.ask(&format!("qXfer:features:read:{name}:{:x},ff0", text.len()))?;
        let Some((kind, more)) = reply.split_first() else {
            return Err(Error::new("the stub has no target description; registers by flags: --ttbr1, --tcr"));
        };
        text.extend_from_slice(more);
        match kind {
            b'l' => return Ok(String::from_utf8_lossy(&text).into_owned()),
            b'm' if !more.is_empty() && text.len() <= MOST_BYTES => {}
            _ => return Err(Error::new(format!("the stub's description {name} cannot be read"))),
        }
    }
}

fn document(text: &str) -> Result<roxmltree::Document<'_>, Error> {
    // An entity may stand for gigabytes; no stub declares one.
    if text.contains("<!ENTITY") {
        return Err(Error::new("the stub's target description declares entities, expected plain XML"));
    }
    let options = roxmltree::ParsingOptions { allow_dtd: true, nodes_limit: MOST_ELEMENTS, ..Default::default() };
    roxmltree::Document::parse_with_options(text, options)
        .map_err(|error| Error::new(format!("the stub's target description: {error}")))
}

/// The files that `xi:include` names.
fn includes(text: &str) -> Result<Vec<String>, Error> {
    let text = undeclared(text);
    let document = document(&text)?;
    let nodes = document.descendants().filter(|node| node.tag_name().name() == "include");
    Ok(nodes.filter_map(|node| node.attribute("href")).map(str::to_owned).collect())
}

/// The text with the prefix of `xi:include` taken off: QEMU uses it without declaring it.
fn undeclared(text: &str) -> String {
    text.replace("<xi:include", "<include")
}

/// A register without a number has the one after its predecessor's.
fn parse(text: &str, next: &mut u32, registers: &mut Vec<Register>) -> Result<(), Error> {
    let text = undeclared(text);
    for node in document(&text)?.descendants().filter(|node| node.tag_name().name() == "reg") {
        let Some(name) = node.attribute("name") else { continue };
        let number = node.attribute("regnum").and_then(|digits| digits.parse().ok()).unwrap_or(*next);
        registers.push(Register { name: name.to_owned(), number });
        *next = number.saturating_add(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_or_follow() {
        let text = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
                    <xi:include href=\"a.xml\"/><feature name=\"f\"><reg name=\"x0\" bitsize=\"64\"/>\
                    <reg name=\"TTBR1_EL1\" regnum=\"86\"/><reg name=\"TCR_EL1\"/></feature></target>";
        let (mut next, mut registers) = (5, Vec::new());
        parse(text, &mut next, &mut registers).expect("a description");
        let numbers: Vec<_> = registers.iter().map(|register| (register.name.as_str(), register.number)).collect();
        assert_eq!(numbers, [("x0", 5), ("TTBR1_EL1", 86), ("TCR_EL1", 87)]);
        assert_eq!(includes(text), Ok(vec!["a.xml".to_owned()]));
        for wrong in ["<target><reg", "<!DOCTYPE t [<!ENTITY a \"b\">]><target>&a;</target>"] {
            assert!(parse(wrong, &mut next, &mut registers).is_err(), "{wrong}");
        }
        for (elements, is_read) in [(MOST_ELEMENTS - 3, true), (MOST_ELEMENTS, false), (10 * MOST_ELEMENTS, false)] {
            let text = format!("<target>{}</target>", "<reg/>".repeat(elements as usize));
            assert_eq!(parse(&text, &mut next, &mut registers).is_ok(), is_read, "{elements}");
        }
    }
}
