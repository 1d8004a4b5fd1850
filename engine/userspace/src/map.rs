//! An ordered map whose insertion reports that there is no memory, where those of `alloc` abort: a tree whose nodes hold up to 12 places.
//!
//! ```text
//! root ─▶ inner: nodes in order ─▶ … ─▶ leaf: entries in order        a node's key is its first entry's; none is empty but the root
//! ```
//! A node that is full is split on the way down, so that a refused insertion has changed no entry.

use alloc::vec::Vec;
use core::borrow::Borrow;
use core::mem;
use core::slice;

pub(crate) use self::node::push;
use self::node::{MOST, Node, node, put, reserve};
use crate::error::Error;

mod node;

/// The heap has no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl From<NoMemory> for Error {
    fn from(NoMemory: NoMemory) -> Self {
        Self::NoMemory
    }
}

/// An ordered map.
#[derive(Debug)]
pub struct Map<K, V> {
    root: Node<K, V>,
    count: usize,
    /// Nodes in hand for [`Map::insert`].
    leaves: Vec<Vec<(K, V)>>,
    inners: Vec<Vec<Node<K, V>>>,
}

impl<K, V> Map<K, V> {
    /// A map without entries, which has no memory.
    pub const fn new() -> Self {
        Self { root: Node::Leaf(Vec::new()), count: 0, leaves: Vec::new(), inners: Vec::new() }
    }

    /// Entries that it has.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entry of the lowest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.root.first().map(|(key, value)| (key, value))
    }

    /// The entry of the highest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.root.last().map(|(key, value)| (key, value))
    }

    /// Keeps those entries for which `stays` holds.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        let mut kept = 0;
        self.root.retain(&mut |key, value| {
            let is_kept = stays(key, value);
            kept += usize::from(is_kept);
            is_kept
        });
        self.count = kept;
        self.settle();
    }

    /// A root of one node is that node; what has no entry has no memory.
    fn settle(&mut self) {
        while let Node::Inner(nodes) = &mut self.root
            && nodes.len() <= 1
        {
            self.root = nodes.pop().unwrap_or(Node::Leaf(Vec::new()));
        }
        if self.count == 0 {
            self.root = Node::Leaf(Vec::new());
        }
    }

    fn height(&self) -> usize {
        let (mut node, mut height) = (&self.root, 0);
        while let Node::Inner(nodes) = node
            && let Some(first) = nodes.first()
        {
            (node, height) = (first, height + 1);
        }
        height
    }

    /// Has nodes in hand for `more` entries: so many calls of [`Self::insert`] are not refused, whatever is removed in between.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]; no entry has changed.
    pub fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        let inners = more * (self.height() + 2);
        reserve(&mut self.leaves, more)?;
        reserve(&mut self.inners, inners)?;
        while self.leaves.len() < more {
            let leaf = node(&mut Vec::new())?;
            push(&mut self.leaves, leaf);
        }
        while self.inners.len() < inners {
            let inner = node(&mut Vec::new())?;
            push(&mut self.inners, inner);
        }
        Ok(())
    }

    /// Another map, with what `clone` gives for each entry: the same keys, or none if there is no memory for one.
    ///
    /// # Errors
    ///
    /// [`NoMemory`].
    pub fn try_clone(&self, mut clone: impl FnMut(&K, &V) -> Option<(K, V)>) -> Result<Self, NoMemory> {
        if self.is_empty() {
            return Ok(Self::new());
        }
        let root = self.root.try_clone(&mut clone)?;
        Ok(Self { root, count: self.count, leaves: Vec::new(), inners: Vec::new() })
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The entry of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(one, _)| one.borrow().cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
                Node::Inner(nodes) => node = &nodes[Node::place(nodes, key)],
            }
        }
    }

    /// The entry of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.root.get_mut(key)
    }

    /// Whether there is an entry of a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Has an entry of this key; the one that there was is given.
    ///
    /// # Errors
    ///
    /// [`NoMemory`]; no entry has changed.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, NoMemory> {
        let Self { root, count, leaves, inners } = self;
        if root.len() == MOST {
            let mut nodes = node(inners)?;
            let upper = root.split(root.is_below(&key), leaves, inners)?;
            let lower = mem::replace(root, Node::Leaf(Vec::new()));
            put(&mut nodes, 0, lower);
            put(&mut nodes, 1, upper);
            *root = Node::Inner(nodes);
        }
        let replaced = root.insert((key, value), leaves, inners)?;
        *count += usize::from(replaced.is_none());
        Ok(replaced)
    }

    /// Takes an entry away.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (_, value) = self.root.remove(key)?;
        self.count -= 1;
        self.settle();
        Some(value)
    }

    /// Entries from a key on, in order.
    pub fn at_least<Q: Ord + ?Sized>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Iter { map: self, leaf: self.root.at_least(key, false).iter(), last: None }
    }

    /// All entries, in order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => return Iter { map: self, leaf: entries.iter(), last: None },
                Node::Inner(nodes) => node = &nodes[0],
            }
        }
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Entries below a key, from the highest down.
    pub fn below<Q: Ord + ?Sized>(&self, key: &Q) -> Down<'_, K, V>
    where
        K: Borrow<Q>,
    {
        Down { map: self, leaf: self.root.up_to(key, true).iter(), last: None }
    }

    /// The last entry up to a key, its own included.
    pub fn up_to<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.root.up_to(key, false).last().map(|(key, value)| (key, value))
    }

    /// The first entry beyond a key.
    pub fn beyond<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.root.at_least(key, true).first().map(|(key, value)| (key, value))
    }
}

/// Entries of a [`Map`], upwards.
#[derive(Debug)]
pub struct Iter<'a, K, V> {
    map: &'a Map<K, V>,
    leaf: slice::Iter<'a, (K, V)>,
    last: Option<&'a K>,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self { map: self.map, leaf: self.leaf.clone(), last: self.last }
    }
}

impl<'a, K: Ord, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.leaf.len() == 0 {
            self.leaf = self.map.root.at_least(self.last?, true).iter();
        }
        let (key, value) = self.leaf.next()?;
        self.last = Some(key);
        Some((key, value))
    }
}

/// Entries of a [`Map`], downwards.
#[derive(Debug)]
pub struct Down<'a, K, V> {
    map: &'a Map<K, V>,
    leaf: slice::Iter<'a, (K, V)>,
    last: Option<&'a K>,
}

impl<'a, K: Ord, V> Iterator for Down<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.leaf.len() == 0 {
            self.leaf = self.map.root.up_to(self.last?, true).iter();
        }
        let (key, value) = self.leaf.next_back()?;
        self.last = Some(key);
        Some((key, value))
    }
}
