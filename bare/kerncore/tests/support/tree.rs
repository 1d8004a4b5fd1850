//! Device trees in the shape of QEMU's `virt`, built by another program's writer, and small changes to them.

use dtoolkit::Property;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

pub(crate) fn cells(name: &str, value: &[u32]) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).unwrap()
}

pub(crate) fn text(name: &str, value: &str) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).unwrap()
}

pub(crate) fn texts(name: &str, value: &[&str]) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).unwrap()
}

pub(crate) fn bytes(name: &str, value: &[u8]) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).unwrap()
}

pub(crate) fn flag(name: &str) -> DeviceTreeProperty {
    bytes(name, &[])
}

pub(crate) fn node<const N: usize>(name: &str, properties: [DeviceTreeProperty; N]) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new_unchecked(name);
    for property in properties {
        node.add_property(property);
    }
    node
}

pub(crate) fn parent<const N: usize>(mut node: DeviceTreeNode, children: [DeviceTreeNode; N]) -> DeviceTreeNode {
    for child in children {
        node.add_child(child);
    }
    node
}

const GIC: u32 = 0x8005;

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Pairs of address and size as a `reg` of two cells each.
pub(crate) fn reg(pairs: &[(u64, u64)]) -> DeviceTreeProperty {
    let cells_of = |&(address, size): &(u64, u64)| [high(address), address as u32, high(size), size as u32];
    cells("reg", &pairs.iter().flat_map(cells_of).collect::<Vec<_>>())
}

pub(crate) fn memory(pairs: &[(u64, u64)]) -> DeviceTreeNode {
    let name = format!("memory@{:x}", pairs.first().map_or(0, |pair| pair.0));
    node(&name, [reg(pairs), text("device_type", "memory")])
}

pub(crate) fn cpu(affinity: u32) -> DeviceTreeNode {
    let properties = [
        cells("reg", &[affinity]),
        text("enable-method", "psci"),
        text("compatible", "arm,cortex-a57"),
        text("device_type", "cpu"),
    ];
    node(&format!("cpu@{affinity:x}"), properties)
}

fn cpus(count: u32) -> DeviceTreeNode {
    let mut cpus = node("cpus", [cells("#size-cells", &[0]), cells("#address-cells", &[1])]);
    cpus.add_child(parent(node("cpu-map", []), [node("socket0", [])]));
    for affinity in 0..count {
        cpus.add_child(cpu(affinity));
    }
    cpus
}

fn gic_v3() -> DeviceTreeNode {
    let its = node("its@8080000", [reg(&[(0x808_0000, 0x2_0000)]), text("compatible", "arm,gic-v3-its")]);
    let properties = [
        cells("phandle", &[GIC]),
        reg(&[(0x800_0000, 0x1_0000), (0x80a_0000, 0xf6_0000)]),
        cells("#redistributor-regions", &[1]),
        text("compatible", "arm,gic-v3"),
        flag("ranges"),
        cells("#size-cells", &[2]),
        cells("#address-cells", &[2]),
        flag("interrupt-controller"),
        cells("#interrupt-cells", &[3]),
    ];
    parent(node("intc@8000000", properties), [its])
}

fn gic_v2() -> DeviceTreeNode {
    let properties = [
        cells("phandle", &[GIC]),
        reg(&[(0x800_0000, 0x1_0000), (0x801_0000, 0x1_0000), (0x803_0000, 0x1_0000), (0x804_0000, 0x1_0000)]),
        text("compatible", "arm,cortex-a15-gic"),
        flag("interrupt-controller"),
        cells("#interrupt-cells", &[3]),
    ];
    node("intc@8000000", properties)
}

fn timer() -> DeviceTreeNode {
    let interrupts = [1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4];
    let properties = [
        cells("interrupts", &interrupts),
        flag("always-on"),
        texts("compatible", &["arm,armv8-timer", "arm,armv7-timer"]),
    ];
    node("timer", properties)
}

pub(crate) fn pl011(name: &str, address: u64) -> DeviceTreeNode {
    let properties = [
        texts("clock-names", &["uartclk", "apb_pclk"]),
        cells("interrupts", &[0, 1, 4]),
        reg(&[(address, 0x1000)]),
        texts("compatible", &["arm,pl011", "arm,primecell"]),
    ];
    node(name, properties)
}

/// The tree of `qemu-system-aarch64 -M virt,gic-version=N -smp cpus -m 2G`, without its many devices that boot passes over.
pub(crate) fn virt_with(gic_version: u32, cpu_count: u32) -> DeviceTree {
    let psci = [
        cells("cpu_on", &[0xc400_0003]),
        text("method", "hvc"),
        texts("compatible", &["arm,psci-1.0", "arm,psci-0.2", "arm,psci"]),
    ];
    let platform_bus = [
        cells("interrupt-parent", &[GIC]),
        cells("ranges", &[0, 0, 0xc00_0000, 0x200_0000]),
        cells("#address-cells", &[1]),
        cells("#size-cells", &[1]),
        texts("compatible", &["qemu,platform", "simple-bus"]),
    ];
    let root = [
        cells("interrupt-parent", &[GIC]),
        text("model", "linux,dummy-virt"),
        cells("#size-cells", &[2]),
        cells("#address-cells", &[2]),
        text("compatible", "linux,dummy-virt"),
    ];
    let mut tree = DeviceTree::new();
    for property in root {
        tree.root.add_property(property);
    }
    let children = [
        node("psci", psci),
        memory(&[(0x4000_0000, 0x8000_0000)]),
        node("platform-bus@c000000", platform_bus),
        pl011("pl011@9000000", 0x900_0000),
        if gic_version == 3 { gic_v3() } else { gic_v2() },
        node("flash@0", [reg(&[(0, 0x400_0000)]), text("compatible", "cfi-flash")]),
        cpus(cpu_count),
        timer(),
        node("chosen", [text("stdout-path", "/pl011@9000000"), text("bootargs", "arm64.pagesize=16k")]),
    ];
    for child in children {
        tree.root.add_child(child);
    }
    tree
}

