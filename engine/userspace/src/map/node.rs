//! Nodes of a map: their lists have room for all that they may hold from the beginning, and never grow.
//!
//! Two neighbours below one node have more than half a node's places together, so that each level has some three times the nodes of the
//! one above: fewer than 30 levels for 2^40 entries, and as many frames of the stack for what descends by recursion.

use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::mem;

use super::NoMemory;

/// Places of a node.
pub(super) const MOST: usize = 12;

#[derive(Debug)]
pub(super) enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Node<K, V>>),
}

/// Has room for `count` items in a list.
pub(super) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<(), NoMemory> {
    list.try_reserve_exact(count.saturating_sub(list.len())).map_err(|_| NoMemory)
}

/// A node's list from those in hand, or from the heap.
pub(super) fn node<T>(spare: &mut Vec<Vec<T>>) -> Result<Vec<T>, NoMemory> {
    if let Some(node) = spare.pop() {
        return Ok(node);
    }
    let mut node = Vec::new();
    reserve(&mut node, MOST)?;
    Ok(node)
}

/// Puts an item into a list that has room for it; without room it is dropped.
pub(super) fn put<T>(list: &mut Vec<T>, at: usize, item: T) {
    debug_assert!(list.len() < list.capacity() && at <= list.len(), "room was reserved");
    // The comparison leaves the compiler no way to a list that grows.
    if list.len() < list.capacity() && at <= list.len() {
        list.insert(at, item);
    }
}

/// Adds an item to a list that has room for it.
pub(crate) fn push<T>(list: &mut Vec<T>, item: T) {
    let at = list.len();
    put(list, at, item);
}

/// Moves what a full node's list has from a place on to another one.
fn cut<T>(list: &mut Vec<T>, from: usize, upper: &mut Vec<T>) {
    for item in list.drain(from..) {
        push(upper, item);
    }
}

/// Merges a node and the next one, if both are small. Whether it has.
fn join<K, V>(nodes: &mut Vec<Node<K, V>>, at: usize) -> bool {
    let is_merged = nodes.get_mut(at..at + 2).is_some_and(|pair| {
        let (own, next) = pair.split_at_mut(1);
        own[0].merge(&mut next[0])
    });
    if is_merged {
        nodes.remove(at + 1);
    }
    is_merged
}

