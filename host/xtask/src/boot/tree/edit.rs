//! Small changes to a device tree, in the words of the table of shapes.

use dtoolkit::{
    Node,
    memreserve::MemoryReservation,
    model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty},
};

/// Where the Image lies: 2 MiB above the start of RAM, as QEMU's own loader has it.
pub(crate) const IMAGE: u64 = 0x4020_0000;
/// Where QEMU's virt machine has RAM.
pub(super) const RAM: u64 = 0x4000_0000;
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// What a shape may change.
pub(crate) struct Scene {
    pub(crate) tree: DeviceTree,
    /// Bytes of RAM at [`RAM`].
    pub(crate) ram_bytes: u64,
    /// Bytes that the Image takes with its bss, by its header.
    pub(crate) image_bytes: u64,
    /// Where the blob lies.
    pub(crate) blob_at: u64,
    /// What x0 holds at entry, if not that.
    pub(crate) passed: Option<u64>,
    /// Memory beside RAM: where, and how many MiB. The tree tells of it only if the shape says so.
    pub(crate) modules: Vec<(u64, u64)>,
    /// What is done to the finished blob.
    pub(crate) damage: Option<fn(&mut Vec<u8>)>,
}

/// Pairs of address and size, two cells each.
fn pairs(pairs: &[(u64, u64)]) -> Vec<u32> {
    pairs.iter().flat_map(|(at, size)| [at >> 32, *at, size >> 32, *size]).map(|cell| cell as u32).collect()
}

fn cells(name: &str, cells: &[u32]) -> DeviceTreeProperty {
    DeviceTreeProperty::new_unchecked(name, cells)
}

impl Scene {
    /// The address after RAM.
    pub(super) fn ram_end(&self) -> u64 {
        RAM + self.ram_bytes
    }

    /// Lets no node tell of memory.
    pub(super) fn no_memory(&mut self) {
        let is_memory = |name: &&String| name.starts_with("memory");
        let names: Vec<String> = self.tree.root.children().map(|child| child.name().to_string()).collect();
        for name in names.iter().filter(is_memory) {
            self.tree.root.remove_child(name);
        }
    }

    /// Makes these the banks of memory, in one node.
    pub(super) fn banks(&mut self, banks: &[(u64, u64)]) {
        self.no_memory();
        self.add_banks(banks);
    }

    /// Adds a memory node with these banks.
    pub(super) fn add_banks(&mut self, banks: &[(u64, u64)]) {
        let mut node = DeviceTreeNode::new_unchecked(format!("memory@{:x}", banks.first().map_or(0, |bank| bank.0)));
        node.add_property(cells("reg", &pairs(banks)));
        node.add_property(DeviceTreeProperty::new_unchecked("device_type", "memory"));
        self.tree.root.add_child(node);
    }

    /// Adds an entry of `/memreserve/`.
    pub(super) fn reserve(&mut self, at: u64, size: u64) {
        self.tree.memory_reservations.push(MemoryReservation::new(at, size));
    }

    /// Adds a child of `/reserved-memory`.
    pub(super) fn reserve_node(&mut self, at: u64, size: u64, is_no_map: bool) {
        if self.tree.root.child("reserved-memory").is_none() {
            let mut parent = DeviceTreeNode::new_unchecked("reserved-memory");
            parent.add_property(cells("#address-cells", &[2]));
            parent.add_property(cells("#size-cells", &[2]));
            parent.add_property(cells("ranges", &[]));
            self.tree.root.add_child(parent);
        }
        let mut node = DeviceTreeNode::new_unchecked(format!("region@{at:x}"));
        node.add_property(cells("reg", &pairs(&[(at, size)])));
        if is_no_map {
            node.add_property(cells("no-map", &[]));
        }
        self.node("reserved-memory").add_child(node);
    }

    /// The initial RAM disk is said to be there.
    pub(super) fn initrd(&mut self, start: u64, end: u64) {
        for (name, address) in [("linux,initrd-start", start), ("linux,initrd-end", end)] {
            self.set("chosen", name, &[(address >> 32) as u32, address as u32]);
        }
    }

    /// Puts CPUs of these affinities before those of the machine.
    pub(super) fn add_cpus_before(&mut self, affinities: &[u32]) {
        let cpus = self.node("cpus");
        let is_cpu = |name: &String| name.starts_with("cpu@");
        let names: Vec<String> = cpus.children().map(|child| child.name().to_string()).filter(is_cpu).collect();
        let there: Vec<DeviceTreeNode> = names.iter().filter_map(|name| cpus.remove_child(name)).collect();
        for affinity in affinities {
            let mut cpu = DeviceTreeNode::new_unchecked(format!("cpu@{affinity:x}"));
            cpu.add_property(cells("reg", &[*affinity]));
            cpu.add_property(DeviceTreeProperty::new_unchecked("device_type", "cpu"));
            cpu.add_property(DeviceTreeProperty::new_unchecked("enable-method", "psci"));
            cpus.add_child(cpu);
        }
        there.into_iter().for_each(|cpu| cpus.add_child(cpu));
    }

    /// Sets a property of a child of the root to these cells.
    pub(super) fn set(&mut self, node: &str, name: &str, value: &[u32]) {
        let node = self.node(node);
        node.remove_property(name);
        node.add_property(cells(name, value));
    }

    /// Sets a property of a child of the root to this text.
    pub(super) fn set_text(&mut self, node: &str, name: &str, value: &str) {
        let node = self.node(node);
        node.remove_property(name);
        node.add_property(DeviceTreeProperty::new_unchecked(name, value));
    }

    /// Removes the children of the root whose name begins so.
    pub(super) fn remove(&mut self, start: &str) {
        let names: Vec<String> = self.tree.root.children().map(|child| child.name().to_string()).collect();
        for name in names.iter().filter(|name| name.starts_with(start)) {
            self.tree.root.remove_child(name);
        }
    }

    /// A child of the root, by the start of its name; an empty one is made if there is none.
    pub(super) fn node(&mut self, start: &str) -> &mut DeviceTreeNode {
        let found = self.tree.root.children().map(|child| child.name()).find(|name| name.starts_with(start));
        let name = found.unwrap_or(start).to_string();
        if self.tree.root.child(&name).is_none() {
            self.tree.root.add_child(DeviceTreeNode::new_unchecked(name.clone()));
        }
        self.tree.root.child_mut(&name).expect("it was made if it was not there")
    }
}
