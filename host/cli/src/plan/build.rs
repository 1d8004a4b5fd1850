//! One map: painted, and protected by chance, and healed.

use kerncore::choice::{BitsReason, Choice, PageSizeReason};
use kerncore::linear::Linear;
use linearmap::{Context, Leaves, Refused, Region};
use seed::Seed;
use vmsa::{AddressHalf, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, PageSize, PhysAddr, VirtAddr};

use super::host::{Live, painted, summary};
use super::memory::Memory;
use super::shape::Shape;
use crate::args::{PlanArguments, Policy};
use crate::dump::size;
use crate::progress::Progress;
use crate::select::Failure;

/// A map of one page size by one policy.
pub(crate) struct Column {
    pub(crate) policy: Policy,
    pub(crate) bits: u32,
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    /// Tables kept for atomic context.
    pub(crate) reserve: u64,
    pub(crate) protected: Option<Protected>,
}

/// What became of a map in which pages were protected.
pub(crate) struct Protected {
    pub(crate) pages: u64,
    pub(crate) splits: u64,
    pub(crate) shape: Shape,
    /// Folds, and what the map is made of then.
    pub(crate) healed: Option<(u64, Shape)>,
}

/// Bits of address that descriptors of the 48-bit layout hold.
pub(super) const NARROW_BITS: u32 = 48;

/// Makes the map.
pub(crate) fn build(
    memory: &Memory,
    page_size: PageSize,
    policy: Policy,
    arguments: &PlanArguments,
) -> Result<Column, Failure> {
    match page_size {
        PageSize::Size4K => build_of::<Granule4K>(memory, policy, arguments),
        PageSize::Size16K => build_of::<Granule16K>(memory, policy, arguments),
        PageSize::Size64K => build_of::<Granule64K>(memory, policy, arguments),
    }
}

fn build_of<G: Granule>(memory: &Memory, policy: Policy, arguments: &PlanArguments) -> Result<Column, Failure> {
    let regions = memory.regions(G::SIZE_BYTES);
    let (Some(first), Some(last)) = (regions.first(), regions.last()) else {
        return Err(Failure(format!("{}: no whole page of {} in it: give more memory", memory.name, G::PAGE_SIZE)));
    };
    let bits = arguments.va_bits.or(memory.bits).unwrap_or(NARROW_BITS);
    let linear = place::<G>(bits, first.physical.start, last.physical.end)?;
    let geometry = Geometry::<G>::new(bits, layout::<G>(bits, last.physical.end), AddressHalf::Upper);
    let geometry =
        geometry.map_err(|_| Failure(format!("--va-bits {bits}: {} pages have no such width", G::PAGE_SIZE)))?;
    let shape = |map: &Live<G>| Ok(Shape::of::<G>(&summary(map)?, geometry.layout(), geometry.start()));
    let refused = |refused: Refused| Failure(format!("{} pages, {}: {refused}", G::PAGE_SIZE, policy.name()));
    // A map of pages alone would be stored page by page; that of blocks says as much.
    let in_pages = policy.leaves() == Leaves::Pages;
    let made = if in_pages { Policy::Blocks } else { policy };
    let map = painted(geometry, linear.offset(), &regions, made).map_err(refused)?;
    let painted = shape(&map).map_err(refused)?;
    if in_pages {
        let shape = painted.in_pages();
        let pages = arguments.protect.min(shape.mapped() >> G::SHIFT);
        // A page that is a leaf changes by one store: nothing is split, nothing folds.
        let healed = arguments.heal.then(|| (0, shape.clone()));
        let protected = (pages > 0).then(|| Protected { pages, splits: 0, shape: shape.clone(), healed });
        return Ok(Column { policy, bits, layout: geometry.layout(), shape, reserve: 0, protected });
    }
    let reserve = map.reserve() as u64;
    let protected = match arguments.protect {
        0 => None,
        _ => Some(protect(&map, linear, &regions, arguments, &shape).map_err(refused)?),
    };
    Ok(Column { policy, bits, layout: geometry.layout(), shape: painted, reserve, protected })
}

/// What memory above 2^48 asks of a CPU.
pub(super) fn needs_wide(page_size: PageSize) -> String {
    let feature = if page_size == PageSize::Size64K { "LPA (FEAT_LPA)" } else { "LPA2 (FEAT_LPA2)" };
    format!("what lies above 2^48 needs 52-bit addresses: {feature} with {page_size} pages")
}

fn layout<G: Granule>(bits: u32, end: PhysAddr) -> Layout {
    match (bits > NARROW_BITS || end.bits() > 1 << NARROW_BITS, G::PAGE_SIZE) {
        (false, _) => Layout::Bits48,
        (true, PageSize::Size64K) => Layout::Lpa,
        (true, _) => Layout::Lpa2,
    }
}

/// Where the kernel would have it.
fn place<G: Granule>(bits: u32, start: PhysAddr, end: PhysAddr) -> Result<Linear, Failure> {
    let choice = Choice {
        page_size: G::PAGE_SIZE,
        page_size_reason: PageSizeReason::Asked,
        virtual_bits: bits,
        bits_reason: BitsReason::Asked,
        layout: layout::<G>(bits, end),
        physical_limit: PhysAddr::new(1 << 52),
    };
    let linear = Linear::new(&choice, start);
    match end <= linear.limit() {
        true => Ok(linear),
        false => {
            let wide =
                if end.bits() > 1 << NARROW_BITS { format!("; {}", needs_wide(G::PAGE_SIZE)) } else { String::new() };
            Err(Failure(format!(
                "memory ends at {:#x}, and a linear map of {bits} bits holds {} from {:#x}: give more with --va-bits{wide}",
                end.bits(),
                size(linear.capacity),
                linear.origin
            )))
        }
    }
}

