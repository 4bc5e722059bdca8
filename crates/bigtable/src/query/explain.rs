//! The plan of a query, for people: the steps from the rows of the result down to the read.
//!
//! Invariant: a plan is told to callers who may run the query, and to no others.

use super::plan::{Plan, Wanted};
use super::sql::analyze::Query;
use super::sql::parse;
use super::tokens::Prepared;
use super::{Analyzed, Queries, status};
use crate::api::data::PrepareQueryRequest;
use crate::call::authorize::allow;
use crate::call::caller::Caller;
use engine::{Direction, RowRange};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use table::filter::ColumnRange;
use table::{RowFilter, Store};
use tonic::Status;

/// The method whose permissions a plan needs.
const METHOD: &str = "/google.bigtable.v2.Bigtable/PrepareQuery";
/// Longest text of a fact, in characters.
const TEXT_MAX: usize = 2_000;
/// Columns and ranges of keys that are told.
const LISTED_MAX: usize = 100;

/// A step of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// Name of the step, such as `Read`.
    pub name: &'static str,
    /// Facts of the step, each with its name.
    pub facts: Vec<(&'static str, String)>,
    /// The first ranges of row keys that a read visits; empty for other steps.
    pub keys: Vec<RowRange>,
    /// The step whose rows this one takes.
    pub input: Option<Box<PlanStep>>,
}

/// Returns the last step of a query without parameters that `caller` may run; `None` may run all.
pub async fn explain<S: Store>(
    store: Arc<S>,
    caller: Option<&dyn Caller>,
    instance: &str,
    query: &str,
) -> Result<PlanStep, Status> {
    let (instance_name, query) = (instance.to_owned(), query.to_owned());
    if let Some(caller) = caller {
        let mut request = PrepareQueryRequest {
            instance_name: instance_name.clone(),
            query: query.clone(),
            ..PrepareQueryRequest::default()
        };
        allow(caller, METHOD, &mut request)?;
    }
    let types = BTreeMap::new();
    let prepared = Prepared { instance: instance_name, query, types, schema: 0, valid_until: 0 };
    let analyzed = Queries::new(store).analyze(&prepared).await?;
    let plan = Plan::new(&analyzed.query, &analyzed.scope, &BTreeMap::new());
    let plan = plan.map_err(status::of_refusal)?;
    let statement = parse::parse(&prepared.query).map_err(status::of_refusal)?;
    let condition = statement.condition();
    Ok(steps(&analyzed, &plan, condition))
}

fn steps(analyzed: &Analyzed, plan: &Plan, condition: Option<String>) -> PlanStep {
    let mut last = match &analyzed.table {
        None => step("Constants", vec![("rows", "1".to_owned())], None),
        Some(table) => read(table.id(), plan),
    };
    if let Some(condition) = condition {
        let facts = match &plan.filter {
            Some(_) => vec![("condition", short(condition))],
            None => vec![
                ("condition", short(condition)),
                ("evaluated", "no: the ranges of keys say it all".to_owned()),
            ],
        };
        last = step("Filter", facts, Some(last));
    }
    if plan.offset > 0 || plan.last < u64::MAX {
        let mut facts = Vec::new();
        if plan.last < u64::MAX {
            facts.push(("rows", (plan.last - plan.offset).to_string()));
        }
        if plan.offset > 0 {
            facts.push(("skipped", plan.offset.to_string()));
        }
        last = step("Limit", facts, Some(last));
    }
    step("Result", vec![("columns", columns(&analyzed.query))], Some(last))
}

fn step(
    name: &'static str,
    facts: Vec<(&'static str, String)>,
    input: Option<PlanStep>,
) -> PlanStep {
    PlanStep { name, facts, keys: Vec::new(), input: input.map(Box::new) }
}

fn read(table: &str, plan: &Plan) -> PlanStep {
    let order = match plan.direction {
        Direction::Forward => "ascending keys",
        Direction::Reverse => "descending keys",
    };
    let ranges = match &plan.ranges[..] {
        [] => "none: no row can fulfil the condition".to_owned(),
        [all] if *all == RowRange::ALL => "all rows".to_owned(),
        [_] => "1 range".to_owned(),
        ranges => format!("{} ranges", ranges.len()),
    };
    let mut facts =
        vec![("table", table.to_owned()), ("order", order.to_owned()), ("keys", ranges)];
    facts.push(("columns", short(families(&plan.families))));
    facts.push(("row filter", short(filter(&plan.cells))));
    if plan.filter.is_none() && plan.last < u64::MAX {
        facts.push(("ends after", format!("{} rows", plan.last)));
    }
    let keys = plan.ranges.iter().take(LISTED_MAX).cloned().collect();
    PlanStep { keys, ..step("Read", facts, None) }
}

fn columns(query: &Query) -> String {
    let column = |column: &super::analyze::Column| match column.name.as_str() {
        "" => column.r#type.to_string(),
        name => format!("{} {}", name.escape_debug(), column.r#type),
    };
    let listed = query.columns.iter().take(LISTED_MAX).map(column).collect::<Vec<_>>();
    short(listed.join(", "))
}

fn families(families: &BTreeMap<String, Wanted>) -> String {
    if families.is_empty() {
        return "none: the key is enough".to_owned();
    }
    let family = |(name, wanted): (&String, &Wanted)| {
        let mut columns: Vec<_> = wanted.whole.iter().map(|_| "*".to_owned()).collect();
        columns
            .extend(wanted.columns.keys().take(LISTED_MAX).map(|of| of.escape_ascii().to_string()));
        columns.iter().map(|column| format!("{name}:{column}")).collect::<Vec<_>>().join(", ")
    };
    families.iter().map(family).collect::<Vec<_>>().join(", ")
}

/// Returns a row filter of a plan in words.
fn filter(of: &RowFilter) -> String {
    let joined = |filters: &[RowFilter], word: &str| {
        filters.iter().map(filter).collect::<Vec<_>>().join(word)
    };
    match of {
        RowFilter::Chain(filters) => joined(filters, ", then "),
        RowFilter::Interleave(filters) => joined(filters, " and "),
        RowFilter::CellsPerColumnLimit(1) => "the newest cell of each column".to_owned(),
        RowFilter::CellsPerRowLimit(1) => "the first cell of the row".to_owned(),
        RowFilter::StripValue => "without its value".to_owned(),
        RowFilter::ColumnRange(range) => column_range(range),
        other => format!("{other:?}"),
    }
}

fn column_range(range: &ColumnRange) -> String {
    match (&range.start, &range.end) {
        (Bound::Included(start), Bound::Included(end)) if start == end => {
            format!("{}:{}", range.family, start.escape_ascii())
        }
        _ => format!("{}:*", range.family),
    }
}

/// Returns the beginning of a text.
fn short(text: String) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
