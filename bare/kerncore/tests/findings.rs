//! Each finding about the nodes of a device tree, as the line that people see.

mod support;

use dtoolkit::model::DeviceTreeNode;
use expect_test::expect;
use kerncore::finding::Findings;
use support::tree::{
    self, cells, flag, node, parent, reg, set, text, texts, virt_but, virt_with_property, virt_without,
};
use support::{MIB, lines, read};

#[test]
fn memory() {
    let with_banks = |pairs: &[(u64, u64)]| virt_with_property("/memory@40000000", reg(pairs));
    let many: Vec<_> = (0..66).map(|bank| (bank * 4 * MIB, MIB)).collect();
    let blobs = [
        ("no memory node", virt_without("memory@40000000")),
        ("no reg", virt_but(|tree| drop(tree.find_node_mut("/memory@40000000").unwrap().remove_property("reg")))),
        ("half a reg", virt_with_property("/memory@40000000", cells("reg", &[0, 0x4000_0000, 0, 0x1000_0000, 0]))),
        ("empty banks only", with_banks(&[(0x4000_0000, 0), (0x5000_0000, 0)])),
        ("overlap", with_banks(&[(0x4000_0000, 0x2000_0000), (0x8000_0000, 0x1000), (0x5000_0000, 0x4000_0000)])),
        ("beyond 2^52", with_banks(&[(0x4000_0000, 1 << 52), (1 << 60, 0x1000), (u64::MAX, u64::MAX)])),
        ("many", with_banks(&many)),
        ("wide cells", virt_with_property("/", cells("#address-cells", &[5]))),
        ("disabled", virt_with_property("/memory@40000000", text("status", "disabled"))),
    ];
    expect![[r#"
        no memory node:
        fatal: device tree: no usable memory, expected a node /memory with device_type "memory" and a reg
        no reg:
        warning: device tree: node memory@40000000: property reg makes no sense, expected pairs of address and size of at most 64 bits; only the whole ones before the first bad one are used
        fatal: device tree: no usable memory, expected a node /memory with device_type "memory" and a reg
        half a reg:
        warning: device tree: node memory@40000000: property reg makes no sense, expected pairs of address and size of at most 64 bits; only the whole ones before the first bad one are used
        empty banks only:
        warning: device tree: memory bank at 0x0000000040000000 has size 0, expected more; ignored
        warning: device tree: memory bank at 0x0000000050000000 has size 0, expected more; ignored
        fatal: device tree: no usable memory, expected a node /memory with device_type "memory" and a reg
        overlap:
        warning: device tree: memory bank 0x0000000050000000-0x000000008fffffff overlaps 0x0000000040000000-0x000000005fffffff, expected them apart; taken as one
        warning: device tree: memory bank 0x0000000040000000-0x000000008fffffff overlaps 0x0000000080000000-0x0000000080000fff, expected them apart; taken as one
        beyond 2^52:
        warning: device tree: memory bank of 0x10000000000000 bytes at 0x0000000040000000 goes beyond the address range, expected below 2^52; the part beyond is ignored
        warning: device tree: memory bank of 0x1000 bytes at 0x1000000000000000 goes beyond the address range, expected below 2^52; the part beyond is ignored
        warning: device tree: memory bank of 0xffffffffffffffff bytes at 0xffffffffffffffff goes beyond the address range, expected below 2^52; the part beyond is ignored
        many:
        warning: device tree: more than 64 memory banks, expected fewer; 0x0000000010000000-0x00000000100fffff is ignored
        warning: device tree: more than 64 memory banks, expected fewer; 0x0000000010400000-0x00000000104fffff is ignored
        wide cells:
        warning: device tree: node /: 5 address or size cells, expected 0 to 4; the standard's default is used
        disabled:
        fatal: device tree: no usable memory, expected a node /memory with device_type "memory" and a reg
    "#]].assert_eq(&lines(blobs));
}

#[test]
fn reservations() {
    use dtoolkit::memreserve::MemoryReservation;
    let reserved = |child| {
        virt_but(|tree| {
            let head =
                node("reserved-memory", [cells("#address-cells", &[2]), cells("#size-cells", &[2]), flag("ranges")]);
            tree.root.add_child(parent(head, [child]));
        })
    };
    let many: Vec<_> = (0..65).map(|index| (0x4000_0000 + index * MIB, 0x1000)).collect();
    let blobs = [
        ("no reg", reserved(node("lost", []))),
        ("half a reg", reserved(node("half", [cells("reg", &[0, 0x4000_0000, 0])]))),
        ("placed by us", reserved(node("pool", [cells("size", &[0, 0x1000])]))),
        ("many", reserved(node("many", [reg(&many)]))),
        (
            "many in the block",
            virt_but(|tree| {
                tree.memory_reservations.extend(many.iter().map(|entry| MemoryReservation::new(entry.0, entry.1)))
            }),
        ),
        ("block without end", {
            let mut blob = tree::virt().to_dtb();
            let offset = blob.len() as u32 & !7;
            blob.resize(offset as usize + 16, 1);
            blob[16..20].copy_from_slice(&offset.to_be_bytes());
            blob[4..8].copy_from_slice(&(offset + 16).to_be_bytes());
            blob
        }),
    ];
    expect![[r#"
        no reg:
        warning: device tree: node lost: property reg makes no sense, expected pairs of address and size of at most 64 bits; only the whole ones before the first bad one are reserved
        half a reg:
        warning: device tree: node half: property reg makes no sense, expected pairs of address and size of at most 64 bits; only the whole ones before the first bad one are reserved
        placed by us:
        many:
        fatal: device tree: more than 64 reservations, 0x0000000044000000-0x0000000044000fff would be lost; expected fewer; cannot go on
        many in the block:
        fatal: device tree: more than 64 reservations, 0x0000000044000000-0x0000000044000fff would be lost; expected fewer; cannot go on
        block without end:
        fatal: device tree: the /memreserve/ list has no end, expected an entry of two zeros; reservations may be wrong
    "#]].assert_eq(&lines(blobs));
}

#[test]
fn initrd() {
    let initrd = |start: &[u32], end: &[u32]| {
        virt_but(|tree| {
            set(tree, "/chosen", cells("linux,initrd-start", start));
            set(tree, "/chosen", cells("linux,initrd-end", end));
        })
    };
    let blobs = [
        ("32 bits", initrd(&[0x4800_0000], &[0x4900_0000])),
        ("beyond memory", initrd(&[0xbfff_0000], &[0xc000_0001])),
        ("before memory", initrd(&[0x3fff_ffff], &[0x4100_0000])),
        ("beyond everything", initrd(&[u32::MAX, 0], &[u32::MAX, 1])),
        ("reversed", initrd(&[0x4900_0000], &[0x4800_0000])),
        ("empty", initrd(&[0, 0x4800_0000], &[0x4800_0000])),
        ("start alone", virt_with_property("/chosen", cells("linux,initrd-start", &[0x4800_0000]))),
        ("end alone", virt_with_property("/chosen", cells("linux,initrd-end", &[0x4800_0000]))),
        ("three cells", initrd(&[0, 0, 0x4800_0000], &[0x4900_0000])),
    ];
    expect![[r#"
        32 bits:
        beyond memory:
        warning: device tree: initrd from 0x00000000bfff0000 up to 0x00000000c0000001 is not wholly in memory, expected it inside; ignored
        before memory:
        warning: device tree: initrd from 0x000000003fffffff up to 0x0000000041000000 is not wholly in memory, expected it inside; ignored
        beyond everything:
        warning: device tree: initrd from 0xffffffff00000000 up to 0xffffffff00000001 is not wholly in memory, expected it inside; ignored
        reversed:
        warning: device tree: initrd from 0x0000000049000000 up to 0x0000000048000000, expected the end after the start; ignored
        empty:
        warning: device tree: initrd from 0x0000000048000000 up to 0x0000000048000000, expected the end after the start; ignored
        start alone:
        warning: device tree: node chosen: property linux,initrd-end makes no sense, expected an address of one or two cells, beside its other end; the initrd is ignored
        end alone:
        warning: device tree: node chosen: property linux,initrd-start makes no sense, expected an address of one or two cells, beside its other end; the initrd is ignored
        three cells:
        warning: device tree: node chosen: property linux,initrd-start makes no sense, expected an address of one or two cells, beside its other end; the initrd is ignored
    "#]].assert_eq(&lines(blobs));
}

#[test]
fn console() {
    let path = |path| virt_with_property("/chosen", text("stdout-path", path));
    let blobs = [
        ("no chosen", virt_without("chosen")),
        ("no PL011", virt_without("pl011@9000000")),
        ("no such node", path("/serial@1234")),
        ("no such alias", path("serial0")),
        (
            "an alias of an alias",
            virt_but(|tree| {
                tree.root.add_child(node("aliases", [text("serial0", "serial1"), text("serial1", "serial0")]));
                set(tree, "/chosen", text("stdout-path", "serial0:9600"));
            }),
        ),
        ("not a UART", path("/intc@8000000")),
        ("no address", path("/psci")),
        ("endless", path(&"/a".repeat(200))),
        ("nothing", path("")),
        ("line breaks", path("/a\nb\x1b[31m")),
        ("disabled", virt_with_property("/pl011@9000000", text("status", "disabled"))),
        (
            "out of reach",
            virt_but(|tree| {
                let mut uart = tree.root.remove_child("pl011@9000000").unwrap();
                uart.remove_property("reg");
                uart.add_property(cells("reg", &[0, 0x900_0000, 0x1000]));
                tree.root.add_child(parent(node("bus", []), [uart]));
                set(tree, "/chosen", text("stdout-path", "/bus/pl011"));
            }),
        ),
        ("wrong letters", virt_with_property("/chosen", tree::bytes("bootargs", b"quiet \xff vellum.late=1\0"))),
    ];
    expect![[r#"
        no chosen:
        warning: device tree: no stdout-path, expected it in /chosen, with the console's path; the first PL011 of the tree is used
        no PL011:
        warning: device tree: stdout-path "/pl011@9000000" leads to no enabled node with an address, expected one; there is no console
        no such node:
        warning: device tree: stdout-path "/serial@1234" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        no such alias:
        warning: device tree: stdout-path "serial0" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        an alias of an alias:
        warning: device tree: stdout-path "serial0:9600" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        not a UART:
        warning: device tree: console /intc@8000000 is arm,gic-v3, expected arm,pl011; the first PL011 of the tree is used
        no address:
        warning: device tree: stdout-path "/psci" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        endless:
        warning: device tree: stdout-path "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a..." leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        nothing:
        warning: device tree: stdout-path "" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        line breaks:
        warning: device tree: stdout-path "/a?b?[31m" leads to no enabled node with an address, expected one; the first PL011 of the tree is used
        disabled:
        warning: device tree: stdout-path "/pl011@9000000" leads to no enabled node with an address, expected one; there is no console
        out of reach:
        warning: device tree: stdout-path "/bus/pl011" leads to no enabled node with an address, expected one; there is no console
        wrong letters:
        warning: device tree: node chosen: property bootargs makes no sense, expected UTF-8; what comes before the first wrong byte is used
    "#]].assert_eq(&lines(blobs));
}

#[test]
fn cpus() {
    let blobs = [
        ("none", virt_without("cpus")),
        ("nine", tree::virt_with(3, 9).to_dtb()),
        ("bits between the affinity fields", virt_with_property("/cpus/cpu@1", cells("reg", &[0x8000_0001]))),
        ("no affinity", virt_but(|tree| drop(tree.find_node_mut("/cpus/cpu@1").unwrap().remove_property("reg")))),
        ("twice the same", virt_with_property("/cpus/cpu@1", cells("reg", &[0]))),
        ("no cells", virt_with_property("/cpus", cells("#address-cells", &[0]))),
        ("no psci", virt_without("psci")),
        ("psci disabled", virt_with_property("/psci", text("status", "disabled"))),
        ("no way to call it", virt_with_property("/psci", text("method", "svc"))),
        (
            "no function",
            virt_but(|tree| {
                set(tree, "/psci", text("compatible", "arm,psci"));
                tree.find_node_mut("/psci").unwrap().remove_property("cpu_on");
            }),
        ),
    ];
    expect![[r#"
        none:
        warning: device tree: no CPU, expected one with device_type "cpu" in /cpus; only the CPU that booted runs
        nine:
        warning: device tree: 9 CPUs, expected 8 at most; the later ones stay off
        bits between the affinity fields:
        warning: device tree: node cpu@1: property reg makes no sense, expected the affinity fields of MPIDR_EL1; this CPU stays off
        no affinity:
        warning: device tree: node cpu@1: property reg makes no sense, expected the affinity fields of MPIDR_EL1; this CPU stays off
        twice the same:
        warning: device tree: node cpu@1: affinity 0x0 is taken, expected one CPU for each; ignored
        no cells:
        warning: device tree: node cpu@0: property reg makes no sense, expected the affinity fields of MPIDR_EL1; this CPU stays off
        warning: device tree: node cpu@1: property reg makes no sense, expected the affinity fields of MPIDR_EL1; this CPU stays off
        warning: device tree: no CPU, expected one with device_type "cpu" in /cpus; only the CPU that booted runs
        no psci:
        warning: device tree: no usable PSCI, expected an enabled node compatible with arm,psci; only the CPU that booted runs
        psci disabled:
        warning: device tree: no usable PSCI, expected an enabled node compatible with arm,psci; only the CPU that booted runs
        no way to call it:
        warning: device tree: node psci: property method makes no sense, expected "hvc" or "smc"; not used
        warning: device tree: no usable PSCI, expected an enabled node compatible with arm,psci; only the CPU that booted runs
        no function:
        warning: device tree: node psci: property cpu_on makes no sense, expected a function identifier, as version 0.1 has none of its own; not used
        warning: device tree: no usable PSCI, expected an enabled node compatible with arm,psci; only the CPU that booted runs
    "#]].assert_eq(&lines(blobs));
}

/// An interrupt controller that is no GIC.
/// The CPU that booted is one of the eight, listed or not.
#[test]
fn the_boot_cpu() {
    let after = |count, affinity| {
        let blob = tree::virt_with(3, count).to_dtb();
        let (mut machine, _) = read(&blob);
        let mut findings = Findings::new();
        machine.keep_boot_cpu(affinity, &mut findings);
        (machine.cpus.len(), findings.to_string())
    };
    assert_eq!(after(4, 3), (4, String::new()));
    assert_eq!(after(8, 7), (8, String::new()));
    let (four, said) = after(4, 0x100);
    expect![[r#"
        warning: device tree: no CPU of affinity 0x100, which booted, expected it among the first 8; it runs, with 7 others at most
    "#]]
    .assert_eq(&said);
    assert_eq!(
        (four, after(8, 8), after(9, 8)),
        (4, (7, said.replace("0x100", "0x8")), (7, said.replace("0x100", "0x8")))
    );
    let blob = virt_without("cpus");
    let mut findings = Findings::new();
    read(&blob).0.keep_boot_cpu(0, &mut findings);
    assert_eq!(findings.to_string(), "");
}

fn controller(name: &str, phandle: u32, parent: u32) -> DeviceTreeNode {
    node(name, [cells("phandle", &[phandle]), cells("interrupt-parent", &[parent]), flag("interrupt-controller")])
}

/// Two controllers that are each other's parent, and a node whose parent is the first.
fn circle(of: &str) -> Vec<u8> {
    virt_but(|tree| {
        tree.root.add_child(controller("a", 1, 2));
        tree.root.add_child(controller("b", 2, 1));
        set(tree, of, cells("interrupt-parent", &[1]));
    })
}

#[test]
fn interrupt_controllers() {
    let gic = |property| virt_with_property("/intc@8000000", property);
    let blobs = [
        ("no controller", virt_without("intc@8000000")),
        ("another kind", gic(text("compatible", "arm,gic-v9"))),
        ("a distributor only", gic(reg(&[(0x800_0000, 0x1_0000)]))),
        ("nine redistributor regions", gic(cells("#redistributor-regions", &[9]))),
        (
            "GICv2 without CPU interface",
            virt_but(|tree| {
                set(tree, "/intc@8000000", text("compatible", "arm,gic-400"));
                set(tree, "/intc@8000000", reg(&[(0x800_0000, 0x1_0000)]));
            }),
        ),
        ("region out of reach", gic(reg(&[(0x800_0000, 0x1_0000), (u64::MAX, 0x1_0000)]))),
        ("two", virt_but(|tree| tree.root.add_child(node("intc@1", [text("compatible", "arm,gic-400")])))),
        ("a circle above the GIC", circle("/intc@8000000")),
    ];
    expect![[r#"
        no controller:
        warning: device tree: no interrupt controller, expected an enabled arm,gic-v3, arm,cortex-a15-gic or arm,gic-400; there are no interrupts
        another kind:
        warning: device tree: no interrupt controller, expected an enabled arm,gic-v3, arm,cortex-a15-gic or arm,gic-400; there are no interrupts
        a distributor only:
        warning: device tree: node intc@8000000: property reg makes no sense, expected a distributor and all redistributor regions; there are no interrupts
        nine redistributor regions:
        warning: device tree: node intc@8000000: property #redistributor-regions makes no sense, expected 8 at most; the later ones are ignored
        warning: device tree: node intc@8000000: property reg makes no sense, expected a distributor and all redistributor regions; there are no interrupts
        GICv2 without CPU interface:
        warning: device tree: node intc@8000000: property reg makes no sense, expected a distributor and a CPU interface; there are no interrupts
        region out of reach:
        warning: device tree: node intc@8000000: address 0xffffffffffffffff is in no window of the buses above it, expected `ranges` that reach it; there are no interrupts
        two:
        warning: device tree: node intc@1 is another interrupt controller, expected one GIC; ignored
        a circle above the GIC:
        warning: device tree: node intc@8000000: the interrupt parents from 0x1 on go round in a circle, expected the GIC at their end; the GIC is taken as their root
    "#]]
    .assert_eq(&lines(blobs));
}

#[test]
fn the_timer() {
    let blobs = [
        ("no timer", virt_without("timer")),
        ("shared interrupts", virt_with_property("/timer", cells("interrupts", &[0, 13, 4, 0, 14, 4, 0, 11, 4]))),
        ("too few", virt_with_property("/timer", cells("interrupts", &[1, 13, 4, 1, 14]))),
        ("a circle", circle("/timer")),
        ("a parent that is none", virt_with_property("/timer", cells("interrupt-parent", &[99]))),
        (
            "a parent between",
            virt_but(|tree| {
                tree.root.add_child(controller("mux", 7, 0x8005));
                set(tree, "/timer", cells("interrupt-parent", &[7]));
            }),
        ),
        (
            "another's interrupts",
            virt_with_property("/timer", cells("interrupts-extended", &[1, 1, 13, 4, 1, 1, 14, 4])),
        ),
        ("names of others", virt_with_property("/timer", texts("interrupt-names", &["sec-phys", "virt"]))),
    ];
    expect![[r#"
        no timer:
        warning: device tree: no generic timer, expected an arm,armv8-timer; its usual interrupts 30 and 27 are taken
        shared interrupts:
        warning: device tree: node timer: property interrupts makes no sense, expected private interrupts (type 1, number below 16) of the GIC; its usual interrupts 30 and 27 are taken
        too few:
        warning: device tree: node timer: property interrupts makes no sense, expected private interrupts (type 1, number below 16) of the GIC; its usual interrupts 30 and 27 are taken
        a circle:
        warning: device tree: node timer: the interrupt parents from 0x1 on go round in a circle, expected the GIC at their end; its usual interrupts 30 and 27 are taken
        a parent that is none:
        warning: device tree: node timer: interrupt parent 0x63 is not the GIC, expected it to be; its usual interrupts 30 and 27 are taken
        a parent between:
        warning: device tree: node timer: interrupt parent 0x7 is not the GIC, expected it to be; its usual interrupts 30 and 27 are taken
        another's interrupts:
        warning: device tree: node timer: property interrupts makes no sense, expected private interrupts (type 1, number below 16) of the GIC; its usual interrupts 30 and 27 are taken
        names of others:
        warning: device tree: node timer: property interrupts makes no sense, expected private interrupts (type 1, number below 16) of the GIC; its usual interrupts 30 and 27 are taken
    "#]].assert_eq(&lines(blobs));
}
