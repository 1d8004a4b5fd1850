//! How firmware is called.

use hardware::psci::Conduit;
use kerncore::devicetree::{self, Psci};

/// The instruction that calls it, as the device tree has it.
pub(crate) fn conduit(psci: &Psci) -> Conduit {
    match psci.conduit {
        devicetree::Conduit::Hvc => Conduit::Hvc,
        devicetree::Conduit::Smc => Conduit::Smc,
    }
}
