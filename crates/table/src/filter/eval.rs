//! Evaluates a plan over rows, cell by cell and without copying any.
//!
//! A cell goes in as borrowed bytes; what comes out is, for each copy that the filter yields, a
//! [`Shape`]: whether its value is stripped and which label it carries. Interleaves and sinks only
//! multiply shapes, and every filter but a condition decides on a cell as soon as it sees it, so
//! output is in order without any sorting or holding back.
//!
//! A condition decides when its predicate has seen all that reaches it. So a row goes through a plan
//! with conditions several times: once for each rank of conditions, to decide those, and once more for
//! its output. A pass needs no memory of the cells, only a bit for each condition.
//!
//! Invariants:
//! 1. In the pass of rank `r`, all conditions of lower rank are decided, and what reaches a predicate
//!    of rank `r` is what reaches it in every later pass. Conditions that are not decided let nothing
//!    through.
//! 2. All passes over a row see the same cells, and begin with counters at zero.

use super::compile::{Choice, Leaf, Node, Plan};
use super::regex::Caches;
use crate::subset;
use base::checksum;
use engine::Cell;
use std::sync::Arc;

/// Properties of one copy of a cell in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    /// Its value is empty.
    pub(crate) strip: bool,
    /// Index of its label in [`Plan::labels`], plus one; 0 for none.
    pub(crate) label: u16,
}

/// A plan and the state of the row it is in.
#[derive(Debug)]
pub(crate) struct Evaluator {
    plan: Arc<Plan>,
    state: State,
}

#[derive(Debug)]
struct State {
    /// Makes row samples differ from request to request.
    seed: u64,
    row_counters: Vec<u32>,
    column_counters: Vec<u32>,
    verdicts: Vec<bool>,
    caches: Caches,
    /// Conditions whose predicate has yielded a cell.
    choices: Vec<bool>,
    /// Rank of the conditions that this pass decides; above all of them in the pass for output.
    rank: usize,
    /// Conditions of this rank that are not known to hold.
    open: usize,
}

impl Evaluator {
    pub(crate) fn new(plan: Arc<Plan>, seed: u64) -> Self {
        let state = State {
            seed,
            row_counters: vec![0; plan.row_counters],
            column_counters: vec![0; plan.column_counters],
            verdicts: vec![false; plan.verdicts],
            caches: Caches::new(plan.automata),
            choices: vec![false; plan.choices],
            rank: 1,
            open: 0,
        };
        Self { plan, state }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Begins a row; returns whether any of its cells can be yielded.
    pub(crate) fn begin_row(&mut self, key: &[u8]) -> bool {
        clear(&mut self.state.choices);
        self.begin_pass(1);
        if self.state.verdicts.is_empty() {
            return true;
        }
        self.state.judge(&self.plan.root, key);
        self.state.may_yield(&self.plan.root)
    }

    /// Begins a column of the row.
    pub(crate) fn begin_column(&mut self) {
        clear(&mut self.state.column_counters);
    }

    /// Begins the pass of `rank`, or of the next one that has something to decide.
    fn begin_pass(&mut self, rank: usize) {
        clear(&mut self.state.row_counters);
        clear(&mut self.state.column_counters);
        self.state.rank = rank;
        while self.is_deciding() {
            self.state.open = self.state.undecided(&self.plan.root);
            if self.state.open > 0 {
                return;
            }
            self.state.rank += 1;
        }
    }

    /// Returns whether this pass over the row is to decide conditions and yields nothing.
    pub(crate) fn is_deciding(&self) -> bool {
        self.state.rank <= self.plan.ranks
    }

    /// Lets the conditions of this pass see `cell`; returns whether they need no more of the row.
    pub(crate) fn decide(&mut self, cell: &Cell<'_>, shapes: &mut Vec<Shape>) -> bool {
        self.cell(cell, shapes);
        shapes.clear();
        self.state.open == 0
    }

    /// Ends a pass that decides conditions, and begins the next one.
    pub(crate) fn end_pass(&mut self) {
        self.begin_pass(self.state.rank + 1);
    }

    /// Adds the copies of `cell` that the filter yields in this pass.
    pub(crate) fn cell(&mut self, cell: &Cell<'_>, shapes: &mut Vec<Shape>) {
        let nodes = match &self.plan.root {
            Node::Chain(nodes) => nodes.as_slice(),
            node => std::slice::from_ref(node),
        };
        let mut shape = Shape::default();
        for (at, node) in nodes.iter().enumerate() {
            let Node::Leaf(leaf) = node else {
                // From here on there may be several copies.
                let mut sunk = Vec::new();
                let rest = nodes[at..].iter();
                let copies = rest.fold(vec![shape], |copies, node| {
                    self.state.stage(node, cell, copies, &mut sunk)
                });
                shapes.extend(copies);
                shapes.append(&mut sunk);
                return;
            };
            let Some(passed) = self.state.leaf(leaf, cell, shape) else { return };
            shape = passed;
        }
        shapes.push(shape);
    }

    /// Returns whether no later cell of this row can be yielded.
    pub(crate) fn row_is_done(&self) -> bool {
        self.plan.row_limits && self.state.is_done(&self.plan.root)
    }
}

impl State {
    /// Settles every filter that looks at the row key only.
    fn judge(&mut self, node: &Node, key: &[u8]) {
        match node {
            Node::Leaf(Leaf::RowKey(matcher, at)) => {
                self.verdicts[*at] = matcher.matches(key, &mut self.caches);
            }
            Node::Leaf(Leaf::Rows(ranges, at)) => self.verdicts[*at] = subset::has(ranges, key),
            Node::Leaf(Leaf::RowSample(threshold, at)) => {
                // Each sample filter of a request draws on its own.
                let draw = mix(checksum::xxh3(key) ^ mix(self.seed.wrapping_add(*at as u64)));
                self.verdicts[*at] = draw < *threshold;
            }
            Node::Leaf(_) | Node::Sink => {}
            Node::Chain(nodes) | Node::Interleave(nodes) => {
                nodes.iter().for_each(|node| self.judge(node, key));
            }
            Node::Condition(choice) => {
                self.judge(&choice.predicate, key);
                self.judge(&choice.on_true, key);
                self.judge(&choice.on_false, key);
            }
        }
    }

