//! Ordered lists of nodes that only grow, each with a tree (`btree`) that finds places in it.
//!
//! ```text
//! word n     the node's head; its index n stands for the node
//! word n+1   the node after it
//! ```
//!
//! A **head** is any function of the order: of two nodes the earlier one's is not greater. Most
//! comparisons are of heads; where they are equal the caller compares nodes.
//!
//! Invariants:
//! 1. 0 is no node; as a link it means "none".
//! 2. What a node holds is stored before the link to it (`Release`, met by the readers'
//!    `Acquire`), and its head never changes.
//! 3. The list alone is exact. What its tree answers is a node before the place looked for,
//!    perhaps not the last, since nodes go to the list first; from there the links are followed.

use super::btree::{Pages, Path};
use super::words::{Growth, Target, Words};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const NODE_WORDS: usize = 2;

/// Start of a list, and its tree.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// The word that is the link to the first node.
    pub(super) first: u32,
    /// The word that is the root of the tree; 0 while the list has none and is walked.
    pub(super) root: u32,
}

/// The end of a list.
pub(super) const END: Target<fn(u32) -> bool> = Target { head: u64::MAX, is_after: |_| true };

impl Words {
    /// Reserves a node with `fields` words before its head, and fills in the head.
    pub(super) fn reserve_node(&self, growth: &mut Growth, fields: usize, head: u64) -> u32 {
        let node = self.reserve(growth, fields + NODE_WORDS) + fields as u32;
        self.from(node)[0].store(head, Relaxed);
        node
    }

    /// The head of `node`.
    pub(super) fn head(&self, node: u32) -> u64 {
        self.from(node)[0].load(Relaxed)
    }

    /// The first node of the list; 0 if there is none.
    pub(super) fn first(&self, list: List) -> u32 {
        self.from(list.first)[0].load(Acquire) as u32
    }

    /// The node after `node`; 0 if there is none.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.from(node)[1].load(Acquire) as u32
    }

    fn link(&self, list: List, node: u32) -> &AtomicU64 {
        if node == 0 { &self.from(list.first)[0] } else { &self.from(node)[1] }
    }

    /// Returns whether `node` is before `target`.
    pub(super) fn is_before(&self, node: u32, target: &Target<impl Fn(u32) -> bool>) -> bool {
        target.is_behind(self.head(node), || node)
    }

    /// The last node before `target`, 0 if there is none, and the one after it, 0 if there is
    /// none. They come from one look at the link between them: by a second look the writer may
    /// have put a node there that lies before `target`.
    pub(super) fn search(&self, list: List, target: &Target<impl Fn(u32) -> bool>) -> (u32, u32) {
        let near = Pages(self).find(list.root, target, |_, _| {});
        self.walk(list, near, target)
    }

    /// Likewise, from `node`, which is before `target`, or from the start.
    fn walk(&self, list: List, mut node: u32, target: &Target<impl Fn(u32) -> bool>) -> (u32, u32) {
        loop {
            let after = self.link(list, node).load(Acquire) as u32;
            if after == 0 || !self.is_before(after, target) {
                return (node, after);
            }
            node = after;
        }
    }

    /// Puts `node`, filled but for its link, to its place `target`.
    pub(super) fn insert(
        &self,
        growth: &mut Growth,
        list: List,
        target: &Target<impl Fn(u32) -> bool>,
        node: u32,
    ) {
        let mut path = Path::default();
        let near = Pages(self).find(list.root, target, |page, at| path.push(page, at));
        let (before, after) = self.walk(list, near, target);
        self.from(node)[1].store(u64::from(after), Relaxed);
        self.link(list, before).store(u64::from(node), Release);
        if list.root != 0 {
            Pages(self).insert(growth, list.root, path, node);
        }
    }

    /// Gives the list, whose root is `root`, a tree of all its nodes.
    pub(super) fn add_tree(&self, growth: &mut Growth, list: List) {
        Pages(self).plant(growth, list.root);
        let mut node = self.first(list);
        while node != 0 {
            let mut path = Path::default();
            Pages(self).find(list.root, &END, |page, at| path.push(page, at));
            Pages(self).insert(growth, list.root, path, node);
            node = self.next(node);
        }
    }
}
