//! Evaluates a plan over rows, cell by cell and without copying any.
//!
//! A cell goes in as borrowed bytes; what comes out is, for each copy that the filter yields, a
//! [`Shape`]: whether its value is stripped and which label it carries. Interleaves and sinks only
//! multiply shapes, and every filter but a condition decides on a cell as soon as it sees it, so
//! output is in order without any sorting or holding back. A condition needs the whole row: then
//! the caller gives all cells of the row at once to [`Evaluator::row`].

use super::compile::{Choice, Leaf, Node, Plan};
use base::checksum;
use engine::{Cell, Column};
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
}

impl Evaluator {
    pub(crate) fn new(plan: Arc<Plan>, seed: u64) -> Self {
        let state = State {
            seed,
            row_counters: vec![0; plan.row_counters],
            column_counters: vec![0; plan.column_counters],
            verdicts: vec![false; plan.verdicts],
        };
        Self { plan, state }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Begins a row; returns whether any of its cells can be yielded.
    pub(crate) fn begin_row(&mut self, key: &[u8]) -> bool {
        self.state.row_counters.fill(0);
        if self.state.verdicts.is_empty() {
            return true;
        }
        self.state.judge(&self.plan.root, key);
        self.state.may_yield(&self.plan.root)
    }

    /// Begins a column of the row.
    pub(crate) fn begin_column(&mut self) {
        self.state.column_counters.fill(0);
    }

    /// Adds the copies of `cell` that the filter yields. Only for plans without conditions.
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

    /// The copies that the filter yields of the row made of `cells`: index of the cell and shape,
    /// in order. For any plan; `begin_row` comes first.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> Vec<(usize, Shape)> {
        let input = (0..cells.len()).map(|at| (at, Shape::default())).collect();
        let mut sunk = Vec::new();
        let mut yielded = self.state.rows(&self.plan.root, cells, input, &mut sunk);
        if !sunk.is_empty() {
            yielded.append(&mut sunk);
            yielded.sort_by_key(|(at, _)| *at);
        }
        yielded
    }
}

impl State {
    /// Settles every filter that looks at the row key only.
    fn judge(&mut self, node: &Node, key: &[u8]) {
        match node {
            Node::Leaf(Leaf::RowKey(matcher, at)) => self.verdicts[*at] = matcher.matches(key),
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
            Node::Leaf(Leaf::RowKey(_, at) | Leaf::RowSample(_, at)) => self.verdicts[*at],
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

    /// Returns whether limits of cells per row let nothing more through.
    fn is_done(&self, node: &Node) -> bool {
        match node {
            Node::Leaf(Leaf::RowLimit(max, at)) => self.row_counters[*at] >= *max,
            Node::Leaf(_) | Node::Sink | Node::Condition(_) => false,
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

    /// Applies a node without conditions to the copies of one cell.
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
            Node::Condition(_) => unreachable!("a plan with conditions takes whole rows"),
        }
    }

    /// Applies a leaf to one copy of a cell.
    fn leaf(&mut self, leaf: &Leaf, cell: &Cell<'_>, shape: Shape) -> Option<Shape> {
        let value = if shape.strip { &[] } else { cell.value };
        let pass = match leaf {
            Leaf::PassAll => true,
            Leaf::BlockAll => false,
            Leaf::RowKey(_, at) | Leaf::RowSample(_, at) => self.verdicts[*at],
            Leaf::Families(ids) => ids.binary_search(&cell.family).is_ok(),
            Leaf::Qualifier(matcher) => matcher.matches(cell.qualifier),
            Leaf::Column(range) => range.as_ref().is_some_and(|range| {
                range.family == cell.family
                    && range.start.as_slice() <= cell.qualifier
                    && range.end.as_deref().is_none_or(|end| cell.qualifier < end)
            }),
            Leaf::Timestamps(range) => range.contains(cell.timestamp),
            Leaf::Value(matcher) => matcher.matches(value),
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

    /// Applies `node` to a whole row.
    fn rows(
        &mut self,
        node: &Node,
        cells: &[Cell<'_>],
        input: Vec<(usize, Shape)>,
        sunk: &mut Vec<(usize, Shape)>,
    ) -> Vec<(usize, Shape)> {
        if input.is_empty() {
            return input;
        }
        if !node.has(&|node| matches!(node, Node::Condition(_))) {
            return self.stream(node, cells, &input, sunk);
        }
        match node {
            Node::Chain(nodes) => {
                nodes.iter().fold(input, |input, node| self.rows(node, cells, input, sunk))
            }
            Node::Interleave(nodes) => {
                let mut pool = Vec::new();
                for node in nodes {
                    pool.append(&mut self.rows(node, cells, input.clone(), sunk));
                }
                pool.sort_by_key(|(at, _)| *at);
                pool
            }
            Node::Condition(choice) => {
                let Choice { predicate, on_true, on_false } = choice.as_ref();
                // Sinks cannot be inside a condition.
                let holds = !self.rows(predicate, cells, input.clone(), sunk).is_empty();
                self.rows(if holds { on_true } else { on_false }, cells, input, sunk)
            }
            Node::Leaf(_) | Node::Sink => self.stream(node, cells, &input, sunk),
        }
    }

    /// Sends the copies in `input`, cell by cell, through a node without conditions.
    fn stream(
        &mut self,
        node: &Node,
        cells: &[Cell<'_>],
        input: &[(usize, Shape)],
        sunk: &mut Vec<(usize, Shape)>,
    ) -> Vec<(usize, Shape)> {
        let mut yielded = Vec::new();
        let mut column = None;
        let mut sinks = Vec::new();
        for copies in input.chunk_by(|a, b| a.0 == b.0) {
            let at = copies[0].0;
            let cell = &cells[at];
            let this = Some(Column::of(cell.family, cell.qualifier));
            if column != this {
                column = this;
                self.column_counters.fill(0);
            }
            let shapes = copies.iter().map(|(_, shape)| *shape).collect();
            let shapes = self.stage(node, cell, shapes, &mut sinks);
            yielded.extend(shapes.into_iter().map(|shape| (at, shape)));
            sunk.extend(sinks.drain(..).map(|shape| (at, shape)));
        }
        yielded
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
