//! Rust between the pieces, which is not executed: what it stores and loads, and what a piece must leave to it.

use crate::finding::{Finding, Found};
use crate::lab::REGISTERS;
use crate::run::{Run, Stop, unsynchronized};

impl Run<'_> {
    /// What Rust would store: a word at a physical address, through the caches or past them. Errors: a cache is in the way.
    pub fn store(&mut self, cpu: usize, physical: u64, value: u64, is_through: bool) -> Result<(), Found> {
        let seen = self.caches.store(physical, is_through);
        self.state.machine_mut().store(cpu as u8, physical, value);
        self.has_stored[cpu] = true;
        seen.map_err(|what| self.found(cpu, self.state.cores()[cpu].place(), Finding::Cache(what)))
    }

    /// What Rust would load. Errors: a cache is in the way.
    pub fn load(&self, cpu: usize, physical: u64, is_through: bool) -> Result<u64, Found> {
        let seen = self.caches.load(physical, is_through);
        seen.map_err(|what| self.found(cpu, self.state.cores()[cpu].place(), Finding::Cache(what)))?;
        Ok(self.machine().word(physical))
    }

    /// Words from a physical address on must be these. Errors: the first that is not.
    pub fn expect_words(&self, cpu: usize, first: u64, words: &[u64]) -> Result<(), Found> {
        for (place, word) in (first..).step_by(8).zip(words) {
            let found = self.machine().word(place);
            self.expect(cpu, found == *word, || format!("{place:#x} holds {found:#x}, expected {word:#x}"))?;
        }
        Ok(())
    }

    /// General-purpose registers must have these values. Errors: the first that has not.
    pub fn expect_registers(&self, cpu: usize, values: &[(u8, u64)]) -> Result<(), Found> {
        values.iter().try_for_each(|(register, value)| {
            let found = self.get(cpu, *register);
            self.expect(cpu, found == *value, || format!("x{register} is {found:#x}, expected {value:#x}"))
        })
    }

    /// System registers must have these values. Errors: the first that has not.
    pub fn expect_systems(&self, cpu: usize, values: &[(&str, u64)]) -> Result<(), Found> {
        values.iter().try_for_each(|(name, value)| {
            let found = self.get_system(cpu, name);
            self.expect(cpu, found == *value, || format!("{name} is {found:#x}, expected {value:#x}"))
        })
    }

    /// The registers of a translation must have these values. Errors: the first that has not.
    pub fn expect_translation(&self, cpu: usize, values: [u64; 5]) -> Result<(), Found> {
        REGISTERS.into_iter().zip(values).try_for_each(|(register, value)| {
            let now = self.register(cpu, register);
            self.expect(cpu, now == value, || format!("{register:?} is {now:#x}, expected {value:#x}"))
        })
    }

    /// Runs `cpu` from `entry` to `end`. Errors: the first finding, or `what` if it comes elsewhere.
    pub fn run_to(&mut self, cpu: usize, entry: u64, end: u64, what: &str) -> Result<(), Found> {
        let stop = self.run(cpu, entry, &[end])?;
        self.expect(cpu, stop == Stop::Reached(end), || format!("{what}: {stop:?}"))
    }

    /// At an end nothing may be left to wait for: what follows takes every register for what was written. Errors: the first
    /// register that is not certain.
    pub fn check_certain(&self, cpu: usize) -> Result<(), Found> {
        let Some(register) = self.pending[cpu].first() else { return Ok(()) };
        let finding = unsynchronized(format!("{register} is not certain to have the value that was written"));
        Err(self.found(cpu, self.state.cores()[cpu].place(), finding))
    }

    /// The end is not what it should be, unless it `is_right`. Errors: what is said.
    pub fn expect(&self, cpu: usize, is_right: bool, what: impl FnOnce() -> String) -> Result<(), Found> {
        match is_right {
            true => Ok(()),
            false => Err(self.found(cpu, self.state.cores()[cpu].place(), Finding::End(what()))),
        }
    }
}