/// Two CPUs and a GICv3.
pub(crate) fn virt() -> DeviceTree {
    virt_with(3, 2)
}

/// A change to `virt`, by hand.
pub(crate) fn virt_but(change: impl FnOnce(&mut DeviceTree)) -> Vec<u8> {
    let mut tree = virt();
    change(&mut tree);
    tree.to_dtb()
}

/// `virt` with a property put into the node at `path`.
pub(crate) fn virt_with_property(path: &str, property: DeviceTreeProperty) -> Vec<u8> {
    virt_but(|tree| set(tree, path, property))
}

/// Puts a property into the node at `path`, instead of the one with its name.
pub(crate) fn set(tree: &mut DeviceTree, path: &str, property: DeviceTreeProperty) {
    let node = tree.find_node_mut(path).unwrap();
    node.remove_property((&property).name());
    node.add_property(property);
}

/// `virt` without the node of this name below the root.
pub(crate) fn virt_without(name: &str) -> Vec<u8> {
    virt_but(|tree| assert!(tree.root.remove_child(name).is_some()))
}

/// A tree with everything that is not in `virt`: buses with windows, reservations, an alias, 64-bit numbers.
pub(crate) fn soc() -> DeviceTree {
    use dtoolkit::memreserve::MemoryReservation;
    let mut tree = virt_with(2, 0);
    for name in ["pl011@9000000", "intc@8000000", "chosen", "cpus", "flash@0"] {
        tree.root.remove_child(name).unwrap();
    }
    let soc = [
        cells("#address-cells", &[1]),
        cells("#size-cells", &[1]),
        cells("ranges", &[0x7c00_0000, 0, 0xfc00_0000, 0x0380_0000, 0x4000_0000, 0, 0xff80_0000, 0x0080_0000]),
    ];
    let inner =
        [cells("#address-cells", &[1]), cells("#size-cells", &[1]), cells("ranges", &[0, 0x7e20_0000, 0x1_0000])];
    let serial = [cells("reg", &[0x1000, 0x200]), texts("compatible", &["vendor,uart", "arm,pl011"])];
    let gic = [
        cells("phandle", &[GIC]),
        cells("reg", &[0x4004_1000, 0x1000, 0x4004_2000, 0x2000]),
        text("compatible", "arm,gic-400"),
        flag("interrupt-controller"),
        cells("#interrupt-cells", &[3]),
    ];
    let inner = parent(node("bus@7e200000", inner), [node("serial@1000", serial)]);
    tree.root.add_child(parent(node("soc", soc), [inner, node("interrupt-controller@40041000", gic)]));
    let reserved = [cells("#address-cells", &[2]), cells("#size-cells", &[2]), flag("ranges")];
    let firmware = node("firmware@bff00000", [reg(&[(0xbff0_0000, 0x10_0000)]), flag("no-map")]);
    let frame = node("framebuffer", [reg(&[(0x5000_0800, 0x1000), (0x6000_0000, 0x80_0000)])]);
    let dynamic = node("linux,cma", [cells("size", &[0, 0x400_0000]), text("compatible", "shared-dma-pool")]);
    tree.root.add_child(parent(node("reserved-memory", reserved), [firmware, frame, dynamic]));
    tree.memory_reservations.push(MemoryReservation::new(0x4000_0000, 0x1_0000));
    let cpus = parent(
        node("cpus", [cells("#address-cells", &[2]), cells("#size-cells", &[0])]),
        [
            node("cpu@0", [cells("reg", &[0, 0]), text("device_type", "cpu"), text("enable-method", "psci")]),
            node("cpu@100000100", [cells("reg", &[1, 0x100]), text("device_type", "cpu"), text("status", "disabled")]),
            node("cpu@2", [cells("reg", &[0, 2]), text("device_type", "cpu"), text("status", "fail")]),
        ],
    );
    tree.root.add_child(cpus);
    tree.root.add_child(node("aliases", [text("serial0", "/soc/bus/serial@1000")]));
    let chosen = [
        text("stdout-path", "serial0:115200n8"),
        text("bootargs", "console=ttyAMA0 vellum.vabits=42"),
        cells("linux,initrd-start", &[0, 0x4800_0000]),
        cells("linux,initrd-end", &[0, 0x4812_3456]),
    ];
    tree.root.add_child(node("chosen", chosen));
    tree
}
