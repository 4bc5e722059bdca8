//! A map of trees for states that follow each other: to copy it costs nothing, and to change the
//! copy next to nothing, however many trees there are.
//!
//! Entries lie in parts, which copies share; a change makes anew the list of parts, and the part it
//! is about, unless nobody else has them.
//!
//! 1. Ids ascend within a part, and from part to part.
//! 2. No part is empty, and none has more than `part_max` entries.

use crate::cell::TreeId;
use crate::marks::Mark;
use crate::shape::Shape;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// See the file header.
#[derive(Clone)]
pub struct TreeMap<V> {
    parts: Arc<Vec<Part<V>>>,
    len: usize,
    /// Most entries of a part. A hundred thousand trees are some hundred parts of some hundred
    /// entries.
    part_max: usize,
}

type Part<V> = Arc<Vec<(TreeId, V)>>;

impl<V> TreeMap<V> {
    /// An empty map, with up to `part_max` entries in a part, 2 or more.
    pub fn with_parts(part_max: usize) -> Self {
        Self { parts: Arc::default(), len: 0, part_max }
    }

    /// Number of trees.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of `tree`.
    pub fn get(&self, tree: &TreeId) -> Option<&V> {
        let part = self.parts.get(self.part_of(*tree))?;
        let at = find(part, *tree).ok()?;
        Some(&part[at].1)
    }

    /// Returns whether something is kept of `tree`.
    pub fn contains_key(&self, tree: &TreeId) -> bool {
        self.get(tree).is_some()
    }

    /// All trees, ascending, each with what is kept of it.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&TreeId, &V)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|(tree, value)| (tree, value))
    }

    /// All trees, ascending.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &TreeId> {
        self.iter().map(|(tree, _)| tree)
    }

    /// Returns the value of each tree, in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The part that `tree` is in if it is in any; behind the last if it is larger than all.
    fn part_of(&self, tree: TreeId) -> usize {
        self.parts.partition_point(|part| part.last().is_some_and(|(last, _)| *last < tree))
    }
}

/// Where `tree` is in a part, or belongs.
fn find<V>(part: &[(TreeId, V)], tree: TreeId) -> Result<usize, usize> {
    part.binary_search_by_key(&tree, |(tree, _)| *tree)
}

impl<V: Clone> TreeMap<V> {
    /// Returns the value of `tree` for changes.
    pub fn get_mut(&mut self, tree: &TreeId) -> Option<&mut V> {
        let index = self.part_of(*tree);
        let at = find(self.parts.get(index)?, *tree).ok()?;
        let part = Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[index]);
        Some(&mut part[at].1)
    }

    /// Keeps `value` of `tree`; gives what was kept before.
    pub fn insert(&mut self, tree: TreeId, value: V) -> Option<V> {
        if let Some(kept) = self.get_mut(&tree) {
            return Some(std::mem::replace(kept, value));
        }
        self.len += 1;
        let part_max = self.part_max;
        let index = self.part_of(tree);
        let parts = Arc::make_mut(&mut self.parts);
        // Ids mostly count up: the last part is filled before there is another.
        let index = if index == parts.len() { index.saturating_sub(1) } else { index };
        let Some(part) = parts.get_mut(index) else {
            parts.push(Arc::new(vec![(tree, value)]));
            return None;
        };
        let at = find(part, tree).unwrap_or_else(|at| at);
        if part.len() < part_max {
            Arc::make_mut(part).insert(at, (tree, value));
            return None;
        }
        Mark::TreeMapDivided.hit();
        let part = Arc::make_mut(part);
        let mut behind = part.split_off(if at == part_max { part_max } else { part_max / 2 });
        match at.checked_sub(part.len()) {
            Some(at) => behind.insert(at, (tree, value)),
            None => part.insert(at, (tree, value)),
        }
        parts.insert(index + 1, Arc::new(behind));
        None
    }

    /// Keeps nothing of `tree` any more; gives what was kept.
    pub fn remove(&mut self, tree: &TreeId) -> Option<V> {
        let index = self.part_of(*tree);
        let at = find(self.parts.get(index)?, *tree).ok()?;
        let parts = Arc::make_mut(&mut self.parts);
        let part = Arc::make_mut(&mut parts[index]);
        let (_, value) = part.remove(at);
        if part.is_empty() {
            parts.remove(index);
        }
        self.len -= 1;
        Some(value)
    }
}

impl<V> Default for TreeMap<V> {
    fn default() -> Self {
        Self::with_parts(Shape::DEFAULT.tree_map_part_max)
    }
}

impl<V: PartialEq> PartialEq for TreeMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for TreeMap<V> {}

impl<V: fmt::Debug> fmt::Debug for TreeMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V> Index<&TreeId> for TreeMap<V> {
    type Output = V;

    fn index(&self, tree: &TreeId) -> &V {
        self.get(tree).expect("the caller knows that the tree is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;

    fn is_sound(map: &TreeMap<u32>) {
        let keys: Vec<_> = map.keys().collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "they ascend");
        assert_eq!((keys.len(), map.is_empty()), (map.len(), keys.is_empty()));
        assert!(map.parts.iter().all(|part| (1..=map.part_max).contains(&part.len())));
    }

    #[test]
    fn it_is_what_a_btree_map_is_and_copies_stay_as_they_were() {
        for (seed, ids) in [(1, 20), (2, 3_000), (3, u32::MAX)] {
            let mut random = StdRng::seed_from_u64(seed);
            let (mut map, mut model) = (TreeMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in 0..6_000u32 {
                let known = model.keys().nth(random.random_range(0..model.len().max(1)));
                let tree = match known {
                    Some(known) if random.random_bool(0.4) => *known,
                    _ => TreeId(random.random_range(0..ids)),
                };
                match random.random_range(0..4) {
                    0 => assert_eq!(map.remove(&tree), model.remove(&tree)),
                    1 => assert_eq!(map.get_mut(&tree), model.get_mut(&tree)),
                    _ => assert_eq!(map.insert(tree, step), model.insert(tree, step)),
                }
                assert_eq!(map.get(&tree), model.get(&tree));
                if step % 500 == 0 {
                    is_sound(&map);
                    copies.push((map.clone(), model.clone()));
                }
            }
            copies.push((map, model));
            for (map, model) in &copies {
                assert!(map.iter().eq(model) && map.values().rev().eq(model.values().rev()));
                assert!(model.iter().all(|(tree, value)| map[tree] == *value));
            }
            let (first, last) = (&copies[0].0, &copies[copies.len() - 1].0);
            assert!(first != last && *first == first.clone());
        }
    }

    const PART_MAX: usize = Shape::DEFAULT.tree_map_part_max;

    #[test]
    fn ids_that_count_up_fill_their_parts_and_a_change_copies_one() {
        let mut map = TreeMap::default();
        for id in 0..10 * PART_MAX as u32 {
            assert_eq!(map.insert(TreeId(id), id), None);
        }
        is_sound(&map);
        assert_eq!(map.parts.len(), 10);
        let before = map.clone();
        map.remove(&TreeId(700));
        map.insert(TreeId(701), 0);
        let shared = before.parts.iter().zip(&*map.parts).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), 9);
        for id in 0..10 * PART_MAX as u32 {
            map.remove(&TreeId(id));
        }
        assert!(map.is_empty() && map.parts.is_empty());
        assert_eq!(before.len(), 10 * PART_MAX);
    }
}