    /// Returns whether the verdicts leave room for anything to come out, by a sink or otherwise.
    fn may_yield(&self, node: &Node) -> bool {
        match node {
            Node::Leaf(Leaf::BlockAll) => false,
            Node::Leaf(Leaf::RowKey(_, at) | Leaf::Rows(_, at) | Leaf::RowSample(_, at)) => {
                self.verdicts[*at]
            }
            Node::Leaf(_) | Node::Sink => true,
            Node::Chain(nodes) => {
                for node in nodes {
                    if !self.may_yield(node) {
                        return false;
                    }
                    if node.has(&|node| matches!(node, Node::Sink)) {
                        return true;
                    }
                }
                true
            }
            Node::Interleave(nodes) => nodes.iter().any(|node| self.may_yield(node)),
            Node::Condition(choice) => {
                self.may_yield(&choice.on_true) || self.may_yield(&choice.on_false)
            }
        }
    }

    /// Returns the number of conditions of this rank that cells can reach.
    fn undecided(&self, node: &Node) -> usize {
        match node {
            Node::Leaf(_) | Node::Sink => 0,
            Node::Chain(nodes) | Node::Interleave(nodes) => {
                nodes.iter().map(|node| self.undecided(node)).sum()
            }
            Node::Condition(choice) => match self.branch(choice) {
                Some(branch) => self.undecided(branch),
                None if choice.rank == self.rank => 1,
                None => self.undecided(&choice.predicate),
            },
        }
    }

