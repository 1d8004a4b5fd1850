//! The ordered map: whatever is put in and taken out, it holds what a map of `alloc` holds.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use seed::Seed;
use vellum_userspace::Map;

/// The two hold the same, whichever way they are read.
fn compare(map: &mut Map<u32, u64>, model: &BTreeMap<u32, u64>, key: u32) {
    assert_eq!((map.len(), map.get_mut(&key).copied()), (model.len(), model.get(&key).copied()));
    assert!(map.iter().eq(model), "upwards");
    assert!(map.below(&u32::MAX).eq(model.iter().rev()), "downwards");
    assert_eq!((map.first(), map.last()), (model.first_key_value(), model.last_key_value()));
    assert_eq!(map.get(&key), model.get(&key));
    assert_eq!(map.contains_key(&key), model.contains_key(&key));
    assert!(map.at_least(&key).eq(model.range(key..)));
    assert!(map.below(&key).eq(model.range(..key).rev()));
    assert_eq!(map.up_to(&key), model.range(..=key).next_back());
    assert_eq!(map.beyond(&key), model.range(key + 1..).next());
}

#[test]
fn it_holds_what_a_map_of_alloc_holds() {
    let mut random = Seed::new(43);
    for keys in [3, 24, 150, 4000] {
        let (mut map, mut model) = (Map::new(), BTreeMap::new());
        for step in 0..4 * keys {
            let key = random.below(u64::from(keys)) as u32;
            // It grows, and shrinks again to nothing.
            if random.below(u64::from(4 * keys)) as u32 > step {
                let value = u64::from(step);
                assert_eq!(map.insert(key, value), Ok(model.insert(key, value)));
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            if keys < 200 || step % 500 == 0 {
                compare(&mut map, &model, key);
            }
        }
        let mut copy = map.try_clone(|key, value| Some((*key, *value))).unwrap();
        compare(&mut copy, &model, keys / 2);
        let odd = |key: &u32, _: &mut u64| key % 2 == 1;
        map.retain(odd);
        model.retain(odd);
        compare(&mut map, &model, keys / 2);
        model.keys().for_each(|key| assert!(map.remove(key).is_some()));
        assert!(map.is_empty() && map.iter().next().is_none());
    }
}

#[test]
fn tens_of_thousands_go_in_either_way() {
    for backwards in [false, true] {
        let mut map = Map::new();
        for at in 0..65_530_u32 {
            let key = if backwards { u32::MAX - 1 - at } else { at };
            map.reserve(1).unwrap();
            assert_eq!(map.insert(key, u64::from(at)), Ok(None));
        }
        assert_eq!((map.len(), map.iter().count(), map.below(&u32::MAX).count()), (65_530, 65_530, 65_530));
        map.retain(|key, _| key % 1000 == 0);
        assert_eq!(map.iter().count(), map.len());
    }
}

/// A key that counts how often one is compared.
#[derive(PartialEq, Eq, Debug)]
struct Counted(u32);

thread_local! { static COMPARED: Cell<u32> = const { Cell::new(0) } }

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn most_compared(map: &Map<Counted, ()>, keys: impl Iterator<Item = u32>) -> u32 {
    let compared = keys.map(|key| {
        COMPARED.set(0);
        assert!(map.contains_key(&Counted(key)));
        COMPARED.get()
    });
    compared.max().unwrap()
}

/// Four a level: of a node's 12 places one is found by as many.
#[test]
fn it_has_no_more_levels_than_its_entries_need() {
    for step in [1, u32::MAX] {
        let mut map = Map::new();
        (0..65_530_u32).for_each(|at| assert_eq!(map.insert(Counted(at.wrapping_mul(step)), ()), Ok(None)));
        assert!(most_compared(&map, (0..65_530_u32).map(|at| at.wrapping_mul(step))) <= 4 * 7);
        map.retain(|key, ()| key.0.wrapping_mul(step) % 12_000 == 0);
        assert_eq!(map.len(), 6);
        assert!(most_compared(&map, (0..6_u32).map(|at| (at * 12_000).wrapping_mul(step))) <= 4);
    }
}

/// Nodes of the tree that hold something, and nodes in hand.
fn nodes(map: &Map<u32, ()>) -> (usize, usize) {
    let text = format!("{map:?}");
    let (tree, hand) = text.split_once(", leaves: ").unwrap();
    (tree.matches("Leaf([(").count() + tree.matches("Inner([").count(), hand.matches('[').count() - 2)
}

/// No node comes from the heap that was not in hand before, however the tree grows.
#[test]
fn what_is_reserved_is_taken_from_what_is_in_hand() {
    for (step, more) in [1, u32::MAX].into_iter().flat_map(|step| [1_u32, 2, 7, 40].map(|more| (step, more))) {
        let mut map = Map::new();
        for round in 0..300 / more {
            map.reserve(more as usize).unwrap();
            let (tree, hand) = nodes(&map);
            assert!(hand >= 3 * more as usize, "{more} leaves, and two inner nodes at least");
            for at in round * more..(round + 1) * more {
                assert_eq!(map.insert(at.wrapping_mul(step), ()), Ok(None));
            }
            let (tree_then, hand_then) = nodes(&map);
            assert_eq!(tree_then + hand_then, tree + hand, "{more} by {step}");
        }
    }
}

/// Nodes are full where keys come in order, and half full where they come from above.
#[test]
fn keys_in_order_fill_their_nodes() {
    for (step, most) in [(1, 1200 / 11 + 20), (u32::MAX, 1200 / 6 + 40)] {
        let mut map = Map::new();
        (0..1200_u32).for_each(|at| assert_eq!(map.insert(at.wrapping_mul(step), ()), Ok(None)));
        assert!(nodes(&map).0 <= most, "{} nodes", nodes(&map).0);
    }
}

#[test]
fn a_refused_copy_is_none() {
    let mut map = Map::new();
    (0..100_u32).for_each(|key| assert_eq!(map.insert(key, ()), Ok(None)));
    assert!(map.try_clone(|key, ()| (*key < 50).then_some((*key, ()))).is_err());
}
