//! Plots as plain SVG: bars, and curves. A figure may be a thousand times another, so that scales are logarithmic.

use maud::{Markup, html};

/// In the unit of the picture, which is a pixel where there is room.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 110.0;
/// Where the longest bar ends; behind it stands its figure.
const LONGEST: f64 = 610.0;
const ROW: f64 = 22.0;
const HEIGHT: f64 = 220.0;

/// A bar: its name, its colour, how long it is, and the same in words.
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) colour: usize,
    pub(super) value: u64,
    pub(super) told: String,
}

/// A scale on which `step` times as much is always as far.
struct Scale {
    step: u64,
    /// Powers of `step` at both ends, and where these are.
    powers: (u32, u32),
    ends: (f64, f64),
}

impl Scale {
    /// Which holds all of these.
    fn new(step: u64, values: impl Iterator<Item = u64>, ends: (f64, f64)) -> Self {
        let (least, most) = values.fold((u64::MAX, 1), |(least, most), value| (least.min(value), most.max(value)));
        let most = most.ilog(step) + u32::from(step.pow(most.ilog(step)) < most);
        // The shortest bar is to be seen.
        let least = least.max(1).ilog(step).saturating_sub(1);
        Self { step, powers: (least, most.max(least + 1)), ends }
    }

    fn at(&self, value: u64) -> f64 {
        let power = (value.max(1) as f64).log(self.step as f64);
        let (first, last) = (f64::from(self.powers.0), f64::from(self.powers.1));
        self.ends.0 + (self.ends.1 - self.ends.0) * ((power - first) / (last - first)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = u64> {
        (self.powers.0..=self.powers.1).filter_map(|power| self.step.checked_pow(power))
    }
}

/// Groups of bars below each other, on one scale.
pub(super) fn bars(title: &str, step: u64, tick: fn(u64) -> String, groups: &[(String, Vec<Bar>)]) -> Markup {
    let values = groups.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.value));
    let scale = Scale::new(step, values, (NAMES, LONGEST));
    let rows: usize = groups.iter().map(|(_, bars)| bars.len() + 1).sum();
    let height = ROW * (rows as f64 + 1.5);
    let mut row = 0.0;
    let mut next = || {
        row += 1.0;
        row * ROW
    };
    html! {
        figure {
            figcaption { (title) " (each line is " (step) " times the one before)" }
            svg.plot role="img" aria-label=(format!("{title}: bars; the figures stand in the tables below")) viewBox=(format!("0 0 {WIDTH} {height}")) {
                @for value in scale.ticks() {
                    @let x = format!("{:.1}", scale.at(value));
                    line.grid x1=(x) x2=(x) y1="4" y2=(height - ROW) {}
                    text.tick x=(x) y=(height - 6.0) text-anchor="middle" { (tick(value)) }
                }
                @for (name, bars) in groups {
                    text.group x="0" y=(next() - 5.0) { (name) }
                    @for bar in bars {
                        @let y = next();
                        @let length = scale.at(bar.value) - NAMES;
                        text x=(NAMES - 8.0) y=(y - 5.0) text-anchor="end" { (bar.name) }
                        rect class=(format!("c{}", bar.colour)) x=(NAMES) y=(y - ROW + 3.0) width=(format!("{length:.1}")) height=(ROW - 4.0) {}
                        text x=(format!("{:.1}", NAMES + length + 6.0)) y=(y - 5.0) { (bar.told) }
                    }
                }
            }
        }
    }
}

/// A curve: its name, its colour, and how much along the scale is needed for each hundredth from 1 on.
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) colour: usize,
    pub(super) needs: Vec<u64>,
}

/// Shares of memory, upwards, against what they need, to the right.
pub(super) fn curves(title: &str, curves: &[Curve]) -> Markup {
    let scale = Scale::new(10, curves.iter().flat_map(|curve| curve.needs.iter().copied()), (50.0, WIDTH - 30.0));
    let (top, bottom) = (10.0, HEIGHT - 26.0);
    let upwards = |share: f64| bottom - (bottom - top) * share / 100.0;
    let points = |curve: &Curve| {
        let each = curve.needs.iter().zip(1..);
        each.map(|(needs, share)| format!("{:.1},{:.1}", scale.at(*needs), upwards(f64::from(share))))
            .collect::<Vec<_>>()
    };
    html! {
        figure {
            figcaption { (title) }
            svg.plot role="img" aria-label=(format!("{title}: curves; the figures stand in the table below")) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                @for share in [0, 50, 90, 100] {
                    @let y = format!("{:.1}", upwards(f64::from(share)));
                    line.grid x1="50" x2=(WIDTH - 30.0) y1=(y) y2=(y) {}
                    text.tick x="44" y=(y) dy="4" text-anchor="end" { (share) "%" }
                }
                @for value in scale.ticks() {
                    @let x = format!("{:.1}", scale.at(value));
                    line.grid x1=(x) x2=(x) y1=(top) y2=(bottom) {}
                    text.tick x=(x) y=(HEIGHT - 8.0) text-anchor="middle" { (counted(value)) }
                }
                @for curve in curves { polyline class=(format!("c{}", curve.colour)) points=(points(curve).join(" ")) {} }
            }
            ul.legend {
                @for curve in curves { li { span class=(format!("swatch c{}", curve.colour)) {} (curve.name) } }
            }
        }
    }
}

/// A power of ten: 100, 10k, 1M.
pub(super) fn counted(value: u64) -> String {
    match value {
        0..1_000 => value.to_string(),
        1_000..1_000_000 => format!("{}k", value / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", value / 1_000_000),
        _ => format!("{}G", value / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_all_and_goes_by_powers() {
        let scale = Scale::new(10, [20, 1_000].into_iter(), (100.0, 400.0));
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [1, 10, 100, 1_000]);
        assert_eq!([1, 10, 1_000].map(|value| scale.at(value).round()), [100.0, 200.0, 400.0]);
        let scale = Scale::new(16, [1 << 12, (1 << 20) + 1].into_iter(), (0.0, 1.0));
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24]);
        for hostile in [0, 1, u64::MAX] {
            let scale = Scale::new(10, std::iter::once(hostile), (0.0, 1.0));
            assert!((0.0..=1.0).contains(&scale.at(hostile)), "{hostile}");
        }
        assert!((0.0..=1.0).contains(&Scale::new(10, std::iter::empty(), (0.0, 1.0)).at(5)));
    }

    #[test]
    fn powers_are_short() {
        assert_eq!([100, 10_000, 1_000_000, 10_000_000_000].map(counted), ["100", "10k", "1M", "10G"]);
    }
}
