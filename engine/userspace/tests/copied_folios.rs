//! What a fork does to the folios of a parent.

use crate::common;

use common::{Kernel, RW, anonymous, can_be_written, leaf_bytes, write};
use vellum_pagetable::HardwareUpdates;
use vellum_userspace::Place;
use vellum_vmsa::Granule4K;

const BASE: u64 = 0x1_0000_0000;

/// A fork lacks tables at first. Then it looks at each page once, and at its copy once more where groups are broken before they are made again.
#[test]
fn a_fork_looks_at_each_page_of_a_folio_once() {
    for (tolerates, looks) in [(true, 1), (false, 2)] {
        let kernel = Kernel::<Granule4K>::new();
        kernel.0.folio_order.set(4);
        kernel.0.tolerates.set(tolerates);
        let parent = kernel.try_space(HardwareUpdates::None).unwrap();
        parent.map(anonymous(Place::Fixed(BASE), 512, RW)).unwrap();
        (0..512).step_by(16).for_each(|page| assert_eq!(write(&parent, BASE + (page << 12), 1), Ok(1)));
        let before = kernel.0.machine.loads.get();
        let child = parent.fork().unwrap();
        let loads = kernel.0.machine.loads.get() - before;
        assert!(loads <= looks * 512 + 128, "{loads}");
        assert_eq!((leaf_bytes(&parent, BASE), leaf_bytes(&child, BASE)), (Some(16 << 12), Some(16 << 12)));
        assert!(!can_be_written(&parent, BASE) && !can_be_written(&child, BASE));
    }
}
