//! Well-formed device trees that are made to take long: for each thing that a careless reader searches, as much of it as fits.

/// Writes a blob token by token.
#[derive(Default)]
struct Writer {
    structure: Vec<u8>,
    strings: Vec<u8>,
}

impl Writer {
    fn word(&mut self, word: u32) {
        self.structure.extend(word.to_be_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.structure.extend(bytes);
        self.structure.resize(self.structure.len().next_multiple_of(4), 0);
    }

    fn begin(&mut self, name: &str) {
        self.word(1);
        self.padded(format!("{name}\0").as_bytes());
    }

    fn end(&mut self) {
        self.word(2);
    }

    /// The offset of a name in the strings block, where it may be shared.
    fn name(&mut self, name: &str) -> u32 {
        let name = format!("{name}\0");
        let found = self.strings.windows(name.len()).position(|window| window == name.as_bytes());
        found.unwrap_or_else(|| {
            self.strings.extend(name.as_bytes());
            self.strings.len() - name.len()
        }) as u32
    }

    fn property_at(&mut self, name_offset: u32, value: &[u8]) {
        self.word(3);
        self.word(value.len() as u32);
        self.word(name_offset);
        self.padded(value);
    }

    fn property(&mut self, name: &str, value: &[u8]) {
        let offset = self.name(name);
        self.property_at(offset, value);
    }

    fn finish(mut self) -> Vec<u8> {
        self.word(9);
        let (structure, strings) = (self.structure.len() as u32, self.strings.len() as u32);
        let header = [0xd00d_feed, 56 + structure + strings, 56, 56 + structure, 40, 17, 16, 0, strings, structure];
        let mut blob: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        blob.extend([0; 16]);
        blob.extend(self.structure);
        blob.extend(self.strings);
        blob
    }
}

/// A tree with `inside` in its root, which takes about `bytes`.
fn tree(inside: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.begin("");
    inside(&mut writer);
    writer.end();
    writer.finish()
}

fn fill(writer: &mut Writer, bytes: usize, mut more: impl FnMut(&mut Writer)) {
    while writer.structure.len() < bytes {
        more(writer);
    }
}

/// Blobs of about `bytes`, each with a label.
pub(crate) fn blobs(bytes: usize) -> [(&'static str, Vec<u8>); 9] {
    [
        ("properties with an endless name", tree(|writer| endless_name(writer, bytes))),
        ("nested without end", tree(|writer| nested(writer, bytes / 12))),
        ("windows and who must look through them", tree(|writer| windows(writer, bytes))),
        ("banks", tree(|writer| banks(writer, bytes))),
        ("reservations", tree(|writer| reservations(writer, bytes))),
        ("CPUs", tree(|writer| cpus(writer, bytes))),
        ("a long path and many nodes that begin like it", tree(|writer| long_path(writer, bytes))),
        ("a long alias and many that begin like it", tree(|writer| long_alias(writer, bytes))),
        ("interrupt controllers in a row", tree(|writer| controllers(writer, bytes))),
    ]
}

fn endless_name(writer: &mut Writer, bytes: usize) {
    writer.strings = vec![b'a'; bytes / 2];
    writer.strings.push(0);
    fill(writer, bytes / 2, |writer| writer.property_at(0, &[]));
}

fn nested(writer: &mut Writer, depth: usize) {
    (0..depth).for_each(|_| writer.begin("a"));
    (0..depth).for_each(|_| writer.end());
}

fn windows(writer: &mut Writer, bytes: usize) {
    writer.begin("soc");
    writer.property("ranges", &(0..bytes as u32 / 8).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
    for (compatible, end) in [("arm,gic-v3\0", bytes * 3 / 4), ("arm,pl011\0", bytes)] {
        fill(writer, end, |writer| {
            writer.begin("device");
            writer.property("compatible", compatible.as_bytes());
            writer.property("reg", &[0xff; 16]);
            writer.end();
        });
    }
    writer.end();
}

fn banks(writer: &mut Writer, bytes: usize) {
    writer.begin("memory");
    let banks = (0..bytes as u32 / 12).rev().flat_map(|bank| [0, bank * 0x2000, 0x1000].map(u32::to_be_bytes));
    writer.property("reg", &banks.flatten().collect::<Vec<_>>());
    writer.end();
}

fn reservations(writer: &mut Writer, bytes: usize) {
    writer.begin("reserved-memory");
    fill(writer, bytes, |writer| {
        writer.begin("frame");
        writer.property("reg", &[1; 12]);
        writer.end();
    });
    writer.end();
}

fn cpus(writer: &mut Writer, bytes: usize) {
    writer.begin("cpus");
    let mut affinity = 0u64;
    fill(writer, bytes, |writer| {
        writer.begin("cpu@0");
        writer.property("reg", &(affinity % 0x100_0000).to_be_bytes());
        writer.end();
        affinity += 1;
    });
    writer.end();
}

fn long_path(writer: &mut Writer, bytes: usize) {
    let name = "a".repeat(240);
    writer.begin("chosen");
    writer.property("stdout-path", format!("/{name}b\0").as_bytes());
    writer.end();
    fill(writer, bytes, |writer| {
        writer.begin(&name);
        writer.end();
    });
}

fn long_alias(writer: &mut Writer, bytes: usize) {
    let name = "a".repeat(250);
    writer.begin("chosen");
    writer.property("stdout-path", format!("{name}b\0").as_bytes());
    writer.end();
    writer.begin("aliases");
    fill(writer, bytes, |writer| writer.property(&name, b"/\0"));
    writer.end();
}

fn controllers(writer: &mut Writer, bytes: usize) {
    let mut phandle = 1u32;
    fill(writer, bytes, |writer| {
        writer.begin("timer");
        writer.property("compatible", b"arm,armv8-timer\0arm,gic-400\0");
        writer.property("interrupt-controller", &[]);
        writer.property("phandle", &phandle.to_be_bytes());
        writer.property("interrupt-parent", &(phandle + 1).to_be_bytes());
        writer.end();
        phandle += 1;
    });
}
