//! The GIC and the timer's interrupts, which name the GIC through a chain of phandles.
//!
//! The walk only notes where things are, as a timer may stand before the controller that it names; `resolve` follows.

use crate::finding::Findings;
use crate::list::List;
use crate::range::PhysicalRange;

use super::cells::{Cells, strings};
use super::description::{InterruptController, MAX_REDISTRIBUTORS, MachineDescription, Timer};
use super::problem::Problem;
use super::walk::{Node, Walk};

const GIC_V3: &[&str] = &["arm,gic-v3"];
const GIC_V2: &[&str] = &["arm,cortex-a15-gic", "arm,gic-400"];
const TIMER: &[&str] = &["arm,armv8-timer", "arm,armv7-timer"];
const USUAL_TIMER: &str = "its usual interrupts 30 and 27 are taken";

/// Controllers and interrupt maps that are noted, to tell a circle of them from a way that leads nowhere.
const MAX_CONTROLLERS: usize = 16;

/// What the walk noted for interrupts.
#[derive(Clone, Copy)]
pub(super) struct InterruptNotes<'a> {
    gic: Option<Node<'a>>,
    timer: Option<Node<'a>>,
    controllers: List<Controller, MAX_CONTROLLERS>,
}

#[derive(Clone, Copy)]
struct Controller {
    phandle: u32,
    parent: u32,
}

impl<'a> InterruptNotes<'a> {
    pub(super) fn new() -> Self {
        Self { gic: None, timer: None, controllers: List::new(Controller { phandle: 0, parent: 0 }) }
    }

    /// Notes a node of the tree if it has to do with interrupts, and takes the first GIC.
    pub(super) fn note(
        &mut self,
        walk: &Walk<'a>,
        node: &Node<'a>,
        machine: &mut MachineDescription<'a>,
        findings: &mut Findings<'a>,
    ) {
        if node.property("interrupt-controller").is_some() || node.property("interrupt-map").is_some() {
            // Beyond the capacity a circle may be told as a way that leads nowhere; no more is lost.
            self.controllers.push(Controller { phandle: node.phandle(), parent: node.interrupt_parent }).ok();
        }
        if self.timer.is_none() && node.is_compatible(TIMER) {
            self.timer = Some(*node);
        }
        let is_v3 = node.is_compatible(GIC_V3);
        if !is_v3 && !node.is_compatible(GIC_V2) {
            return;
        }
        if self.gic.is_some() {
            return findings.push(Problem::SecondController { node: node.name });
        }
        self.gic = Some(*node);
        machine.interrupt_controller = if is_v3 { gic_v3(walk, node, findings) } else { gic_v2(walk, node, findings) };
    }

    /// Finds the timer's interrupts, once the whole tree was walked.
    pub(super) fn resolve(&self, machine: &mut MachineDescription<'a>, findings: &mut Findings<'a>) {
        let Some(gic) = self.gic else {
            let (expected, instead) =
                ("an enabled arm,gic-v3, arm,cortex-a15-gic or arm,gic-400", "there are no interrupts");
            return findings.push(Problem::Absent { what: "interrupt controller", expected, instead });
        };
        if self.goes_round(&gic) {
            let (phandle, instead) = (gic.interrupt_parent, "the GIC is taken as their root");
            findings.push(Problem::InterruptCycle { node: gic.name, phandle, instead });
        }
        let Some(timer) = self.timer else {
            let (expected, instead) = ("an arm,armv8-timer", USUAL_TIMER);
            return findings.push(Problem::Absent { what: "generic timer", expected, instead });
        };
        match self.timer_interrupts(&timer, &gic) {
            Ok(interrupts) => machine.timer = interrupts,
            Err(problem) => findings.push(problem),
        }
    }

