//! A ring between a kernel and a monitor: what is written is read, and numbers that cannot be are believed by nobody.

use std::cell::RefCell;

use kerncore::ring::{READ, ROOM, Shown, TEXT, WRITTEN, Writer, read};
use proptest::prelude::*;

struct Granule(RefCell<[u64; 512]>);

impl Granule {
    fn new() -> Self {
        Self(RefCell::new([0; 512]))
    }

    fn load(&self, index: usize) -> u64 {
        self.0.borrow()[index]
    }

    fn store(&self, index: usize, word: u64) {
        self.0.borrow_mut()[index] = word;
    }

    fn write<'t>(&self, writer: &mut Writer, text: &'t [u8]) -> Option<&'t [u8]> {
        writer.write(text, |index| self.load(index), |index, word| self.store(index, word))
    }

    fn read(&self) -> Option<Vec<u8>> {
        let mut text = [0xaa; ROOM];
        let (count, next) = read(|index| self.load(index), &mut text)?;
        assert!(text[count..].iter().all(|byte| *byte == 0xaa));
        self.store(READ, next);
        Some(text[..count].to_vec())
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(texts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), any::<bool>()), 0..20)) {
        let (granule, mut writer) = (Granule::new(), Writer::default());
        let (mut wrote, mut seen) = (vec![], vec![]);
        for (text, reads) in texts {
            let rest = granule.write(&mut writer, &text).unwrap();
            wrote.extend(&text[..text.len() - rest.len()]);
            prop_assert!(rest.is_empty() || wrote.len() - seen.len() == ROOM);
            if reads {
                seen.extend(granule.read().unwrap());
                prop_assert_eq!(&seen, &wrote);
            }
        }
        prop_assert!((READ + 1..TEXT).all(|index| granule.load(index) == 0));
    }

    #[test]
    fn no_number_is_believed_that_cannot_be(written in any::<u64>(), apart in prop_oneof![0..=2 * ROOM as u64, any::<u64>()]) {
        let granule = Granule::new();
        granule.store(WRITTEN, written);
        granule.store(READ, written.wrapping_sub(apart));
        let found = granule.read().map(|text| text.len() as u64);
        prop_assert_eq!(found, (apart <= ROOM as u64).then_some(apart));
        // The kernel has written nothing yet, whatever its host makes of the first word.
        let (granule, mut writer) = (Granule::new(), Writer::default());
        granule.store(WRITTEN, written);
        granule.store(READ, apart.wrapping_neg());
        let rest = granule.write(&mut writer, &[7; ROOM]).map(<[u8]>::len);
        prop_assert_eq!(rest.map(|rest| rest as u64), (apart <= ROOM as u64).then_some(apart));
    }
}

#[test]
fn a_terminal_obeys_nothing() {
    let shown = |text: &[u8]| Shown(text).to_string();
    assert_eq!(shown(b"one\ntwo \x1b[2J\xff~\n"), "ring: one\nring: two ?[2J?~\n");
    assert_eq!((shown(b""), shown(b"no end")), (String::new(), "ring: no end\n".into()));
    assert_eq!(shown(b"\n\r\n"), "ring: \nring: ?\n");
}
