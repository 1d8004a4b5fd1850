//! The end of the machine: with a status where the host can take one, and by every way that may work until one does.

use core::sync::atomic::{AtomicU8, Ordering};

use hardware::psci::Conduit;
use hardware::{hypercall, interrupts, semihosting};

/// A way to end the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A call to the monitor beneath.
    Monitor,
    /// A semihosting call.
    Semihosting,
    /// PSCI's SYSTEM_OFF, by HVC.
    Hvc,
    /// The same by SMC.
    Smc,
}

impl Way {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// How one program ends the machine.
pub struct Ending {
    order: [Way; 4],
    /// A bit for each way that may work.
    ways: AtomicU8,
    /// How many ways have been tried. Loads and stores alone: this must work with the MMU off.
    tried: AtomicU8,
}

impl Ending {
    /// The ways in this order, those in `at_first` until more is known.
    pub const fn new(order: [Way; 4], at_first: [Way; 3]) -> Self {
        let [first, second, third] = at_first;
        Self { order, ways: AtomicU8::new(first.bit() | second.bit() | third.bit()), tried: AtomicU8::new(0) }
    }

    /// These alone are tried from now on.
    pub fn choose(&self, ways: impl IntoIterator<Item = Way>) {
        self.ways.store(ways.into_iter().fold(0, |bits, way| bits | way.bit()), Ordering::Relaxed);
    }

    /// Whether the machine is ending, so that an exception is one way that did not work.
    pub fn has_begun(&self) -> bool {
        self.tried.load(Ordering::Relaxed) != 0
    }

    /// Ends the machine. A way that does not work comes back, or is an exception that comes here again.
    pub fn end(&self, status: u32) -> ! {
        let _masks = interrupts::mask();
        loop {
            let step = self.tried.load(Ordering::Relaxed);
            self.tried.store(step.saturating_add(1), Ordering::Relaxed);
            let Some(way) = self.order.get(usize::from(step)) else {
                interrupts::wait();
                continue;
            };
            match way {
                _ if self.ways.load(Ordering::Relaxed) & way.bit() == 0 => {}
                Way::Monitor => hypercall::exit(status),
                Way::Semihosting => semihosting::exit(status),
                Way::Hvc => Conduit::Hvc.system_off(),
                Way::Smc => Conduit::Smc.system_off(),
            }
        }
    }
}
