//! The console: from `stdout-path`, perhaps by an alias, to the registers of a UART.

use crate::range::PhysicalRange;
use crate::text::Text;

use super::blob::Blob;
use super::cells::{string, strings};
use super::description::{Console, MachineDescription};
use super::problem::Problem;
use super::walk::{MAX_DEPTH, Node, Walk};

/// What the kernel can print to: the PL011, and the part of it that the Base System Architecture asks for.
pub(super) const UART: &[&str] = &["arm,pl011", "arm,sbsa-uart"];

/// What a PL011 has; a tree that tells of more is not followed there.
const REGISTER_BYTES: u64 = 4 << 10;

/// Longer paths are taken for damage, as every node is held against the path.
const MAX_PATH_BYTES: usize = 256;

/// What the walk noted for the console.
#[derive(Clone, Copy, Default)]
pub(super) struct ConsoleNotes<'a> {
    pub(super) chosen: Option<Node<'a>>,
    pub(super) aliases: Option<Node<'a>>,
    /// Whether a UART of a kind we know was met.
    pub(super) has_uart: bool,
    /// The first one, if it can be reached.
    pub(super) first_uart: Option<Console<'a>>,
}

/// The node as a console, if it is enabled and its registers can be reached.
pub(super) fn console_at<'a>(walk: &Walk<'a>, node: &Node<'a>) -> Option<Console<'a>> {
    let reg = node.reg().filter(|_| node.is_enabled())?.next()?;
    let compatible = strings(node.property("compatible")?).next()?;
    let registers = walk.translate(node, reg)?;
    let size_bytes = registers.size_bytes().min(REGISTER_BYTES);
    Some(Console { compatible, registers: PhysicalRange::from_size(registers.start, size_bytes) })
}

/// Finds the console, once the whole tree was walked; walks it once more. Returns what is wrong with it.
pub(super) fn read_console<'a>(
    blob: &Blob<'a>,
    notes: &ConsoleNotes<'a>,
    machine: &mut MachineDescription<'a>,
) -> Option<Problem<'a>> {
    machine.console = notes.first_uart;
    let instead = match notes.first_uart {
        Some(_) => "the first PL011 of the tree is used",
        None => "there is no console",
    };
    let Some(stdout) = notes.chosen.and_then(|chosen| chosen.property("stdout-path")) else {
        let expected = "it in /chosen, with the console's path";
        return Some(Problem::Absent { what: "stdout-path", expected, instead });
    };
    let path = string(stdout);
    match resolve(blob, path, notes.aliases) {
        None => return Some(Problem::NoSuchConsole { path, instead }),
        Some((Console { compatible, .. }, false)) => {
            return Some(Problem::UnknownConsole { path, compatible, instead });
        }
        Some((console, true)) => machine.console = Some(console),
    }
    None
}

/// The console that a `stdout-path` leads to, and whether it is of a kind we know.
fn resolve<'a>(blob: &Blob<'a>, stdout: Text<'a>, aliases: Option<Node<'a>>) -> Option<(Console<'a>, bool)> {
    // Options such as `:115200n8` follow the path; neither a path nor an alias can hold a colon.
    let name = stdout.0.split(|&byte| byte == b':').next()?;
    let path = match name.first().filter(|_| name.len() <= MAX_PATH_BYTES)? {
        b'/' => name,
        _ => string(aliases?.property(core::str::from_utf8(name).ok()?)?).0,
    };
    if path.first() != Some(&b'/') || path.len() > MAX_PATH_BYTES {
        return None;
    }
    find(blob, path)
}

/// The node of an absolute path as a console. A component without a unit address fits any.
fn find<'a>(blob: &Blob<'a>, path: &[u8]) -> Option<(Console<'a>, bool)> {
    // rest[d] is what of the path is left for nodes of depth d, given that the d - 1 nodes above them, below the root,
    // fit; `fitting` is the depth at which the next fit is looked for.
    let mut rest: [&[u8]; MAX_DEPTH] = [&[]; MAX_DEPTH];
    rest[1] = &path[1..];
    let mut fitting = 1;
    let mut walk = Walk::new(blob);
    while let Ok(Some(node)) = walk.next() {
        fitting = fitting.min(node.depth.max(1));
        if node.depth != fitting {
            continue;
        }
        let mut parts = rest[fitting].splitn(2, |&byte| byte == b'/');
        let component = parts.next()?;
        if !fits(component, node.name.0) {
            continue;
        }
        match parts.next() {
            None => return Some((console_at(&walk, &node)?, node.is_compatible(UART))),
            Some(_) if fitting + 1 == MAX_DEPTH => return None,
            Some(further) => {
                fitting += 1;
                rest[fitting] = further;
            }
        }
    }
    None
}

fn fits(component: &[u8], name: &[u8]) -> bool {
    component == name || name.split(|&byte| byte == b'@').next() == Some(component)
}
