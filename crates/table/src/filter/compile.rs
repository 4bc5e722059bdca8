//! Compiles a row filter once per request: checks every rule, resolves names and patterns, and
//! works out what of the table it needs to see ([`Reach`]).

use super::reach::{Locality, Reach};
use super::regex::{self, Caches, Matcher, Patterns};
use super::{ColumnRange, Condition, RowFilter, ValueRange};
use crate::error::{Error, Result};
use crate::limits;
use crate::marks::Mark;
use crate::row_set::{self, bound_key, lower, upper};
use crate::schema::TableSchema;
use crate::shape::Shape;
use bytes::Bytes;
use engine::{FamilyId, QualifierRange, RowRange, TimestampRange};
use std::ops::Bound;
use std::sync::Arc;

/// A filter ready to be evaluated over one table.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    /// Cells that the filter needs to see.
    pub(crate) reach: Reach,
    /// Labels by number; 0 stands for none.
    pub(crate) labels: Vec<Arc<str>>,
    /// Counters per row and per column, verdicts on the row's key, conditions and automata, that its
    /// nodes own.
    pub(crate) row_counters: usize,
    pub(crate) column_counters: usize,
    pub(crate) verdicts: usize,
    pub(crate) choices: usize,
    pub(crate) automata: usize,
    /// Highest rank of a condition; 0 without conditions.
    pub(crate) ranks: usize,
    /// Most copies of one cell that come out.
    pub(crate) copies: usize,
    /// True if a limit of cells per row can end a row early.
    pub(crate) row_limits: bool,
}

/// A filter of the tree.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Sink,
    Chain(Vec<Node>),
    Interleave(Vec<Node>),
    Condition(Box<Choice>),
}

/// A condition; an absent branch is `BlockAll`.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The number of the condition, from 0.
    pub(crate) at: usize,
    /// One more than the ranks of the conditions that decide what comes to its predicate's end: those
    /// in the predicate, and those before it in chains.
    pub(crate) rank: usize,
    pub(crate) predicate: Node,
    pub(crate) on_true: Node,
    pub(crate) on_false: Node,
}

/// A filter that passes a cell, perhaps changed, or does not. Numbers index the evaluator's state.
#[derive(Debug)]
pub(crate) enum Leaf {
    PassAll,
    BlockAll,
    RowKey(Matcher, usize),
    /// Rows in sorted, disjoint ranges.
    Rows(Vec<RowRange>, usize),
    /// Columns in sorted, disjoint ranges.
    Columns(Vec<QualifierRange>),
    /// Rows whose random 64 bits are below the threshold.
    RowSample(u64, usize),
    /// Sorted family ids.
    Families(Vec<FamilyId>),
    Qualifier(Matcher),
    /// `None` for an unknown family.
    Column(Option<QualifierRange>),
    Timestamps(TimestampRange),
    Value(Matcher),
    Values(Vec<u8>, Option<Vec<u8>>),
    RowOffset(u32, usize),
    RowLimit(u32, usize),
    ColumnLimit(u32, usize),
    Strip,
    Label(u16),
}

impl Plan {
    /// The plan of `filter` over a table of that schema; no filter passes everything.
    pub(crate) fn compile(
        filter: Option<&RowFilter>,
        schema: &TableSchema,
        shape: &Shape,
    ) -> Result<Self> {
        let weight = filter.map_or(Ok(0), |filter| weight(filter, 0))?;
        if weight > limits::FILTER_BYTES_MAX {
            let max = limits::FILTER_BYTES_MAX;
            return Err(Error::invalid("filter", format!("larger than {max} bytes")));
        }
        let mut compiler = Compiler {
            schema,
            shape,
            labels: Vec::new(),
            row_counters: 0,
            column_counters: 0,
            verdicts: 0,
            choices: 0,
            row_limits: false,
            patterns: Patterns::new(filter.map_or(0, |filter| patterns_of(filter).count())),
        };
        let mut root = match filter {
            None => Node::Leaf(Leaf::PassAll),
            Some(filter) => {
                compiler.node(filter, Inside::Top).map_err(|error| error.within("filter"))?
            }
        };
        let copies = root.copies();
        if copies > limits::FILTER_COPIES_MAX {
            let max = limits::FILTER_COPIES_MAX;
            let message = format!("interleaves multiply a cell into more than {max} copies");
            return Err(Error::invalid("filter", message));
        }
        let ranks = root.rank(0);
        if ranks > limits::FILTER_RANKS_MAX {
            let max = limits::FILTER_RANKS_MAX;
            let message =
                format!("more than {max} conditions depend on each other, one on the next");
            return Err(Error::invalid("filter", message));
        }
        Ok(Self {
            reach: root.reach(&(schema, shape)),
            ranks,
            copies,
            root,
            labels: compiler.labels,
            row_counters: compiler.row_counters,
            column_counters: compiler.column_counters,
            verdicts: compiler.verdicts,
            choices: compiler.choices,
            automata: compiler.patterns.automata(),
            row_limits: compiler.row_limits,
        })
    }
}

