//! The engine reads descriptors where no CPU asks.

use pagetable::Platform;

/// The engine reads descriptors where no CPU asks: for hardware's own updates and for stories.
pub(crate) struct Peek<'m>(pub(crate) &'m machine::machine::Machine);

impl Platform for Peek<'_> {
    fn load(&self, slot: pagetable::Slot) -> vmsa::Descriptor {
        vmsa::Descriptor::new(self.0.word(slot.address().bits()))
    }

    fn store(&self, _: pagetable::Slot, _: vmsa::Descriptor) {}

    fn exchange(&self, _: pagetable::Slot, _: vmsa::Descriptor, _: vmsa::Descriptor) -> Result<(), vmsa::Descriptor> {
        Ok(())
    }

    fn maintain(&self, _: vmsa::Maintenance) {}
}
