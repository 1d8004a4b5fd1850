//! The monitor beneath, where there is one: it hears of live leaves that change size.

use core::ops::Range;

use hardware::psci::Conduit;
use hardware::{conflict, hypercall};
use kerncore::devicetree::Psci;
use kerncore::monitor::{ENDS_CONFLICTS, FEATURES_FUNCTION, UID_FUNCTION, is_ours};
use kerncore::ring::PRINT_FUNCTION;
use vmsa::{PhysAddr, VirtAddr};

use crate::cpus::firmware;
use crate::facts::facts;
use crate::locks::{Lock, order};

/// Whether our monitor is beneath a kernel that was entered at this level. Where no firmware is told of, a call could be undefined.
pub(crate) fn is_there(exception_level: u64, psci: Option<&Psci>) -> bool {
    let asked = psci.filter(|_| exception_level == 1);
    asked.is_some_and(|psci| is_ours(hypercall::call(firmware::conduit(psci), UID_FUNCTION, [0; 4])))
}

/// Whether our monitor, which is there, has a TLBI VMALLE1 of EL1 end a TLB conflict whatever stage 2 has to do with it.
pub(crate) fn ends_conflicts() -> bool {
    let [features, ..] = hypercall::call(Conduit::Hvc, FEATURES_FUNCTION, [0; 4]);
    // NOT_SUPPORTED has every bit set.
    (features as i64) >= 0 && features & ENDS_CONFLICTS != 0
}

/// Has our monitor, which is there, print what is in a ring that is shared at this address; gives how many bytes it printed.
pub(crate) fn print_ring(psci: &Psci, ring: PhysAddr) -> Option<u64> {
    let [printed, ..] = hypercall::call(firmware::conduit(psci), PRINT_FUNCTION, [ring.bits(), 0, 0, 0]);
    ((printed as i64) >= 0).then_some(printed)
}

/// Who hears of the same things: these leaves change size while the function that is called runs the other.
pub(crate) type Watcher = fn(&[Range<VirtAddr>], &mut dyn FnMut());

static WATCHER: Lock<Option<Watcher>> = Lock::new(order::WATCHER, None);

/// From now on this one hears, where there is a monitor.
pub(crate) fn watch(watcher: Option<Watcher>) {
    WATCHER.with(|slot| *slot = watcher);
}

/// Tells the handler of conflicts, and the monitor if there is one, that these leaves change size while `resize` runs.
pub(crate) fn announce(leaves: &[Range<VirtAddr>], resize: &mut dyn FnMut()) {
    conflict::expect();
    if !facts().has_monitor {
        return resize();
    }
    let bits = |leaf: &Range<VirtAddr>| leaf.start.bits()..leaf.end.bits();
    // What it has no room to note, it does nothing about.
    leaves.iter().for_each(|leaf| _ = hypercall::begin_resize(bits(leaf)));
    match WATCHER.with(|watcher| *watcher) {
        Some(watcher) => watcher(leaves, resize),
        None => resize(),
    }
    leaves.iter().for_each(|leaf| _ = hypercall::end_resize(bits(leaf)));
}