/// Lower bound of the filter's size on the wire. Refuses deep nesting, before anything recurses
/// without a check.
fn weight(filter: &RowFilter, depth: usize) -> Result<usize> {
    if depth > limits::FILTER_DEPTH_MAX {
        let message = format!("nested deeper than {} levels", limits::FILTER_DEPTH_MAX);
        return Err(Error::invalid("filter", message));
    }
    let sum = |all: usize, filter| Ok::<_, Error>(all + weight(filter, depth + 1)?);
    let inner = match filter {
        RowFilter::Chain(filters) | RowFilter::Interleave(filters) => {
            filters.iter().try_fold(0, sum)?
        }
        RowFilter::Condition(condition) => {
            let Condition { predicate, on_true, on_false } = condition.as_ref();
            std::iter::once(predicate).chain(on_true).chain(on_false).try_fold(0, sum)?
        }
        RowFilter::Within(_, filter) => return weight(filter, depth),
        RowFilter::RowKeyRegex(bytes)
        | RowFilter::ColumnQualifierRegex(bytes)
        | RowFilter::ValueRegex(bytes) => bytes.len(),
        RowFilter::FamilyNameRegex(text) | RowFilter::ApplyLabel(text) => text.len(),
        _ => 0,
    };
    Ok(inner + 2)
}

/// Returns the patterns of `filter`, which is not deeper than filters may be.
fn patterns_of(filter: &RowFilter) -> Box<dyn Iterator<Item = &[u8]> + '_> {
    match filter {
        RowFilter::Chain(filters) | RowFilter::Interleave(filters) => {
            Box::new(filters.iter().flat_map(patterns_of))
        }
        RowFilter::Condition(condition) => {
            let Condition { predicate, on_true, on_false } = condition.as_ref();
            let filters = std::iter::once(predicate).chain(on_true).chain(on_false);
            Box::new(filters.flat_map(patterns_of))
        }
        RowFilter::Within(_, filter) => patterns_of(filter),
        RowFilter::RowKeyRegex(pattern)
        | RowFilter::ColumnQualifierRegex(pattern)
        | RowFilter::ValueRegex(pattern) => Box::new(std::iter::once(&pattern[..])),
        RowFilter::FamilyNameRegex(pattern) => Box::new(std::iter::once(pattern.as_bytes())),
        _ => Box::new(std::iter::empty()),
    }
}

/// Most effort of the patterns of a filter that is compiled at once, on the thread of others.
const EFFORT_MAX: usize = 1 << 10;

/// Returns whether compiling `filter` is a matter of microseconds.
pub(crate) fn is_light(filter: &RowFilter) -> bool {
    weight(filter, 0).is_err()
        || patterns_of(filter).map(regex::effort).fold(0, usize::saturating_add) <= EFFORT_MAX
}

/// Context that encloses a filter.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Top,
    Condition,
}

struct Compiler<'a> {
    schema: &'a TableSchema,
    shape: &'a Shape,
    labels: Vec<Arc<str>>,
    row_counters: usize,
    column_counters: usize,
    verdicts: usize,
    choices: usize,
    row_limits: bool,
    patterns: Patterns,
}

fn next(counter: &mut usize) -> usize {
    *counter += 1;
    *counter - 1
}

