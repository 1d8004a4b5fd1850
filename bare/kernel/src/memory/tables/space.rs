//! What may be asked of a program's address space, whatever its granule.

use crate::fallible::{Arc, arc_as};
use core::ops::{ControlFlow, Range};

use hardware::platform::Hardware;
use pagetable::{Census, HardwareUpdates, TlbFeatures};
use userspace::{
    Access, AddressSpace, Advice, Area, Context, Error, Fault, Kind, Limits, Locking, Move, Page, Request, Rights,
    Usage,
};
use vmsa::registers::encode_ttbr;
use vmsa::{AddressHalf, Granule};

use super::attributes::NORMAL_INDEX;
use super::forward::forward;
use super::granular::by_granule;
use super::shape::Shape;
use crate::memory::mapped::Mapped;
use crate::memory::programs::Programs;

/// What is told of every address space.
pub(crate) struct Common {
    pub(crate) hardware: Hardware,
    pub(crate) shape: Shape,
    pub(crate) tlb: TlbFeatures,
    /// What every CPU tolerates that runs programs: none comes once there is one.
    pub(crate) census: Census,
    /// Whether all of them have FEAT_PAN3.
    pub(crate) has_execute_only: bool,
}

/// The address space of one granule.
type Of<G> = AddressSpace<Programs<G>>;

/// Pages below a stack that stay free, as Linux has it.
const GUARD_PAGES: u64 = 256;
/// The lowest address that is mapped where no call names one below: `vm.mmap_min_addr`.
const LOWEST: u64 = 64 << 10;

/// An address space that has nothing.
pub(crate) fn new_space(common: &'static Common, limits: Limits) -> Result<Arc<dyn Space>, Error> {
    by_granule!(common.shape.page_size, new(common, limits))
}

fn new<G: Granule + Send + Sync>(common: &'static Common, limits: Limits) -> Result<Arc<dyn Space>, Error> {
    let Common { hardware, shape, tlb, ref census, has_execute_only } = *common;
    let geometry = shape.geometry::<G>(AddressHalf::Lower).map_err(|_| Error::NoMemory)?;
    let highest = geometry.input_bytes().min(1 << 48);
    let what = userspace::Shape {
        geometry,
        tlb,
        hardware_updates: HardwareUpdates::None,
        memory: vmsa::Stage1Attributes::memory(NORMAL_INDEX),
        has_execute_only,
        lowest: LOWEST,
        // There is one user, who may everything.
        lowest_fixed: 0,
        highest,
        guard_bytes: GUARD_PAGES * G::SIZE_BYTES,
    };
    let space = AddressSpace::new(Programs::new(hardware, census), what, highest, limits)?;
    Ok(arc_as!(Arc::try_new(space)?))
}

forward! {
    /// [`AddressSpace`]'s methods.
    pub(crate) trait Space: Send + Sync for Of<G> {
        fn map(&self, request: Request<Mapped>) -> Result<u64, Error>;
        fn unmap(&self, start: u64, bytes: u64) -> Result<(), Error>;
        fn protect(&self, start: u64, bytes: u64, rights: Rights) -> Result<(), Error>;
        fn remap(&self, start: u64, old_bytes: u64, bytes: u64, moves: Move, keeps: bool) -> Result<u64, Error>;
        fn advise(&self, start: u64, bytes: u64, advice: Advice) -> Result<(), Error>;
        fn populate(&self, start: u64, bytes: u64, kind: Kind) -> Result<(), Error>;
        fn residency(&self, start: u64, bytes: u64, sink: &mut dyn FnMut(bool)) -> Result<(), Error>;
        fn lock(&self, start: u64, bytes: u64, how: Locking) -> Result<(), Error>;
        fn lock_all(&self, how: Locking, has_current: bool, future: Locking) -> Result<(), Error>;
        fn sync(&self, start: u64, bytes: u64, invalidates: bool) -> Result<(), Error>;
        fn pages(&self, range: Range<u64>, sink: &mut dyn FnMut(&Page));
        fn counted_pages(&self, range: Range<u64>, sink: &mut dyn FnMut(&Page));
        fn take_lazy(&self, pages: usize) -> usize;
        fn forget_file(&self, file: &Mapped, pages: Range<u64>, keeps_copies: bool);
        fn set_heap(&self, start: u64);
        fn set_break(&self, wanted: u64) -> u64;
        fn set_ceiling(&self, ceiling: u64);
        fn set_limits(&self, limits: Limits);
        fn fault(&self, access: Access) -> Result<(), Fault>;
        fn areas(&self, sink: &mut dyn FnMut(&Area<Mapped>));
        fn areas_from(&self, start: u64, sink: &mut dyn FnMut(&Area<Mapped>) -> ControlFlow<()>);
        fn clear(&self);
        fn usage(&self) -> Usage;
        fn resident(&self) -> Option<u64>;
        fn heap(&self) -> Range<u64>;
        fn context(&self) -> &Context;
    } and {
        fn fork(&self) -> Result<Arc<dyn Space>, Error> {
            Ok(arc_as!(Arc::try_new(Of::fork(self)?)?))
        }

        /// The value of TTBR0_EL1 under this ASID.
        fn ttbr0(&self, asid: u16) -> u64 {
            encode_ttbr(self.shape().geometry.layout(), self.root(), asid, false)
        }

        /// The address behind the highest that can be mapped.
        fn highest(&self) -> u64 {
            self.shape().highest
        }
    }
}