impl<K, V> Node<K, V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(nodes) => nodes.len(),
        }
    }

    pub(super) fn first(&self) -> Option<&(K, V)> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(entries) => return entries.first(),
                Self::Inner(nodes) => node = nodes.first()?,
            }
        }
    }

    pub(super) fn last(&self) -> Option<&(K, V)> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(entries) => return entries.last(),
                Self::Inner(nodes) => node = nodes.last()?,
            }
        }
    }

    /// Splits a full node; the upper part is given: half of it, or the last place where entries come in order.
    pub(super) fn split(
        &mut self,
        is_in_order: bool,
        leaves: &mut Vec<Vec<(K, V)>>,
        inners: &mut Vec<Vec<Self>>,
    ) -> Result<Self, NoMemory> {
        let from = if is_in_order { MOST - 1 } else { MOST / 2 };
        Ok(match self {
            Self::Leaf(entries) => {
                let mut upper = node(leaves)?;
                cut(entries, from, &mut upper);
                Self::Leaf(upper)
            }
            Self::Inner(nodes) => {
                let mut upper = node(inners)?;
                cut(nodes, from, &mut upper);
                Self::Inner(upper)
            }
        })
    }

    /// Takes over all that `next` has, if both are small and alike. Whether it has.
    fn merge(&mut self, next: &mut Self) -> bool {
        if self.len() + next.len() > MOST / 2 {
            return false;
        }
        match (self, next) {
            (Self::Leaf(own), Self::Leaf(next)) => next.drain(..).for_each(|entry| push(own, entry)),
            (Self::Inner(own), Self::Inner(next)) => {
                let last = own.len().saturating_sub(1);
                next.drain(..).for_each(|node| push(own, node));
                join(own, last);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn retain(&mut self, stays: &mut impl FnMut(&K, &mut V) -> bool) {
        match self {
            Self::Leaf(entries) => entries.retain_mut(|(key, value)| stays(key, value)),
            Self::Inner(nodes) => {
                nodes.retain_mut(|node| {
                    node.retain(stays);
                    node.len() > 0
                });
                let mut at = 0;
                while at < nodes.len() {
                    at += usize::from(!join(nodes, at));
                }
            }
        }
    }

    pub(super) fn try_clone(&self, clone: &mut impl FnMut(&K, &V) -> Option<(K, V)>) -> Result<Self, NoMemory> {
        match self {
            Self::Leaf(entries) => {
                let mut own = Vec::new();
                reserve(&mut own, MOST)?;
                for (key, value) in entries {
                    push(&mut own, clone(key, value).ok_or(NoMemory)?);
                }
                Ok(Self::Leaf(own))
            }
            Self::Inner(nodes) => {
                let mut own = Vec::new();
                reserve(&mut own, MOST)?;
                for node in nodes {
                    let node = node.try_clone(clone)?;
                    push(&mut own, node);
                }
                Ok(Self::Inner(own))
            }
        }
    }
}

impl<K: Ord, V> Node<K, V> {
    /// The entry of a key below this node, to be changed.
    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|(one, _)| one.borrow().cmp(key)).ok()?;
                Some(&mut entries[at].1)
            }
            Self::Inner(nodes) => {
                let at = Self::place(nodes, key);
                nodes[at].get_mut(key)
            }
        }
    }

    /// Puts an entry below this node, which is not full, and returns the value that its key had. Lists of nodes come from those in hand,
    /// or from the heap.
    pub(super) fn insert(
        &mut self,
        entry: (K, V),
        leaves: &mut Vec<Vec<(K, V)>>,
        inners: &mut Vec<Vec<Self>>,
    ) -> Result<Option<V>, NoMemory> {
        match self {
            Self::Inner(nodes) => {
                let mut at = Self::place(nodes, &entry.0);
                if nodes[at].len() == MOST {
                    let is_in_order = at + 1 == nodes.len() && nodes[at].is_below(&entry.0);
                    let upper = nodes[at].split(is_in_order, leaves, inners)?;
                    put(nodes, at + 1, upper);
                    at = Self::place(nodes, &entry.0);
                }
                nodes[at].insert(entry, leaves, inners)
            }
            Self::Leaf(entries) => match entries.binary_search_by(|(one, _)| one.cmp(&entry.0)) {
                Ok(at) => Ok(Some(mem::replace(&mut entries[at].1, entry.1))),
                Err(at) => {
                    if entries.capacity() < MOST {
                        // A root without memory.
                        *entries = node(leaves)?;
                    }
                    put(entries, at, entry);
                    Ok(None)
                }
            },
        }
    }

    /// Whether all its entries are below a key.
    pub(super) fn is_below(&self, key: &K) -> bool {
        self.last().is_none_or(|(last, _)| last < key)
    }

    /// The node in which a key is, if any is.
    pub(super) fn place<Q: Ord + ?Sized>(nodes: &[Self], key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let is_below = |node: &Self| node.first().is_some_and(|(first, _)| first.borrow() <= key);
        nodes.partition_point(is_below).saturating_sub(1)
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|(one, _)| one.borrow().cmp(key)).ok()?;
                Some(entries.remove(at))
            }
            Self::Inner(nodes) => {
                let at = Self::place(nodes, key);
                let removed = nodes.get_mut(at)?.remove(key)?;
                if nodes[at].len() == 0 {
                    nodes.remove(at);
                } else {
                    join(nodes, at);
                }
                if at > 0 {
                    join(nodes, at - 1);
                }
                Some(removed)
            }
        }
    }

    /// The entries of one leaf from a key on, without the key's own if it `is_beyond`; they are the lowest such.
    pub(super) fn at_least<Q: Ord + ?Sized>(&self, key: &Q, is_beyond: bool) -> &[(K, V)]
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Leaf(entries) => {
                let is_before = |(one, _): &(K, V)| match one.borrow().cmp(key) {
                    Ordering::Less => true,
                    Ordering::Equal => is_beyond,
                    Ordering::Greater => false,
                };
                &entries[entries.partition_point(is_before)..]
            }
            Self::Inner(nodes) => {
                let at = Self::place(nodes, key);
                let found =
                    nodes.get(at..at + 2).unwrap_or(&nodes[at..]).iter().map(|node| node.at_least(key, is_beyond));
                found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
            }
        }
    }

    /// The entries of one leaf up to a key, without the key's own if it `is_below`; they are the highest such.
    pub(super) fn up_to<Q: Ord + ?Sized>(&self, key: &Q, is_below: bool) -> &[(K, V)]
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Leaf(entries) => {
                let is_in = |(one, _): &(K, V)| match one.borrow().cmp(key) {
                    Ordering::Less => true,
                    Ordering::Equal => !is_below,
                    Ordering::Greater => false,
                };
                &entries[..entries.partition_point(is_in)]
            }
            Self::Inner(nodes) => {
                let at = Self::place(nodes, key);
                let found = nodes[at.saturating_sub(1)..=at].iter().rev().map(|node| node.up_to(key, is_below));
                found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
            }
        }
    }
}