impl Compiler<'_> {
    fn node(&mut self, filter: &RowFilter, inside: Inside) -> Result<Node> {
        Ok(match filter {
            RowFilter::Chain(filters) => {
                let nodes = self.nodes("chain", filters, inside)?;
                if nodes.iter().filter(|node| node.has(&is_label)).count() > 1 {
                    let message = "a chain may have at most one sub-filter that applies a label";
                    return Err(Error::invalid("chain", message));
                }
                Node::Chain(nodes)
            }
            RowFilter::Interleave(filters) => {
                Node::Interleave(self.nodes("interleave", filters, inside)?)
            }
            RowFilter::Condition(condition) => self.condition(condition)?,
            RowFilter::Within(part, filter) => {
                let rows = Leaf::Rows(part.rows().to_vec(), next(&mut self.verdicts));
                let columns = Leaf::Columns(part.columns(self.schema));
                let filter = self.node(filter, inside)?;
                Node::Chain(vec![Node::Leaf(rows), Node::Leaf(columns), filter])
            }
            RowFilter::Sink if inside == Inside::Condition => {
                return Err(Error::invalid("sink", "cannot be used within a condition"));
            }
            RowFilter::Sink => Node::Sink,
            leaf => Node::Leaf(self.leaf(leaf)?),
        })
    }

    fn nodes(&mut self, name: &str, filters: &[RowFilter], inside: Inside) -> Result<Vec<Node>> {
        if filters.len() < 2 {
            return Err(Error::invalid(name, "must contain at least two filters"));
        }
        let mut nodes = Vec::with_capacity(filters.len());
        for (at, filter) in filters.iter().enumerate() {
            let node = self.node(filter, inside);
            nodes.push(node.map_err(|error| error.within(&format!("{name}.filters[{at}]")))?);
        }
        Ok(nodes)
    }

    fn condition(&mut self, condition: &Condition) -> Result<Node> {
        let mut part = |name: &str, filter: Option<&RowFilter>| match filter {
            None => Ok(Node::Leaf(Leaf::BlockAll)),
            Some(filter) => self
                .node(filter, Inside::Condition)
                .map_err(|error| error.within(&format!("condition.{name}"))),
        };
        let predicate = part("predicate_filter", Some(&condition.predicate))?;
        let on_true = part("true_filter", condition.on_true.as_ref())?;
        let on_false = part("false_filter", condition.on_false.as_ref())?;
        Ok(Node::Condition(Box::new(Choice {
            at: next(&mut self.choices),
            rank: 0,
            predicate,
            on_true,
            on_false,
        })))
    }

    fn leaf(&mut self, filter: &RowFilter) -> Result<Leaf> {
        Ok(match filter {
            RowFilter::BlockAll => Leaf::BlockAll,
            RowFilter::RowKeyRegex(pattern) => {
                let field = "row_key_regex_filter";
                not_empty(field, pattern)?;
                let matcher = self.matcher(field, pattern)?;
                Leaf::RowKey(matcher, next(&mut self.verdicts))
            }
            RowFilter::RowSample(share) => {
                if !(*share > 0.0 && *share < 1.0) {
                    let message = format!("{share} must lie between 0 and 1, both excluded");
                    return Err(Error::invalid("row_sample_filter", message));
                }
                // Saturates, and the share is below 1.
                let threshold = (share * 2f64.powi(64)) as u64;
                Leaf::RowSample(threshold, next(&mut self.verdicts))
            }
            RowFilter::FamilyNameRegex(pattern) => self.families(pattern)?,
            RowFilter::ColumnQualifierRegex(pattern) => {
                Leaf::Qualifier(self.matcher("column_qualifier_regex_filter", pattern)?)
            }
            RowFilter::ColumnRange(range) => self.column_range(range)?,
            RowFilter::TimestampRange(range) => {
                let granularity = self.schema.granularity;
                limits::check_timestamp_range("timestamp_range_filter", *range, granularity)?;
                Leaf::Timestamps(*range)
            }
            RowFilter::ValueRegex(pattern) => {
                Leaf::Value(self.matcher("value_regex_filter", pattern)?)
            }
            RowFilter::ValueRange(ValueRange { start, end }) => {
                check_order("value_range_filter", start, end)?;
                Leaf::Values(lower(start), upper(end))
            }
            RowFilter::CellsPerRowOffset(count) => {
                let count = count_of("cells_per_row_offset_filter", *count, 0)?;
                Leaf::RowOffset(count, next(&mut self.row_counters))
            }
            RowFilter::CellsPerRowLimit(count) => {
                self.row_limits = true;
                let count = count_of("cells_per_row_limit_filter", *count, 1)?;
                Leaf::RowLimit(count, next(&mut self.row_counters))
            }
            RowFilter::CellsPerColumnLimit(count) => {
                let count = count_of("cells_per_column_limit_filter", *count, 1)?;
                Leaf::ColumnLimit(count, next(&mut self.column_counters))
            }
            RowFilter::StripValue => Leaf::Strip,
            RowFilter::ApplyLabel(label) => self.label(label)?,
            // `node` handles the others.
            _ => Leaf::PassAll,
        })
    }

    fn matcher(&mut self, field: &str, pattern: &[u8]) -> Result<Matcher> {
        Matcher::compile(field, pattern, self.shape, &mut self.patterns)
    }

    fn families(&mut self, pattern: &str) -> Result<Leaf> {
        let field = "family_name_regex_filter";
        not_empty(field, pattern.as_bytes())?;
        if pattern.contains(':') {
            let message = format!("pattern '{pattern}' must not contain ':'");
            return Err(Error::invalid(field, message));
        }
        let matcher = self.matcher(field, pattern.as_bytes())?;
        let mut caches = Caches::default();
        let families = self.schema.families.values();
        let mut ids: Vec<FamilyId> = families
            .filter(|family| matcher.matches(family.name.as_bytes(), &mut caches))
            .map(|family| family.id)
            .collect();
        ids.sort_unstable();
        Ok(Leaf::Families(ids))
    }

    fn column_range(&self, range: &ColumnRange) -> Result<Leaf> {
        let field = "column_range_filter";
        limits::check_family_name(field, &range.family)?;
        check_order(field, &range.start, &range.end)?;
        let (start, end) = (lower(&range.start), upper(&range.end));
        let family = self.schema.families.get(range.family.as_str());
        Ok(Leaf::Column(family.map(|family| QualifierRange { family: family.id, start, end })))
    }

    fn label(&mut self, label: &str) -> Result<Leaf> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let len = label.len();
        if len == 0 || len > limits::LABEL_BYTES_MAX || !label.bytes().all(allowed) {
            let max = limits::LABEL_BYTES_MAX;
            let message = format!("label {label:?} must match [a-z0-9\\-]{{1,{max}}}");
            return Err(Error::invalid("apply_label_transformer", message));
        }
        self.labels.push(label.into());
        // A filter of 20 KiB cannot hold 65536 labels.
        Ok(Leaf::Label(self.labels.len() as u16))
    }
}

