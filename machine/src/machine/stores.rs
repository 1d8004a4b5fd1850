//! Stores and exchanges by physical address.

use super::Machine;
use crate::descriptor::VALID;

impl Machine {
    /// A plain 64-bit store.
    pub fn store(&mut self, cpu: u8, address: u64, value: u64) {
        self.event += 1;
        self.cpus[cpu as usize].stored = self.event;
        let address = address & !7;
        self.may.freed.forget(address);
        if self.may.index.is_plain(address) {
            return self.may.store(cpu, address, value);
        }
        self.check_lost_update(cpu, address, value);
        self.store_descriptor(cpu, address, value, false);
    }

    /// A 64-bit store-release: ordered after every earlier store of `cpu`.
    pub fn store_release(&mut self, cpu: u8, address: u64, value: u64) {
        self.make_release(cpu);
        self.store(cpu, address, value);
    }

    /// Makes what `cpu` stores next a release: ordered after every earlier store of `cpu`.
    pub fn make_release(&mut self, cpu: u8) {
        self.may.order_stores(cpu);
        self.may.visible.settle_stores(cpu, self.event);
    }

    /// `cpu` gives a lock away: what it stored is settled. Of its own later stores that says nothing.
    pub fn unlock(&mut self, cpu: u8) {
        self.event += 1;
        self.may.visible.settle_by_lock(cpu, self.event);
        self.may.settle_unseen(cpu, self.event);
    }

    /// `cpu` takes a lock: it has seen all that was settled. Any DSB is taken to wait for that, as for an exchange (see CAVEATS.md).
    pub fn lock(&mut self, cpu: u8) {
        self.event += 1;
        let it = &mut self.cpus[cpu as usize];
        (it.loaded, it.stored, it.locked) = (self.event, self.event, self.event);
    }

    /// A 64-bit compare-and-exchange. Single-copy atomic with hardware's updates; it orders nothing but after
    /// [`Machine::make_release`].
    ///
    /// # Errors
    /// What was there instead; nothing is stored then.
    pub fn compare_exchange(&mut self, cpu: u8, address: u64, expected: u64, value: u64) -> Result<u64, u64> {
        let found = self.may.memory.word(address);
        if found != expected {
            self.event += 1;
            self.see(cpu, address);
            return Err(found);
        }
        self.replace(cpu, address, value, true);
        Ok(found)
    }

    /// A 64-bit exchange; returns what was there. It orders nothing but after [`Machine::make_release`].
    pub fn exchange(&mut self, cpu: u8, address: u64, value: u64) -> u64 {
        self.replace(cpu, address, value, false)
    }

    /// An exchange; `is_compared` when it is sure what it replaces.
    fn replace(&mut self, cpu: u8, address: u64, value: u64, is_compared: bool) -> u64 {
        self.event += 1;
        let address = address & !7;
        self.see(cpu, address);
        self.cpus[cpu as usize].stored = self.event;
        self.may.freed.forget(address);
        let found = self.may.memory.word(address);
        if self.may.index.is_plain(address) {
            self.may.store(cpu, address, value);
        } else {
            self.store_descriptor(cpu, address, value, is_compared);
        }
        found
    }

    /// A load of the word at `address`, now.
    pub(super) fn see(&mut self, cpu: u8, address: u64) {
        self.may.visible.observe(cpu, address & !7, self.event);
        self.cpus[cpu as usize].loaded = self.event;
    }

    fn store_descriptor(&mut self, cpu: u8, word: u64, value: u64, is_compared: bool) {
        let old = self.may.memory.word(word);
        if old == value {
            return;
        }
        self.may.store(cpu, word, value);
        if is_compared {
            self.may.forget_unset(word, old);
        }
        self.may.note_unset(word, value, self.event);
        self.check_linked(cpu, word, value);
        self.index_above(word, value);
        self.check_ground(cpu, word, old, value);
        self.check_store(cpu, word, old, value);
        self.check_returned(cpu);
    }

    /// Stage 2 may have moved tables of stage 1.
    fn index_above(&mut self, word: u64, value: u64) {
        if value & VALID == 0 {
            return;
        }
        for place in self.may.places_of(word).iter() {
            self.may.index_above(place.space, place.start, place.last);
        }
    }
}
