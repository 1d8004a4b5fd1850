//! What a kernel owes and leaves out: mutants of what `linear.rs`, `parked.rs` and `text.rs` do.

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Omission {
    /// To call one of the CPUs that must park.
    OneCall,
    /// To wait until those that are called are parked.
    Awaiting,
    /// To keep them parked until the change is made and forgotten.
    Keeping,
    /// To leave the tables, of a CPU that is parked.
    Leaving,
    /// To have the map count a CPU that arrives.
    Counting,
    /// To have the map know what such a CPU tolerates.
    Level,
    /// To count it under the map's lock.
    Locking,
    /// To change nothing where it says that it refuses: of the map itself.
    Refusing,
    /// To have a load of a program's text end where it faults.
    Fixup,
    /// To ask where a program's text is each time that it is read.
    Asking,
}