fn is_label(node: &Node) -> bool {
    matches!(node, Node::Leaf(Leaf::Label(_)))
}

/// Refuses a pattern that no name and no key can match, as the service does.
fn not_empty(field: &str, pattern: &[u8]) -> Result<()> {
    if pattern.is_empty() {
        return Err(Error::invalid(field, "argument must not be empty"));
    }
    Ok(())
}

fn count_of(field: &str, count: i32, min: u32) -> Result<u32> {
    u32::try_from(count)
        .ok()
        .filter(|count| *count >= min)
        .ok_or_else(|| Error::invalid(field, format!("{count} must be at least {min}")))
}

/// Refuses a range whose end lies before its start.
fn check_order(field: &str, start: &Bound<Bytes>, end: &Bound<Bytes>) -> Result<()> {
    row_set::check_order(bound_key(start), bound_key(end)).map_err(|error| error.within(field))
}

impl Node {
    /// Returns whether `what` holds for this node or any below it.
    pub(crate) fn has(&self, what: &dyn Fn(&Node) -> bool) -> bool {
        what(self)
            || match self {
                Self::Leaf(_) | Self::Sink => false,
                Self::Chain(nodes) | Self::Interleave(nodes) => nodes.iter().any(|n| n.has(what)),
                Self::Condition(choice) => {
                    choice.predicate.has(what)
                        || choice.on_true.has(what)
                        || choice.on_false.has(what)
                }
            }
    }

    /// Most copies of one cell that come out, sinks included.
    fn copies(&self) -> usize {
        match self {
            Self::Leaf(_) | Self::Sink => 1,
            Self::Chain(nodes) => nodes.iter().fold(1, |all, n| all.saturating_mul(n.copies())),
            Self::Interleave(nodes) => {
                nodes.iter().fold(0, |all, n| all.saturating_add(n.copies()))
            }
            Self::Condition(choice) => {
                let branch = choice.on_true.copies().max(choice.on_false.copies());
                branch.max(choice.predicate.copies())
            }
        }
    }

    /// Ranks the conditions at and below this node, which takes what conditions up to the rank `before`
    /// let through; returns the highest rank that decides what comes out.
    fn rank(&mut self, before: usize) -> usize {
        match self {
            Self::Leaf(_) | Self::Sink => before,
            Self::Chain(nodes) => nodes.iter_mut().fold(before, |before, node| node.rank(before)),
            Self::Interleave(nodes) => {
                nodes.iter_mut().map(|node| node.rank(before)).max().unwrap_or(before)
            }
            Self::Condition(choice) => {
                choice.rank = choice.predicate.rank(before) + 1;
                choice.on_true.rank(choice.rank).max(choice.on_false.rank(choice.rank))
            }
        }
    }