    fn timer_interrupts(&self, timer: &Node<'a>, gic: &Node<'a>) -> Result<Timer, Problem<'a>> {
        let cells = gic.cell("#interrupt-cells").filter(|cells| (3..=4).contains(cells)).unwrap_or(3);
        let specifiers = match timer.property("interrupts-extended") {
            Some(value) => Specifiers { cells: Cells(value), count: cells, parent: Some(gic.phandle()) },
            None => {
                self.leads_to(timer, gic)?;
                Specifiers { cells: Cells(timer.property("interrupts").unwrap_or(&[])), count: cells, parent: None }
            }
        };
        let names = timer.property("interrupt-names");
        let position = |name: &str, usual| match names {
            Some(names) => strings(names).position(|string| string == *name),
            None => Some(usual),
        };
        // Secure physical, non-secure physical, virtual, hypervisor physical, hypervisor virtual.
        let interrupt = |name, usual| specifiers.private_interrupt(position(name, usual)?);
        match (interrupt("phys", 1), interrupt("virt", 2)) {
            (Some(physical_interrupt), Some(virtual_interrupt)) => Ok(Timer { physical_interrupt, virtual_interrupt }),
            _ => Err(Problem::BadProperty {
                node: timer.name,
                property: "interrupts",
                expected: "private interrupts (type 1, number below 16) of the GIC",
                instead: USUAL_TIMER,
            }),
        }
    }

    /// Whether the timer's interrupt parent is the GIC, or there is none and it can only be the GIC.
    fn leads_to(&self, timer: &Node<'a>, gic: &Node<'a>) -> Result<(), Problem<'a>> {
        let (node, phandle, instead) = (timer.name, timer.interrupt_parent, USUAL_TIMER);
        if phandle == gic.phandle() || phandle == 0 {
            return Ok(());
        }
        match self.end_of_chain(phandle, gic.phandle()) {
            ChainEnd::Circle => Err(Problem::InterruptCycle { node, phandle, instead }),
            ChainEnd::Gic | ChainEnd::Nowhere => Err(Problem::InterruptNowhere { node, phandle, instead }),
        }
    }

    /// Whether the parents of the GIC, which ought to be the root, lead back to it by way of others, or round among them.
    fn goes_round(&self, gic: &Node<'a>) -> bool {
        let (own, parent) = (gic.phandle(), gic.interrupt_parent);
        parent != 0 && parent != own && self.end_of_chain(parent, own) != ChainEnd::Nowhere
    }

    /// Follows interrupt parents; a way longer than the number of controllers has met one twice.
    fn end_of_chain(&self, mut phandle: u32, gic: u32) -> ChainEnd {
        for _ in 0..=self.controllers.len() {
            if phandle == gic {
                return ChainEnd::Gic;
            }
            match self.controllers.iter().find(|controller| controller.phandle == phandle) {
                Some(controller) => phandle = controller.parent,
                None => return ChainEnd::Nowhere,
            }
        }
        ChainEnd::Circle
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainEnd {
    Gic,
    Circle,
    Nowhere,
}

/// Interrupts as a device names them, each `count` cells, in `interrupts-extended` after the controller's phandle.
#[derive(Clone, Copy)]
struct Specifiers<'a> {
    cells: Cells<'a>,
    count: u32,
    parent: Option<u32>,
}

impl Specifiers<'_> {
    /// The INTID of the interrupt at `index`, if it is private to each CPU.
    fn private_interrupt(mut self, index: usize) -> Option<u32> {
        let entry_bytes = 4 * (self.count as usize + usize::from(self.parent.is_some()));
        self.cells.0 = self.cells.0.get(index.checked_mul(entry_bytes)?..)?;
        if let Some(parent) = self.parent {
            (self.cells.take(1)? == u64::from(parent)).then_some(())?;
        }
        let (kind, number) = (self.cells.take(1)?, self.cells.take(1)?);
        (kind == 1 && number < 16).then(|| 16 + number as u32)
    }
}

/// The register regions of a GIC: as many of the first `N` entries of `reg` as can be reached.
fn regions<'a, const N: usize>(
    walk: &Walk<'a>,
    node: &Node<'a>,
    findings: &mut Findings<'a>,
) -> Option<List<PhysicalRange, N>> {
    let mut regions = List::new(PhysicalRange::EMPTY);
    for entry in node.reg().into_iter().flatten().take(N) {
        let Some(region) = walk.translate(node, entry) else {
            let instead = "there are no interrupts";
            findings.push(Problem::Untranslatable { node: node.name, address: entry.0, instead });
            return None;
        };
        regions.push(region).ok()?;
    }
    Some(regions)
}

fn bad<'a>(node: &Node<'a>, property: &'static str, expected: &'static str, instead: &'static str) -> Problem<'a> {
    Problem::BadProperty { node: node.name, property, expected, instead }
}

fn gic_v3<'a>(walk: &Walk<'a>, node: &Node<'a>, findings: &mut Findings<'a>) -> Option<InterruptController> {
    let found = regions::<{ 1 + MAX_REDISTRIBUTORS }>(walk, node, findings)?;
    let mut wanted = node.cell("#redistributor-regions").unwrap_or(1) as usize;
    if wanted > MAX_REDISTRIBUTORS {
        findings.push(bad(node, "#redistributor-regions", "8 at most", "the later ones are ignored"));
        wanted = MAX_REDISTRIBUTORS;
    }
    let mut redistributors = List::new(PhysicalRange::EMPTY);
    for &region in found.iter().skip(1).take(wanted) {
        redistributors.push(region).ok()?;
    }
    if redistributors.is_empty() || redistributors.len() < wanted {
        findings.push(bad(node, "reg", "a distributor and all redistributor regions", "there are no interrupts"));
        return None;
    }
    let redistributor_stride = node.property("redistributor-stride").and_then(|value| Cells(value).number());
    Some(InterruptController::GicV3 { distributor: found[0], redistributors, redistributor_stride })
}

fn gic_v2<'a>(walk: &Walk<'a>, node: &Node<'a>, findings: &mut Findings<'a>) -> Option<InterruptController> {
    let found = regions::<2>(walk, node, findings)?;
    if let [distributor, cpu_interface] = found[..] {
        return Some(InterruptController::GicV2 { distributor, cpu_interface });
    }
    findings.push(bad(node, "reg", "a distributor and a CPU interface", "there are no interrupts"));
    None
}