/// Protects pages by chance; heals, if that is asked for.
fn protect<G: Granule>(
    map: &Live<G>,
    linear: Linear,
    regions: &[Region],
    arguments: &PlanArguments,
    shape: &dyn Fn(&Live<G>) -> Result<Shape, Refused>,
) -> Result<Protected, Refused> {
    let chosen = choose(regions, G::SIZE_BYTES, arguments);
    let at = |&(start, pages): &(u64, u64)| {
        let start = VirtAddr::new(start.wrapping_add(linear.offset()));
        [start..start + pages * G::SIZE_BYTES]
    };
    let all = chosen.len() as u64 * if arguments.heal { 2 } else { 1 };
    let mut done = Progress::new("protecting {wide_bar} {pos}/{len} clusters, {eta} left", all);
    for cluster in &chosen {
        map.set_memory_ro(&at(cluster), Context::MayWait)?;
        done.step();
    }
    let (splits, protected) = (map.counters().splits, shape(map)?);
    let mut healed = None;
    if arguments.heal {
        for cluster in &chosen {
            map.set_memory_rw(&at(cluster), Context::MayWait)?;
            done.step();
        }
        map.heal_all();
        healed = Some((map.counters().folds, shape(map)?));
    }
    Ok(Protected { pages: chosen.iter().map(|(_, pages)| pages).sum(), splits, shape: protected, healed })
}

/// Clusters of pages: where each starts, and its pages. Memory is cut into clusters, of which chance takes some: so the same
/// seed takes the same of the same memory, and none twice. What cannot be written is left alone.
fn choose(regions: &[Region], page_bytes: u64, arguments: &PlanArguments) -> Vec<(u64, u64)> {
    let bytes = arguments.cluster * page_bytes;
    let writable = regions.iter().filter(|region| !super::memory::is_read_only(region));
    let places: Vec<(u64, u64)> = writable
        .map(|region| (region.physical.start.bits(), (region.physical.end - region.physical.start).div_ceil(bytes)))
        .collect();
    let all: u64 = places.iter().map(|(_, clusters)| clusters).sum();
    let wanted = arguments.protect.div_ceil(arguments.cluster).min(all);
    let mut seed = Seed::new(arguments.seed);
    // Floyd: of `all` numbers `wanted` different ones, each choice as likely, in so many steps.
    let mut numbers = std::collections::BTreeSet::new();
    for limit in all - wanted..all {
        let number = seed.below(limit + 1);
        if !numbers.insert(number) {
            numbers.insert(limit);
        }
    }
    let mut left = arguments.protect;
    let mut take = |number: u64| {
        let mut number = number;
        let (region, _) = regions.iter().filter(|region| !super::memory::is_read_only(region)).zip(&places).find(
            |(_, (_, clusters))| {
                let is_here = number < *clusters;
                number -= if is_here { 0 } else { *clusters };
                is_here
            },
        )?;
        let start = region.physical.start.bits() + number * bytes;
        let pages = (region.physical.end.bits() - start).min(bytes) / page_bytes;
        let pages = pages.min(left);
        left -= pages;
        (pages > 0).then_some((start, pages))
    };
    numbers.into_iter().filter_map(&mut take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paints page by page, and compares.
    fn compare<G: Granule>(text: &str, bits: u32) {
        let arguments = PlanArguments::of(text, Some(bits));
        let memory = super::super::memory::read(text, &arguments.access).unwrap_or_else(|Failure(why)| panic!("{why}"));
        let column = build_of::<G>(&memory, Policy::Pages, &arguments).unwrap_or_else(|Failure(why)| panic!("{why}"));
        let regions = memory.regions(G::SIZE_BYTES);
        let (start, end) = (regions[0].physical.start, regions[regions.len() - 1].physical.end);
        let linear = place::<G>(bits, start, end).unwrap_or_else(|Failure(why)| panic!("{why}"));
        let geometry = Geometry::<G>::new(bits, layout::<G>(bits, end), AddressHalf::Upper).unwrap();
        let map = painted(geometry, linear.offset(), &regions, Policy::Pages).unwrap();
        let painted = Shape::of::<G>(&summary(&map).unwrap(), geometry.layout(), geometry.start());
        assert_eq!((column.shape, column.reserve), (painted, map.reserve() as u64), "{text}, {bits}");
    }

    #[test]
    fn pages_are_counted_as_they_are_painted() {
        for text in ["3G", "0x40200000-0x40210000,0x40210000-0x40400000:ro,0x40400000-0xf0000000", "0x0-0x8000000000"] {
            for bits in [41, 48, 52] {
                // Half a terabyte of 4K pages would take 1 GiB of tables.
                if !text.ends_with("8000000000") {
                    compare::<Granule4K>(text, bits);
                }
                compare::<Granule64K>(text, bits);
            }
            compare::<Granule16K>("5G", 47);
        }
    }

    #[test]
    fn what_is_released_and_healed_is_as_before() {
        let arguments = PlanArguments { protect: 300, cluster: 3, heal: true, ..PlanArguments::of("8G", Some(48)) };
        let memory = super::super::memory::read("8G", &arguments.access).unwrap_or_else(|Failure(why)| panic!("{why}"));
        for policy in [Policy::Blocks, Policy::Largest, Policy::Pages] {
            let column =
                build_of::<Granule4K>(&memory, policy, &arguments).unwrap_or_else(|Failure(why)| panic!("{why}"));
            let protected = column.protected.expect("pages are protected");
            let (folds, healed) = protected.healed.expect("and healed");
            assert_eq!((protected.pages, folds, &healed), (300, protected.splits, &column.shape));
            assert_eq!(protected.splits, protected.shape.table_count() - column.shape.table_count());
            assert_eq!(protected.splits > 0, policy != Policy::Pages);
        }
    }
}