    /// Returns the branch that a condition takes, if it is decided.
    fn branch<'a>(&self, choice: &'a Choice) -> Option<&'a Node> {
        let Choice { at, rank, on_true, on_false, .. } = choice;
        let decided = *rank < self.rank;
        decided.then_some(if self.choices[*at] { on_true } else { on_false })
    }

    /// Returns whether limits of cells per row let nothing more through.
    fn is_done(&self, node: &Node) -> bool {
        match node {
            Node::Leaf(Leaf::RowLimit(max, at)) => self.row_counters[*at] >= *max,
            Node::Leaf(_) | Node::Sink => false,
            Node::Condition(choice) => {
                self.branch(choice).is_some_and(|branch| self.is_done(branch))
            }
            Node::Chain(nodes) => {
                for node in nodes {
                    if self.is_done(node) {
                        return true;
                    }
                    if node.has(&|node| matches!(node, Node::Sink)) {
                        return false;
                    }
                }
                false
            }
            Node::Interleave(nodes) => nodes.iter().all(|node| self.is_done(node)),
        }
    }

    /// Applies a node to the copies of one cell.
    fn stage(
        &mut self,
        node: &Node,
        cell: &Cell<'_>,
        mut copies: Vec<Shape>,
        sunk: &mut Vec<Shape>,
    ) -> Vec<Shape> {
        match node {
            _ if copies.is_empty() => copies,
            Node::Leaf(leaf) => {
                copies.into_iter().filter_map(|shape| self.leaf(leaf, cell, shape)).collect()
            }
            Node::Sink => {
                sunk.append(&mut copies);
                copies
            }
            Node::Chain(nodes) => {
                nodes.iter().fold(copies, |copies, node| self.stage(node, cell, copies, sunk))
            }
            Node::Interleave(nodes) => {
                let parts = nodes.iter().map(|node| self.stage(node, cell, copies.clone(), sunk));
                parts.collect::<Vec<_>>().concat()
            }
            Node::Condition(choice) => match self.branch(choice) {
                Some(branch) => self.stage(branch, cell, copies, sunk),
                None => {
                    self.try_predicate(choice, cell, copies);
                    Vec::new()
                }
            },
        }
    }

    /// Shows copies of a cell to the predicate of a condition that is not decided.
    fn try_predicate(&mut self, choice: &Choice, cell: &Cell<'_>, copies: Vec<Shape>) {
        let decides = choice.rank == self.rank;
        if decides && self.choices[choice.at] {
            return;
        }
        // Sinks cannot be inside a condition.
        let yielded = self.stage(&choice.predicate, cell, copies, &mut Vec::new());
        if decides && !yielded.is_empty() {
            self.choices[choice.at] = true;
            self.open -= 1;
        }
    }

    /// Applies a leaf to one copy of a cell.
    fn leaf(&mut self, leaf: &Leaf, cell: &Cell<'_>, shape: Shape) -> Option<Shape> {
        let value = if shape.strip { &[] } else { cell.value };
        let pass = match leaf {
            Leaf::PassAll => true,
            Leaf::BlockAll => false,
            Leaf::RowKey(_, at) | Leaf::Rows(_, at) | Leaf::RowSample(_, at) => self.verdicts[*at],
            Leaf::Columns(ranges) => {
                let place = (cell.family, cell.qualifier);
                let after = ranges.partition_point(|r| (r.family, r.start.as_slice()) <= place);
                after.checked_sub(1).is_some_and(|at| {
                    let range = &ranges[at];
                    range.family == cell.family
                        && range.end.as_deref().is_none_or(|end| cell.qualifier < end)
                })
            }
            Leaf::Families(ids) => ids.binary_search(&cell.family).is_ok(),
            Leaf::Qualifier(matcher) => matcher.matches(cell.qualifier, &mut self.caches),
            Leaf::Column(range) => range.as_ref().is_some_and(|range| {
                range.family == cell.family
                    && range.start.as_slice() <= cell.qualifier
                    && range.end.as_deref().is_none_or(|end| cell.qualifier < end)
            }),
            Leaf::Timestamps(range) => range.contains(cell.timestamp),
            Leaf::Value(matcher) => matcher.matches(value, &mut self.caches),
            Leaf::Values(start, end) => {
                start.as_slice() <= value && end.as_deref().is_none_or(|end| value < end)
            }
            Leaf::RowOffset(skip, at) => count(&mut self.row_counters[*at]) > *skip,
            Leaf::RowLimit(max, at) => count(&mut self.row_counters[*at]) <= *max,
            Leaf::ColumnLimit(max, at) => count(&mut self.column_counters[*at]) <= *max,
            Leaf::Strip => return Some(Shape { strip: true, ..shape }),
            Leaf::Label(label) => return Some(Shape { label: *label, ..shape }),
        };
        pass.then_some(shape)
    }
}

/// Spreads a number over all 64 bits (the finisher of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn count(counter: &mut u32) -> u32 {
    *counter = counter.saturating_add(1);
    *counter
}

/// Sets every item to its default. Most filters have none: an empty vector has no address that is mapped, and
/// a call of `memset` for it takes some processors hundreds of cycles.
#[inline]
fn clear<T: Copy + Default>(items: &mut [T]) {
    if !items.is_empty() {
        items.fill(T::default());
    }
}
