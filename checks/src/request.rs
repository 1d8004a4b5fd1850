//! What a program on a simulated CPU asks for, and what it is told. A request is a value: the program yields it, the run
//! decides when it happens.

use std::panic::Location;
use std::rc::Rc;

use machine::event::Event;
use machine::syndrome::AccessKind;

use crate::calling::Calling;

/// A request and the line of code that makes it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is asked for.
    pub request: Request,
    /// Who asks.
    pub site: &'static Location<'static>,
}

/// What a program can ask for.
#[derive(Clone, Debug)]
pub enum Request {
    /// A load by physical address.
    Load(u64),
    /// Anything else that a CPU does.
    Event(Event),
    /// An access by virtual address to `region`, whose answers the ledger judges.
    Access {
        /// Region.
        region: usize,
        /// Virtual address.
        address: u64,
        /// What it does.
        kind: AccessKind,
    },
    /// The same by a kernel, which is told of one answer.
    Look(Look),
    /// The walker of this CPU sets the access flag, or on a write the dirty state, of the leaf at a virtual address.
    Update(u64, AccessKind),
    /// What only software knows of.
    Software(Software),
}

/// What a kernel asks of a virtual address: where it leads, or what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Region.
    pub region: usize,
    /// Virtual address.
    pub address: u64,
    /// Which answer it is told, of as many as there are.
    pub choice: usize,
    /// It loads 32 bits, and does not only ask where they are (AT).
    pub is_load: bool,
}

impl Request {
    /// The region and the virtual address that it is about.
    pub(crate) const fn place(&self) -> Option<(usize, u64)> {
        match self {
            Self::Access { region, address, .. } | Self::Look(Look { region, address, .. }) => {
                Some((*region, *address))
            }
            _ => None,
        }
    }
}

/// What programs do among themselves, at no cost in machine events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Software {
    /// A page from the pool of free pages.
    Take,
    /// A page goes back to the pool.
    Give(u64),
    /// The lock of the page table, which at most one CPU holds.
    Lock,
    /// The lock is free again.
    Unlock,
    /// `region` is on its way to the next of its contents. Within `window` an access may fault meanwhile.
    Begin {
        /// Region.
        region: usize,
        /// First and last address of the window, if there is one.
        window: Option<(u64, u64)>,
        /// Where conflict aborts may come meanwhile, which every CPU handles.
        conflict: Option<(u64, u64)>,
    },
    /// The change of `region` that was to come is not made: it holds what it held.
    Withdraw(usize),
    /// Every change of `region` is complete.
    Settle(usize),
    /// How many changes of a region are complete.
    Settled(usize),
    /// The newest content that a region may have, by number.
    Latest(usize),
    /// Waits until this many changes of a region are complete.
    Await(usize, usize),
    /// CPUs call each other to park.
    Calling(Calling),
    /// The root table of the page table.
    Publish(u64),
    /// Something is wrong that only the program knows.
    Complain(Rc<str>),
}

impl Software {
    /// Whether it concerns nobody else.
    pub(crate) fn is_private(&self) -> bool {
        let asks = matches!(self, Self::Settled(_) | Self::Latest(_) | Self::Calling(Calling::Walking));
        asks || matches!(self, Self::Complain(_) | Self::Publish(_))
    }
}

/// What a program is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// It has happened.
    Done,
    /// It has happened, and this is the answer.
    Word(u64),
    /// It has not happened, because of this value: a compare-and-exchange, an empty pool.
    Refused(u64),
}
