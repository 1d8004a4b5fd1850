// data: the device trees of our own, by name: memory of every shape, and damage of every kind.
//! What `--tree NAME` boots by.

use super::edit::{GIB, IMAGE, KIB, MIB, RAM, Scene};

/// One tree.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// What is special about it.
    pub(crate) tells: &'static str,
    pub(crate) make: fn(&mut Scene),
}

const fn shape(name: &'static str, tells: &'static str, make: fn(&mut Scene)) -> Shape {
    Shape { name, tells, make }
}

/// The shape of this name.
pub(crate) fn find(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name)
}

/// One bank of so many bytes, the blob in the MiB below the Image.
fn little(scene: &mut Scene, bytes: u64) {
    scene.blob_at = RAM + MIB;
    scene.banks(&[(RAM, bytes)]);
}

/// From the start of RAM to the end of the first whole 2 MiB above what is kept of the Image: its last MiB is free after early boot.
fn above_image(scene: &Scene) -> u64 {
    (2 * MIB + scene.image_bytes - MIB).next_multiple_of(2 * MIB) + 2 * MIB
}

/// Every shape there is. RAM is at 0x4000_0000, the Image 2 MiB and the blob 64 MiB above that.
pub(crate) const SHAPES: &[Shape] = &[
    // Memory.
    shape("as-it-is", "QEMU's own", |_| {}),
    shape("many-banks", "60 banks, 0.5 MiB apart: one of 7.5 MiB, for the image, and others of 3.5 MiB", |scene| {
        let mut banks = vec![(RAM, 7 * MIB + 512 * KIB)];
        banks.extend((2..61).map(|number| (RAM + number * 4 * MIB, 3 * MIB + 512 * KIB)));
        scene.banks(&banks);
    }),
    shape("many-nodes", "30 memory nodes, from the highest to the lowest", |scene| {
        scene.no_memory();
        (0..30).rev().for_each(|number| scene.add_banks(&[(RAM + number * 8 * MIB, 7 * MIB)]));
    }),
    shape("too-many-banks", "65 banks, one more than is kept", |scene| {
        scene.blob_at = RAM + MIB;
        let mut banks = vec![(RAM, 8 * MIB)];
        banks.extend((0..64).map(|number| (RAM + 9 * MIB + number * 3 * MIB, 2 * MIB)));
        scene.banks(&banks);
    }),
    shape("unaligned", "three banks that are aligned to nothing", |scene| {
        let end = scene.ram_end();
        scene.banks(&[
            (RAM + 0x123, 0x7ff_f001),
            (RAM + 0x900_0457, 0x23_4569),
            (RAM + 0xa00_0001, end - RAM - 0xa00_0008),
        ]);
    }),
    shape("page-hole", "one page is missing", |scene| {
        let hole = RAM + 0x600_5000;
        scene.banks(&[(RAM, hole - RAM), (hole + 4 * KIB, scene.ram_end() - hole - 4 * KIB)]);
    }),
    shape("touching", "banks that touch, out of order", |scene| {
        let middle = RAM + 0x480_3000;
        scene.banks(&[(middle, scene.ram_end() - middle), (RAM, middle - RAM)]);
    }),
    shape("above-512g", "most memory is above 512 GiB", |scene| {
        scene.modules = vec![(516 * GIB, 128), (1030 * GIB, 64)];
        scene.banks(&[(RAM, 96 * MIB), (516 * GIB, 128 * MIB), (1030 * GIB, 64 * MIB)]);
    }),
    shape("above-48-bits", "memory at 2^48 and far above", |scene| {
        scene.modules = vec![(1 << 48, 64), (3 << 49, 64)];
        scene.banks(&[(RAM, 128 * MIB), (1 << 48, 64 * MIB), (3 << 49, 64 * MIB)]);
    }),
    shape("reserved", "reservations of every kind, aligned to nothing", |scene| {
        scene.reserve(RAM + 0x700_0123, 0x2_1001);
        scene.reserve(RAM + 0x100, 0x20);
        scene.reserve_node(RAM + 0x780_0000, 0x1000, true);
        scene.reserve_node(RAM + 0x800_0800, 0x3_0801, true);
        scene.reserve_node(RAM + 0x900_0001, 0x5_0000, false);
    }),
    shape("no-map-first", "the first MiB must not be mapped", |scene| scene.reserve_node(RAM, MIB, true)),
    shape("initrd-low", "an initrd below the kernel, aligned to nothing", |scene| {
        scene.initrd(RAM + 0x3_0123, RAM + 0x5_4567);
    }),
    shape("initrd-behind", "an initrd right behind the blob", |scene| {
        scene.initrd(scene.blob_at + 0x4000, scene.blob_at + 0x104_0001);
    }),
    shape("initrd-high", "an initrd in the last bytes of RAM", |scene| {
        let end = scene.ram_end();
        scene.initrd(end - 0x12_3456, end);
    }),
    shape("initrd-above-512g", "an initrd above 512 GiB", |scene| {
        scene.modules = vec![(516 * GIB, 128)];
        scene.banks(&[(RAM, 128 * MIB), (516 * GIB, 128 * MIB)]);
        scene.initrd(516 * GIB + 0x1001, 516 * GIB + 0x200_0000);
    }),
    shape("blob-high", "the blob in the last 64 KiB of RAM", |scene| scene.blob_at = scene.ram_end() - 64 * KIB),
    shape("blob-unaligned-page", "the blob across a boundary of pages", |scene| scene.blob_at = RAM + 0x4ff_fff8),
    // The least memory: what is needed follows from the size of the Image. Early tables, stacks and the board need room, and a block of
    // 2 MiB must be left for the checks. Measured, and measured anew where the Image outgrows 2 MiB more.
    shape("least-4k", "the least memory with 4K pages", |scene| little(scene, scene.image_bytes + 2 * MIB)),
    shape("below-4k", "64 KiB less", |scene| little(scene, scene.image_bytes + 2 * MIB - 64 * KIB)),
    shape("least-16k", "the least memory with 16K pages", |scene| little(scene, above_image(scene) + 448 * KIB)),
    shape("below-16k", "64 KiB less", |scene| little(scene, above_image(scene) + 384 * KIB)),
    shape("least-64k", "the least memory with 64K pages", |scene| little(scene, above_image(scene) + 1088 * KIB)),
    shape("below-64k", "64 KiB less", |scene| little(scene, above_image(scene) + 1024 * KIB)),
    shape("guest-nowhere", "the monitor's guest is said to be where nothing is", |scene| {
        let words = "monitor.guest=0x80000000 monitor.exit=semihosting -- vellum.exit=semihosting";
        scene.set_text("chosen", "bootargs", words);
    }),
    // Memory that is a lie.
    shape("no-memory", "no memory node", |scene| scene.no_memory()),
    shape("memory-empty", "a memory node without an address", |scene| scene.banks(&[])),
    shape("memory-odd", "a memory node with a cell too few", |scene| {
        let cells = [0, RAM as u32, 0, 0x800_0000, 0, 0x4900_0000, 0];
        scene.set("memory", "reg", &cells);
    }),
    shape("bank-of-nothing", "a bank of no bytes", |scene| {
        let bytes = scene.ram_bytes;
        scene.banks(&[(RAM, bytes), (0x9000_0000, 0)]);
    }),
    shape("overlap", "two banks that overlap", |scene| scene.banks(&[(RAM, 128 * MIB), (RAM + 64 * MIB, 192 * MIB)])),
    shape("beyond-52-bits", "a bank beyond every physical address", |scene| {
        scene.banks(&[(RAM, scene.ram_bytes), (1 << 60, GIB)]);
    }),
    shape("beyond-64-bits", "a bank that runs over the end of numbers", |scene| {
        scene.banks(&[(RAM, scene.ram_bytes), (0xffff_ffff_ffff_f000, 0x10_0000)]);
    }),
    shape("beyond-the-cpu", "a bank at 2^45", |scene| scene.banks(&[(RAM, scene.ram_bytes), (1 << 45, GIB)])),
    shape("bank-absent", "a small bank where nothing is", |scene| {
        scene.banks(&[(RAM, scene.ram_bytes), (1 << 45, 16 * MIB)]);
    }),
    shape("bank-half-absent", "a small bank where nothing is, behind a reservation in the same block", |scene| {
        let end = scene.ram_end();
        scene.banks(&[(RAM, scene.ram_bytes), (end, 64 * MIB)]);
        scene.reserve(end - 64 * KIB, 64 * KIB);
    }),
    shape("image-outside", "no bank has the kernel", |scene| scene.banks(&[(RAM + 32 * MIB, 128 * MIB)])),
    shape("image-no-map", "the kernel must not be mapped", |scene| scene.reserve_node(RAM + 2 * MIB, MIB, true)),
    shape("everything-reserved", "no memory is free", |scene| scene.reserve(RAM, scene.ram_bytes)),
    shape("too-many-reservations", "70 reservations, more than are kept", |scene| {
        (0..70).for_each(|number| scene.reserve(RAM + 0x600_0000 + number * 0x1_0000, 0x1000));
    }),
    shape("reservation-odd", "a reservation with a cell too few", |scene| {
        scene.reserve_node(RAM + 0x700_0000, 0x1000, false);
        let parent = scene.node("reserved-memory");
        let child = parent.children_mut().next().expect("it was just made");
        child.remove_property("reg");
        child.add_property(dtoolkit::model::DeviceTreeProperty::new_unchecked("reg", &[0u32, 0x4700_0000, 0][..]));
    }),
    shape("reservation-beyond", "reservations where no memory is, and over the end of numbers", |scene| {
        scene.reserve(0xffff_ffff_ffff_f000, 0x10_0000);
        scene.reserve(0, MIB);
        scene.reserve(1 << 52, GIB);
        scene.reserve_node(u64::MAX - 7, 16, true);
        scene.reserve_node(RAM + 0x700_0000, 0, true);
    }),
    shape("reservation-cells", "reservations whose addresses have five cells", |scene| {
        scene.reserve_node(RAM + 0x700_0000, 0x1000, true);
        scene.set("reserved-memory", "#address-cells", &[5]);
    }),
    shape("reservation-endless", "the /memreserve/ list has no end", |scene| {
        scene.damage = Some(|blob| {
            let list = u32::from_be_bytes([blob[16], blob[17], blob[18], blob[19]]) as usize;
            blob.splice(list..list, [0, 0, 0, 0, 0x47, 0, 0, 0].repeat(160));
            for field in [4, 8, 12] {
                let old = u32::from_be_bytes([blob[field], blob[field + 1], blob[field + 2], blob[field + 3]]);
                blob[field..field + 4].copy_from_slice(&(old + 1280).to_be_bytes());
            }
        });
    }),
    shape("initrd-beyond", "an initrd that ends beyond RAM", |scene| {
        let end = scene.ram_end();
        scene.initrd(end - MIB, end + 1);
    }),
    shape("initrd-nowhere", "an initrd where no memory is", |scene| scene.initrd(0x10_0000_0000, 0x10_0100_0000)),
    shape("initrd-reversed", "an initrd that ends before it starts", |scene| {
        scene.initrd(RAM + 32 * MIB, RAM + 31 * MIB)
    }),
    shape("initrd-on-image", "an initrd over the kernel", |scene| scene.initrd(RAM + 2 * MIB + 1, RAM + 3 * MIB)),
    // The blob.
    shape("none", "no device tree: x0 is 0", |scene| scene.passed = Some(0)),
    shape("misaligned", "x0 is no multiple of 8", |scene| scene.passed = Some(scene.blob_at + 4)),
    shape("elsewhere", "x0 leads to zeros", |scene| scene.passed = Some(scene.blob_at + 0x10_0000)),
    shape("absent", "x0 leads to where nothing is", |scene| scene.passed = Some(0x0f00_0000)),
    shape("bad-magic", "the blob begins with something else", |scene| scene.damage = Some(|blob| blob[3] ^= 1)),
    shape("bad-version", "the blob is of version 99, and readable as nothing else", |scene| {
        scene.damage = Some(|blob| {
            blob[20..24].copy_from_slice(&99u32.to_be_bytes());
            blob[24..28].copy_from_slice(&99u32.to_be_bytes());
        });
    }),
    shape("truncated", "the blob claims half of its bytes", |scene| {
        scene.damage = Some(|blob| {
            let half = blob.len() as u32 / 2;
            blob[4..8].copy_from_slice(&half.to_be_bytes());
        });
    }),
    shape("half-lost", "the second half of the blob is zeros", |scene| {
        scene.damage = Some(|blob| {
            let half = blob.len() / 2;
            blob[half..].fill(0);
        });
    }),
    shape("huge", "the blob claims 16 MiB", |scene| {
        scene.damage = Some(|blob| blob[4..8].copy_from_slice(&(16u32 << 20).to_be_bytes()));
    }),
    shape("blob-on-image", "x0 leads into the kernel", |scene| scene.passed = Some(IMAGE)),
    // The rest of the tree.
    shape("phandle-cycle", "interrupt parents in a circle", |scene| {
        let (first, second) = (0x7001, 0x7002);
        for (name, own, parent) in [("nexus-one", first, second), ("nexus-two", second, first)] {
            scene.set(name, "phandle", &[own]);
            scene.set(name, "interrupt-parent", &[parent]);
            scene.set(name, "interrupt-controller", &[]);
        }
        scene.set("intc", "interrupt-parent", &[first]);
    }),
    shape("phandle-nowhere", "an interrupt parent that is nowhere", |scene| {
        scene.tree.root.remove_property("interrupt-parent");
        let parent = dtoolkit::model::DeviceTreeProperty::new_unchecked("interrupt-parent", &[0x7777u32][..]);
        scene.tree.root.add_property(parent);
    }),
    shape("controller-huge", "an interrupt controller of a TiB", |scene| {
        scene.set("intc", "reg", &[0, 0x0800_0000, 0x100, 0, 0, 0x080a_0000, 0x100, 0]);
    }),
    shape("controller-absent", "an interrupt controller where nothing is", |scene| {
        scene.set("intc", "reg", &[0, 0x0f00_0000, 0, 0x1_0000, 0, 0x0f0a_0000, 0, 0xf6_0000]);
    }),
    shape("controller-in-memory", "an interrupt controller that is RAM", |scene| {
        scene.set("intc", "reg", &[0, 0x4a00_0000, 0, 0x1_0000, 0, 0x4a0a_0000, 0, 0xf6_0000]);
    }),
    shape("controller-is-console", "an interrupt controller that is the console", |scene| {
        scene.set("intc", "reg", &[0, 0x0900_0000, 0, 0x1_0000, 0, 0x0900_0000, 0, 0xf6_0000]);
    }),
    shape("console-huge", "a console of a TiB", |scene| {
        scene.set("pl011", "reg", &[0, 0x0900_0000, 0x100, 0]);
    }),
    shape("no-controller", "no interrupt controller", |scene| scene.remove("intc")),
    shape("no-cpus", "no CPUs", |scene| scene.remove("cpus")),
    shape("boot-cpu-last", "eleven CPUs that are not there, and those of the machine behind them", |scene| {
        scene.add_cpus_before(&[0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10a]);
    }),
    shape("boot-cpu-absent", "the CPU that boots is not among the CPUs", |scene| {
        let boot = scene.node("cpus").remove_child("cpu@0");
        boot.expect("QEMU's first CPU");
    }),
    shape("no-psci", "no firmware that starts CPUs", |scene| scene.remove("psci")),
    shape("no-chosen", "no /chosen, and so no command line", |scene| scene.remove("chosen")),
    shape("console-path", "stdout-path leads nowhere", |scene| scene.set_text("chosen", "stdout-path", "/serial@1")),
    shape("console-gone", "no console in the tree", |scene| scene.remove("pl011")),
    shape("console-absent", "a console at an address where nothing is", |scene| {
        scene.set("pl011", "reg", &[0, 0x0f00_0000, 0, 0x1000]);
    }),
    shape("console-in-memory", "a console that is RAM", |scene| {
        scene.set("pl011", "reg", &[0, 0x4a00_0000, 0, 0x1000]);
    }),
];
