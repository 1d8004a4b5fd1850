//! The live upper half: the one place where it is edited.

use common::supply::ChangeError;
use hardware::lock::Lock;
use hardware::platform::Hardware;
use pagetable::{Change, Licence};
use vmsa::AddressHalf;

use crate::cpus::walkers;
use crate::facts::facts;
use crate::memory::pages::Pages;
use crate::memory::tables::{AnyTable, CAUTIOUS};

/// Who holds it, alone edits the upper half.
static EDITOR: Lock<()> = Lock::new(());

/// The upper half, to read or, with the editor's lock, to change.
pub(crate) fn read() -> AnyTable {
    let offset = facts().linear.offset();
    // SAFETY: every table comes from RAM, which the linear map holds writable; editing is for who holds the lock; and
    // what is changed is stacks of CPUs that do not run yet and the self-checks' own range, which no reference leads
    // to.
    let hardware = unsafe { Hardware::new(offset) };
    let regime = pagetable::El1 { tlb: walkers::tlb_features(), ..CAUTIOUS };
    AnyTable::read_current(hardware, AddressHalf::Upper, regime).expect("this CPU runs by what `Shape` encoded")
}

/// The lower half, to read.
pub(crate) fn read_lower() -> AnyTable {
    let lower = AnyTable::read_current(read().hardware(), AddressHalf::Lower, CAUTIOUS);
    lower.expect("this CPU runs by what `Shape` encoded")
}

/// Makes changes, all or none. Leaves may be broken before they are remade if nobody else can meet the window:
/// `may_break`.
pub(crate) fn change(changes: &[Change<pagetable::El1>], may_break: bool) -> Result<(), ChangeError> {
    EDITOR.with(|guard| {
        // Interrupts are masked while the lock is held, and nothing of this code lies in what is broken.
        let licence = may_break.then(|| Licence::break_before_make(guard));
        read().change(changes, licence.as_ref(), &mut Pages)
    })
}

/// A CPU may walk the upper half from now on, and what has been changed before it has not met: an edit under way goes by the
/// CPUs that it knows, and its TLBIs may do nothing on another.
pub(crate) fn admit(cpu: usize) {
    EDITOR.with(|_| walkers::admit(cpu));
}
