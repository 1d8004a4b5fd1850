//! What the linear map is stressed with, what is measured of it, and what becomes of TLB conflict aborts.

/// What becomes of a TLB conflict abort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// The CPU forgets everything, and goes on.
    #[default]
    Survive,
    /// It is reported as any unexpected exception is, which ends the machine.
    Report,
}

/// What the linear map is stressed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StressKind {
    /// Changes of every kind, in every context.
    #[default]
    Mixed,
    /// Single pages hidden and shown in atomic context, as an allocator does that samples.
    Kfence,
    /// Resizes of what every CPU uses meanwhile.
    Conflicts,
}

/// What is counted in instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Nothing.
    #[default]
    Nothing,
    /// Single changes of the linear map.
    Linear,
    /// Secret pages that are taken and released.
    Secret,
    /// The longest stretch with interrupts masked, while programs run.
    Masked,
}
