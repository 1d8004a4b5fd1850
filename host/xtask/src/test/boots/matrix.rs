//! Everything that a boot may be given at once: granule × bits × CPU model × CPUs × exception level × interrupt
//! controller × memory. `--all` boots every point that can be; a default run a selection in which every pair of values
//! that can meet does.

use super::boot::{Boot, PAGE_SIZES};

/// A CPU model of QEMU, as spec sheets and QEMU's source have it: what the kernel finds is held against this.
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) has_16k: bool,
    /// 52 bits of virtual address with 4K and 16K pages (FEAT_LPA2), and with 64K pages (FEAT_LVA).
    is_wide: [bool; 3],
}

const fn model(name: &'static str, has_16k: bool, is_wide: [bool; 3]) -> Model {
    Model { name, has_16k, is_wide }
}

pub(super) const MODELS: [Model; 9] = [
    model("max", true, [true, true, true]),
    model("max,lpa2=off", true, [false, false, true]),
    model("cortex-a35", true, [false; 3]),
    model("cortex-a53", false, [false; 3]),
    model("cortex-a57", false, [false; 3]),
    model("cortex-a72", false, [false; 3]),
    model("cortex-a76", true, [false; 3]),
    model("neoverse-n1", true, [false; 3]),
    model("a64fx", false, [false; 3]),
];

/// Models that are booted in QEMU 11, which has three of them alone.
pub(super) const MODELS_OF_11: [Model; 4] = [
    model("max", true, [true, true, true]),
    model("neoverse-v1", true, [false; 3]),
    model("neoverse-n2", true, [false; 3]),
    model("cortex-a710", true, [false; 3]),
];

impl Model {
    /// Whether it has the granule of this number in [`PAGE_SIZES`].
    pub(super) fn has(&self, size: usize) -> bool {
        self.has_16k || PAGE_SIZES[size] != "16k"
    }

    /// The most bits of virtual address with the granule of this number.
    pub(super) fn largest_bits(&self, size: usize) -> u32 {
        if self.is_wide[size] { 52 } else { 48 }
    }
}

const BITS: [u32; 6] = [36, 39, 42, 47, 48, 52];
const CPUS: [usize; 3] = [1, 4, 8];
const LEVELS: [u8; 2] = [1, 2];
const CONTROLLERS: [u8; 2] = [3, 2];
const MEMORY: [&str; 3] = ["128M", "2G", "5G"];

/// How many values each factor has, in the order of a [`Point`].
const VALUES: [usize; 7] =
    [PAGE_SIZES.len(), BITS.len(), MODELS.len(), CPUS.len(), LEVELS.len(), CONTROLLERS.len(), MEMORY.len()];

/// The number of a value for each factor.
type Point = [usize; VALUES.len()];

/// Every boot of the matrix.
pub(super) fn whole() -> Vec<Boot> {
    points().iter().map(boot).collect()
}

/// Boots in which every pair of values that can meet does.
pub(super) fn pairwise() -> Vec<Boot> {
    select(&points()).iter().map(boot).collect()
}

/// All that can be: a model boots with a granule and a width that it has.
fn points() -> Vec<Point> {
    let count = VALUES.iter().product();
    let point = |number: usize| {
        let mut rest = number;
        VALUES.map(|values| {
            let value = rest % values;
            rest /= values;
            value
        })
    };
    let can_be =
        |&[size, bits, model, ..]: &Point| MODELS[model].has(size) && BITS[bits] <= MODELS[model].largest_bits(size);
    (0..count).map(point).filter(can_be).collect()
}

/// How many values there are, those of all factors in one row.
const ALL_VALUES: usize = 28;

/// The pairs of values in a point, each as one number.
fn pairs(point: &Point) -> impl Iterator<Item = usize> {
    let mut first = 0;
    let values = core::array::from_fn::<_, { VALUES.len() }, _>(|factor| {
        let value = first + point[factor];
        first += VALUES[factor];
        value
    });
    let later = move |one: usize| (one + 1..values.len()).map(move |two| values[one] * ALL_VALUES + values[two]);
    (0..values.len()).flat_map(later)
}

/// Points that have every pair between them: again and again the one with the most that are new.
fn select(points: &[Point]) -> Vec<Point> {
    // Between equals chance decides, the same in every run, or all would be alike but for what is new.
    let mut points: Vec<(usize, &Point)> = (0..).map(|number| number * 2_654_435_761 % 4_093).zip(points).collect();
    points.sort();
    let mut is_missing = [false; ALL_VALUES * ALL_VALUES];
    points.iter().flat_map(|(_, point)| pairs(point)).for_each(|pair| is_missing[pair] = true);
    let mut selected = Vec::new();
    loop {
        let news = |point: &Point| pairs(point).filter(|pair| is_missing[*pair]).count();
        match points.iter().map(|(_, point)| (news(point), *point)).max_by_key(|(news, _)| *news) {
            Some((1.., best)) => {
                pairs(best).for_each(|pair| is_missing[pair] = false);
                selected.push(*best);
            }
            _ => return selected,
        }
    }
}

fn boot(point: &Point) -> Boot {
    let &[size, bits, model, cpus, level, controller, memory] = point;
    let (size, bits, model, cpus) = (PAGE_SIZES[size], BITS[bits], MODELS[model].name, CPUS[cpus]);
    let (level, controller, memory) = (LEVELS[level], CONTROLLERS[controller], MEMORY[memory]);
    let virtualization = if level == 2 { ",virtualization=on" } else { "" };
    Boot::new(
        format!("boot {size}, {bits} bits, {model}, {cpus} CPUs, EL{level}, GICv{controller}, {memory}"),
        format!(
            "--page-size {size} --cpus {cpus} --memory {memory} --cpu {model} --append vellum.vabits={bits} \
             -- -M gic-version={controller}{virtualization}"
        ),
        expected(size, bits, cpus, level),
    )
}

/// What the kernel says of itself.
pub(super) fn expected(size: &str, bits: u32, cpus: usize, level: u8) -> Vec<String> {
    vec![format!("page {size}"), format!("bits {bits}"), format!("cpus {cpus}"), format!("entered at EL{level}")]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_selection_has_every_pair_and_far_fewer_points() {
        assert_eq!(VALUES.iter().sum::<usize>(), ALL_VALUES);
        let points = points();
        let selected = select(&points);
        let all: HashSet<_> = points.iter().flat_map(pairs).collect();
        let seen: HashSet<_> = selected.iter().flat_map(pairs).collect();
        assert_eq!(all, seen);
        assert!(selected.len() < 80 && points.len() > 2000, "{} of {}", selected.len(), points.len());
    }

    #[test]
    fn only_what_can_be_is_a_point() {
        let has = |size: &str, bits: u32, model: &str| {
            points().iter().any(|&[s, b, m, ..]| (PAGE_SIZES[s], BITS[b], MODELS[m].name) == (size, bits, model))
        };
        assert!(has("16k", 52, "max") && has("64k", 52, "max,lpa2=off") && has("64k", 36, "cortex-a53"));
        assert!(!has("16k", 48, "cortex-a53") && !has("4k", 52, "max,lpa2=off") && !has("64k", 52, "a64fx"));
    }
}
