//! How CPUs call each other to park: who walks the tables, who is called, who is off them. The protocol itself, word by word, is
//! `kerncore::parking`; here is what comes of it.
//!
//! ```text
//! who changes   Walking ── Call ── Await ── change, TLBIs ── LetGo
//! interrupt     Answer ── off the tables, forgets ── Parked ── Stay ── on the tables ── Return
//! ```

/// What a CPU does of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Calling {
    /// Asks which CPUs walk the linear map, as bits.
    Walking,
    /// Walks the linear map from now on, and is called if need be; not before it has arrived will it answer.
    Counted,
    /// Has arrived on the page table.
    Arrived,
    /// Calls these CPUs, as bits.
    Call(u8),
    /// Waits until all of them are parked.
    Await(u8),
    /// Lets them go.
    LetGo(u8),
    /// Takes the interrupt, once it is called: its program stands still.
    Answer,
    /// Is off the tables.
    Parked,
    /// Waits until it is let go.
    Stay,
    /// Its program goes on.
    Return,
}

/// Where each CPU stands, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Board {
    walking: u8,
    arrived: u8,
    called: u8,
    parked: u8,
    interrupted: u8,
}

impl Board {
    /// These CPUs walk the tables.
    pub(crate) const fn new(walking: u8) -> Self {
        Self { walking, arrived: walking, called: 0, parked: 0, interrupted: 0 }
    }

    /// Whether the program of `cpu` stands still.
    pub(crate) const fn is_interrupted(&self, cpu: u8) -> bool {
        self.interrupted >> cpu & 1 == 1
    }

    /// Whether `cpu` can go on with `what`.
    pub(crate) const fn is_ready(&self, cpu: u8, what: Calling) -> bool {
        match what {
            Calling::Await(asked) => self.parked & asked == asked,
            Calling::Answer => self.called & self.arrived & 1 << cpu != 0,
            Calling::Stay => self.called >> cpu & 1 == 0,
            _ => true,
        }
    }

    /// Records what `cpu` does; the answer, if it asks.
    pub(crate) const fn happen(&mut self, cpu: u8, what: Calling) -> Option<u64> {
        let bit = 1 << cpu;
        match what {
            Calling::Walking => return Some(self.walking as u64),
            Calling::Counted => self.walking |= bit,
            Calling::Arrived => self.arrived |= bit,
            Calling::Call(asked) => self.called |= asked,
            Calling::LetGo(asked) => self.called &= !asked,
            Calling::Answer => self.interrupted |= bit,
            Calling::Parked => self.parked |= bit,
            // From here on it is on its way back: who calls it again waits until it has come off the tables again.
            Calling::Stay => self.parked &= !bit,
            Calling::Return => self.interrupted &= !bit,
            Calling::Await(_) => {}
        }
        None
    }
}
