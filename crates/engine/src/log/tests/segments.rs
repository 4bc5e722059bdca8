//! Segments that are needed, over random histories of trees.

use super::super::framing::segment_writer::SegmentList;
use super::super::segments::{Contents, Found, LogSegments};
use super::super::{LogPosition, LogRecord, SegmentNumber};
use crate::cell::TreeId;
use base::env::{Rng, SimEnv};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

/// Data of trees in segments, and their flushed positions: `None` for dropped trees.
#[derive(Default)]
struct Plain {
    contents: Contents,
    flushed: BTreeMap<TreeId, Option<LogPosition>>,
}

impl Plain {
    fn flushed(&self, tree: TreeId) -> Option<LogPosition> {
        self.flushed.get(&tree).copied().unwrap_or(Some(LogPosition(0)))
    }

    fn first_needed(&self) -> Option<SegmentNumber> {
        let needed = |trees: &BTreeMap<TreeId, LogPosition>| {
            trees.iter().any(|(tree, last)| self.flushed(*tree).is_some_and(|at| at < *last))
        };
        let first = self.contents.iter().find(|(_, trees)| needed(trees));
        first.or_else(|| self.contents.last_key_value()).map(|(segment, _)| *segment)
    }
}

#[test]
fn what_is_needed_is_what_all_trees_together_need_and_is_asked_of_each_once() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let machine = SimEnv::new(seed);
        let segments = LogSegments::new(machine.env().fs, Path::new("/log"), Found::default(), 2);
        let mut plain = Plain::default();
        let (questions, mut calls, mut notes) = (Cell::new(0u64), 0, 0);
        let trees = 1 + rng.below(30);
        for at in 1..2000 {
            let tree = TreeId(rng.below(trees) as u32);
            let newest = plain.contents.keys().next_back().copied().unwrap_or_default();
            match rng.below(100) {
                0..4 => {
                    segments.add(newest.next());
                    plain.contents.entry(newest.next()).or_default();
                }
                4..14 => {
                    let position = plain.flushed(tree).map(|_| LogPosition(at));
                    plain.flushed.insert(tree, position);
                }
                14 => drop(plain.flushed.insert(tree, None)),
                15..40 => {
                    calls += 1;
                    let asked = |tree| {
                        questions.set(questions.get() + 1);
                        plain.flushed(tree)
                    };
                    assert_eq!(segments.first_needed(asked), plain.first_needed(), "{seed} {at}");
                }
                _ if newest > SegmentNumber(0) => {
                    notes += 1;
                    let (first, commit_time) = (crate::cell::SequenceNumber(at), 0);
                    let record = LogRecord::new(tree, first, commit_time, &[]);
                    segments.note(newest, &[record], 0);
                    plain.contents.entry(newest).or_default().insert(tree, LogPosition(at));
                }
                _ => {}
            }
        }
        assert!(notes > 500 && questions.get() <= notes + calls, "{seed}: {questions:?}");
    }
}
