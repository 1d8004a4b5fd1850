//! The table of all locks: each is taken under those above it alone.

use kerncore::lock_order::{Class, Kind};

macro_rules! table {
    ($($name:ident: $kind:ident, $what:literal;)*) => {
        /// The places in the order.
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "named as the classes")]
        enum Rank { $($name,)* }
        $(pub(crate) const $name: Class = $kind(Rank::$name as u8, $what);)*
    };
}

table! {
    // Waiters sleep. An owner may leave its CPU.
    POSITION: sleeping, "File::position";
    TEXT: sleeping, "File::text";
    TURN: sleeping_by_address, "Pipe::turn";
    CONTENT: sleeping_by_address, "Content::alone";
    SPACES: sleeping, "family::SPACES";
    FAMILY: sleeping, "family::FAMILY";
    MODULES: sleeping, "modules::LOADED";
    CHANGES: sleeping, "tree::CHANGES";
    SPACE: sleeping_by_address, "address space";
    EXECUTABLE: sleeping, "executable::ARENAS";
    // Waiters spin, and an owner stays on its CPU. Interrupts are open.
    TELLING: open, "Process::telling";
    ALARMS: open, "alarms::ALARMS";
    PENDING: open, "Pending";
    FOLDER: open_by_address, "inode::Folder";
    FILES: open, "Process::files";
    TABLE: open, "descriptors::Table";
    LOCKS: open, "locks::ALL";
    BYTES: open, "Pipe::bytes";
    FUTEX: open, "futex::TABLE";
    // Waiters spin. Interrupts are masked.
    STRESS: spin, "stress";
    STRESS_VALUES: spin_by_address, "stress, of a round";
    HANDOVER: spin, "boot::HANDOVER";
    OWNERSHIP: spin, "ownership::TABLE";
    AWAITED: spin, "pressure::AWAITED";
    ALL: spin, "table::ALL";
    THREADS: spin, "numbers::THREADS";
    LIFE: spin, "Process::life";
    PROCESS_SPACE: spin, "Process::space";
    IMAGE: spin, "Process::image";
    LIMITS: spin, "Process::limits";
    WISHES: spin, "Process::wishes";
    USERS: spin, "Process::users";
    FOLDER_OF: spin, "Process::folder";
    ATTRIBUTES: spin, "Inode::attributes";
    PAGES_OF_FILE: spin, "Content";
    SECRETS: spin, "Secrets";
    PIPE: spin, "Pipe::state";
    COUNTER: spin, "Counter";
    NAME: spin, "Task::name";
    BODY: spin, "Thread::body";
    SIMD: spin, "Thread::simd";
    WAITERS: spin, "Waiters";
    QUEUE: spin, "queue::QUEUE";
    ACTIONS: spin, "Process::actions";
    QUEUED: spin, "queued::COUNTS";
    ASIDS: spin, "space::ASIDS";
    SLOTS: spin, "stacks::SLOTS";
    TAKEN: spin, "vmalloc::TAKEN";
    MAP: spin, "ranges::MAP";
    SHARED: spin, "shared::POOL";
    HEAP: spin, "heap::OBJECTS";
    LINEAR_MAP: spin, "linear map";
    PAGES: spin, "pages::PAGES";
    IDENTITIES: spin, "walkers::IDENTITIES";
    WATCHER: spin, "monitor::WATCHER";
    CONTROLLER: spin, "calls::CONTROLLER";
    DEAF: spin, "checks::deaf";
    CONSOLE: spin, "console::CONSOLE";
    TIMES: spin, "report::TIMES";
}

const fn class(rank: u8, name: &'static str, kind: Kind) -> Class {
    Class { rank, name, kind, is_by_address: false }
}

const fn sleeping(rank: u8, name: &'static str) -> Class {
    class(rank, name, Kind::Sleeping)
}

const fn sleeping_by_address(rank: u8, name: &'static str) -> Class {
    Class { is_by_address: true, ..sleeping(rank, name) }
}

const fn open(rank: u8, name: &'static str) -> Class {
    class(rank, name, Kind::Open)
}

const fn open_by_address(rank: u8, name: &'static str) -> Class {
    Class { is_by_address: true, ..open(rank, name) }
}

const fn spin(rank: u8, name: &'static str) -> Class {
    class(rank, name, Kind::Spin)
}

const fn spin_by_address(rank: u8, name: &'static str) -> Class {
    Class { is_by_address: true, ..spin(rank, name) }
}