    fn locality(&self) -> Locality {
        match self {
            Self::Leaf(Leaf::RowOffset(..) | Leaf::RowLimit(..)) => Locality::Row,
            Self::Leaf(Leaf::ColumnLimit(..)) => Locality::Column,
            Self::Leaf(_) => Locality::Cell,
            Self::Sink => Locality::Sink,
            Self::Condition(_) => Locality::Row,
            Self::Chain(nodes) | Self::Interleave(nodes) => {
                nodes.iter().map(Self::locality).min().unwrap_or(Locality::Cell)
            }
        }
    }

    /// Returns whether the node keeps all or none of the versions of each column within its own time
    /// range, so that the newest of what it yields are the newest of what it gets in that range.
    fn is_uniform(&self) -> bool {
        match self {
            Self::Leaf(
                Leaf::PassAll
                | Leaf::BlockAll
                | Leaf::RowKey(..)
                | Leaf::Rows(..)
                | Leaf::Columns(_)
                | Leaf::RowSample(..)
                | Leaf::Families(_)
                | Leaf::Qualifier(_)
                | Leaf::Column(_)
                | Leaf::Timestamps(_)
                | Leaf::Strip
                | Leaf::Label(_),
            ) => true,
            Self::Chain(nodes) => nodes.iter().all(Self::is_uniform),
            _ => false,
        }
    }

    /// The cells that the node needs to see; see the header of `reach.rs`.
    pub(crate) fn reach(&self, of: &(&TableSchema, &Shape)) -> Reach {
        match self {
            Self::Leaf(leaf) => leaf.reach(of),
            Self::Sink => Reach::ALL,
            Self::Chain(nodes) => {
                let mut reach = Reach::ALL;
                let (mut locality, mut uniform) = (Locality::Cell, true);
                for node in nodes {
                    reach.narrow(node.reach(of), locality, uniform);
                    locality = locality.min(node.locality());
                    uniform &= node.is_uniform();
                }
                reach
            }
            Self::Interleave(nodes) => {
                let parts = nodes.iter().map(|node| node.reach(of));
                parts.reduce(Reach::union).unwrap_or(Reach::ALL)
            }
            Self::Condition(choice) => {
                let branches = choice.on_true.reach(of).union(choice.on_false.reach(of));
                choice.predicate.reach(of).union(branches)
            }
        }
    }
}

impl Leaf {
    fn reach(&self, of: &(&TableSchema, &Shape)) -> Reach {
        match self {
            Self::BlockAll | Self::Column(None) => Reach::nothing(),
            Self::RowKey(Matcher::Exact(keys), _) => {
                Reach::rows(keys.iter().map(|key| RowRange::single(key)).collect())
            }
            Self::RowKey(matcher, _) => match matcher.prefix() {
                Some(prefix) if !prefix.is_empty() => Reach::rows(vec![RowRange::prefix(prefix)]),
                _ => Reach::ALL,
            },
            Self::Rows(ranges, _) => Reach::rows(ranges.clone()),
            Self::Columns(ranges) => Reach::columns(ranges.clone()),
            Self::Families(ids) => {
                Reach::columns(ids.iter().map(|id| QualifierRange::family(*id)).collect())
            }
            Self::Qualifier(matcher) => qualifiers_reach(matcher, of),
            Self::Column(Some(range)) => Reach::columns(vec![range.clone()]),
            Self::Timestamps(range) => Reach { timestamps: *range, ..Reach::ALL },
            Self::ColumnLimit(count, _) => Reach { versions_max: Some(*count), ..Reach::ALL },
            _ => Reach::ALL,
        }
    }
}

fn qualifiers_reach(matcher: &Matcher, (schema, shape): &(&TableSchema, &Shape)) -> Reach {
    let families = || schema.families.values().map(|family| family.id);
    match (matcher, matcher.prefix()) {
        (Matcher::Exact(texts), _) if texts.len() * schema.families.len() <= shape.columns_max => {
            Mark::ColumnsReached.hit();
            let columns = families()
                .flat_map(|id| texts.iter().map(move |text| QualifierRange::column(id, text)));
            Reach::columns(columns.collect())
        }
        (Matcher::Exact(_), _) => {
            Mark::ColumnsTooMany.hit();
            Reach::ALL
        }
        (_, Some(prefix)) if !prefix.is_empty() && schema.families.len() <= shape.columns_max => {
            let range = RowRange::prefix(prefix);
            let columns = families().map(|family| QualifierRange {
                family,
                start: range.start.clone(),
                end: range.end.clone(),
            });
            Reach::columns(columns.collect())
        }
        _ => Reach::ALL,
    }
}
