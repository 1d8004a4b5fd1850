//! What is read from whole device trees.

mod support;

use dtoolkit::model::DeviceTree;
use expect_test::expect;
use kerncore::devicetree::{self, MachineDescription};
use kerncore::finding::Findings;
use support::{range, read, tree};

/// The description and the findings as text.
fn lines(blob: &[u8]) -> String {
    let (machine, findings) = read(blob);
    format!("{machine}{findings}")
}

#[test]
fn virt_with_gic_v3() {
    expect![[r#"
        memory    0x0000000040000000-0x00000000bfffffff       2G
        cpu       affinity 0x0, started by psci
        cpu       affinity 0x1, started by psci
        psci      version 1.0 or later, by hvc, CPU_ON 0xc4000003
        gic       version 3, distributor 0x0000000008000000-0x000000000800ffff, redistributors 0x00000000080a0000-0x0000000008ffffff
        timer     interrupts 30 (non-secure EL1 physical) and 27 (virtual)
        console   0x0000000009000000-0x0000000009000fff  arm,pl011
        arguments arm64.pagesize=16k
    "#]].assert_eq(&lines(&tree::virt().to_dtb()));
}

#[test]
fn virt_with_gic_v2_and_one_cpu() {
    let blob = tree::virt_with(2, 1).to_dtb();
    expect![[r#"
        memory    0x0000000040000000-0x00000000bfffffff       2G
        cpu       affinity 0x0, started by psci
        psci      version 1.0 or later, by hvc, CPU_ON 0xc4000003
        gic       version 2, distributor 0x0000000008000000-0x000000000800ffff, CPU interface 0x0000000008010000-0x000000000801ffff
        timer     interrupts 30 (non-secure EL1 physical) and 27 (virtual)
        console   0x0000000009000000-0x0000000009000fff  arm,pl011
        arguments arm64.pagesize=16k
    "#]].assert_eq(&lines(&blob));
}

#[test]
fn buses_reservations_aliases_and_wide_cells() {
    expect![[r#"
        memory    0x0000000040000000-0x00000000bfffffff       2G
        reserved  0x0000000040000000-0x000000004000ffff      64K
        reserved  0x00000000bff00000-0x00000000bfffffff       1M  firmware@bff00000, no-map
        reserved  0x0000000050000800-0x00000000500017ff       4K  framebuffer
        reserved  0x0000000060000000-0x00000000607fffff       8M  framebuffer
        initrd    0x0000000048000000-0x0000000048123455   ~1165K
        cpu       affinity 0x0, started by psci
        cpu       affinity 0x100000100, by no method we know, disabled
        psci      version 1.0 or later, by hvc, CPU_ON 0xc4000003
        gic       version 2, distributor 0x00000000ff841000-0x00000000ff841fff, CPU interface 0x00000000ff842000-0x00000000ff843fff
        timer     interrupts 30 (non-secure EL1 physical) and 27 (virtual)
        console   0x00000000fe201000-0x00000000fe2011ff  vendor,uart
        arguments console=ttyAMA0 vellum.vabits=42
    "#]].assert_eq(&lines(&tree::soc().to_dtb()));
}

#[test]
fn banks_are_sorted_and_those_that_touch_stay_apart() {
    let blob = tree::virt_but(|tree| {
        tree.root.remove_child("memory@40000000");
        tree.root.add_child(tree::memory(&[(0x8000_0000, 0x1000_0000), (0, 0x1000)]));
        tree.root.add_child(tree::memory(&[(0x100_0000_0000, 0x1234), (0x9000_0000, 0x1000)]));
    });
    let (machine, findings) = read(&blob);
    let banks = [range(0, 0x1000), range(0x8000_0000, 0x1000_0000), range(0x9000_0000, 0x1000)];
    assert_eq!(machine.banks[..3], banks);
    assert_eq!(machine.banks[3], range(0x100_0000_0000, 0x1234));
    assert_eq!(findings.iter().count(), 0);
    assert!(machine.has_memory(&range(0x8fff_f000, 0x2000)));
    assert!(!machine.has_memory(&range(0x8fff_f000, 0x2001)));
}

#[test]
fn names_too_long_for_the_standard_are_read() {
    let name = "a-node-with-a-name-of-more-than-thirty-one-letters@9000000";
    let blob = tree::virt_but(|tree| {
        tree.root.add_child(tree::pl011(name, 0x900_1000));
        tree::set(tree, "/chosen", tree::text("stdout-path", &format!("/{name}")));
    });
    let (machine, findings) = read(&blob);
    assert_eq!(findings.iter().count(), 0);
    assert_eq!(machine.console.unwrap().registers, range(0x900_1000, 0x1000));
}

#[test]
fn a_path_picks_its_own_branch() {
    let blob = tree::virt_but(|tree| {
        let uart = |address| tree::pl011("serial", address);
        let bus = |name, address| {
            tree::parent(tree::node(name, [tree::flag("ranges"), tree::cells("#size-cells", &[2])]), [uart(address)])
        };
        tree.root.remove_child("pl011@9000000");
        tree.root.add_child(bus("bus@1", 0x1000));
        tree.root.add_child(bus("bus@2", 0x2000));
        tree.root.add_child(tree::node("serial", []));
        tree::set(tree, "/chosen", tree::text("stdout-path", "/bus@2/serial:9600"));
    });
    let (machine, findings) = read(&blob);
    assert_eq!((machine.console.unwrap().registers, findings.iter().count()), (range(0x2000, 0x1000), 0));
}

#[test]
fn the_timer_may_name_the_gic_itself_and_its_interrupts_in_any_order() {
    let blob = tree::virt_but(|tree| {
        tree.root.remove_child("timer");
        let timer = tree::node(
            "timer",
            [
                tree::text("compatible", "arm,armv8-timer"),
                tree::cells("interrupts-extended", &[0x8005, 1, 5, 4, 0x8005, 1, 6, 4]),
                tree::texts("interrupt-names", &["virt", "phys"]),
            ],
        );
        tree.root.add_child(timer);
    });
    let (machine, findings) = read(&blob);
    assert_eq!((machine.timer.virtual_interrupt, machine.timer.physical_interrupt), (21, 22));
    assert_eq!(findings.iter().count(), 0);
}

#[test]
fn private_interrupts_have_numbers_below_16() {
    let findings = |number: u32| {
        let blob = tree::virt_but(|tree| {
            let cells = [1, number, 4].repeat(4);
            tree::set(tree, "/timer", tree::cells("interrupts", &cells));
        });
        read(&blob).1.iter().count()
    };
    assert_eq!(findings(15), 0);
    assert!([16, 17, u32::MAX - 16, u32::MAX - 15, u32::MAX].into_iter().all(|number| findings(number) > 0));
}

#[test]
fn old_psci_brings_its_own_function() {
    let psci = |compatible: &str| {
        tree::virt_but(|tree| {
            tree::set(tree, "/psci", tree::text("compatible", compatible));
            tree::set(tree, "/psci", tree::cells("cpu_on", &[0x95c1_ba60]));
            tree::set(tree, "/psci", tree::text("method", "smc"));
        })
    };
    let found = ["arm,psci", "arm,psci-0.2"].map(|compatible| format!("{:?}", read(&psci(compatible)).0.psci));
    expect![[r#"
        Some(Psci { conduit: Smc, version: V0_1, cpu_on: 2512501344 })
        Some(Psci { conduit: Smc, version: V0_2, cpu_on: 3288334339 })"#]]
    .assert_eq(&found.join("\n"));
}

#[test]
fn bytes_behind_the_blob_do_not_matter() {
    let mut blob = tree::virt().to_dtb();
    let alone = format!("{:?}", read(&blob).0);
    blob.extend([0xff; 100]);
    assert_eq!(format!("{:?}", read(&blob).0), alone);
    let header = blob.first_chunk().unwrap();
    assert_eq!(devicetree::claimed_size_bytes(header), Ok(blob.len() as u32 - 100));
    assert!(devicetree::claimed_size_bytes(&[0; 8]).is_err());
}

#[test]
fn values_fit_where_the_kernel_keeps_them() {
    assert!(size_of::<MachineDescription<'_>>() <= 4608, "{}", size_of::<MachineDescription<'_>>());
    assert!(size_of::<Findings<'_>>() <= 3072, "{}", size_of::<Findings<'_>>());
}

/// Our reader and another program's must see the same tree.
#[test]
fn another_reader_agrees() {
    use dtoolkit::fdt::Fdt;
    use dtoolkit::{Node, Property};
    for seed in support::fuzz::seeds() {
        let fdt = Fdt::new(&seed).unwrap();
        let (machine, _) = read(&seed);
        let chosen = fdt.find_node("/chosen").unwrap();
        let property = chosen.property("bootargs");
        assert_eq!(machine.bootargs, property.map_or("", |property| property.value_as::<&str>().unwrap()));
        let reserved = machine.reservations.iter().filter(|entry| entry.name == *"");
        let expected: Vec<_> = fdt.memory_reservations().map(|entry| range(entry.address(), entry.size())).collect();
        assert_eq!(reserved.map(|entry| entry.range).collect::<Vec<_>>(), expected);
        let again = DeviceTree::from_fdt(&fdt).to_dtb();
        assert_eq!(format!("{:?}", read(&again).0), format!("{machine:?}"));
    }
}
