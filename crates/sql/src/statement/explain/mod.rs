//! EXPLAIN: plans as lines of text or as JSON, and with ANALYZE what carrying them out took.

mod tree;

pub use tree::PlanNode;
pub(crate) use tree::plan_of;

use super::plan::{Plan, start};
use super::{Column, Output, Rows, Run};
use engine::perf_context::{self, Detail, PerfContext, PerfCount};
use relational::{DataType, Error, Result, Row, Value};
use std::sync::Arc;

/// Form of an `EXPLAIN`, as its options ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Explain {
    /// True if the statement is carried out.
    pub(crate) is_analyzed: bool,
    pub(crate) is_verbose: bool,
    pub(crate) format: Format,
}

/// Form in which a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A row for each line.
    Text,
    /// One row with an array of one object.
    Json,
}

/// Returns the plan of a statement as rows. With ANALYZE it is carried out, and its reads are counted.
pub(super) async fn explain_plan(
    plan: &Plan,
    explain: Explain,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Output> {
    let lines = match explain.is_analyzed {
        false => lines(plan, explain, text, run).await?,
        true => {
            let counts = Arc::new(PerfContext::new(Detail::Sums));
            let work = perf_context::within(&mut Some(Arc::clone(&counts)), || {
                perf_context::carried(lines(plan, explain, text, run))
            });
            let mut lines = work.await?;
            lines.push(reads(&counts));
            lines
        }
    };
    let lines = match explain.format {
        Format::Text => lines,
        Format::Json => vec![tree::to_json(&lines)],
    };
    let rows: Vec<Row> = lines.into_iter().map(|line| vec![Value::Text(line.into())]).collect();
    Ok(Output::Rows(Box::new(Rows::ready(plan_columns(explain.format), rows, "EXPLAIN"))))
}

/// Returns what the reads of a statement looked at.
fn reads(counts: &PerfContext) -> String {
    use PerfCount::{
        Blocks, DiskBlocks, Files, FilesOutOfRange, FilteredByColumn, FilteredByFamily,
        FilteredByPrefix, FilteredByRow, PointReads, Scans,
    };
    let sum = |all: &[PerfCount]| all.iter().map(|which| counts.count(*which)).sum::<u64>();
    let filtered = sum(&[FilteredByRow, FilteredByFamily, FilteredByColumn, FilteredByPrefix]);
    format!(
        "Reads: {} by key, {} scans; {} files, {} out of range, {filtered} excluded by filters; {} blocks, {} from \
         disk",
        sum(&[PointReads]),
        sum(&[Scans]),
        sum(&[Files]),
        sum(&[FilesOutOfRange]),
        sum(&[Blocks]),
        sum(&[DiskBlocks]),
    )
}

async fn lines(
    plan: &Plan,
    explain: Explain,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Vec<String>> {
    let mut lines = match plan {
        Plan::Select(select) => select.explain(explain, run).await?,
        Plan::Insert(insert) => vec![format!("Insert on {}", insert.table().name)],
        Plan::Update(update) => update.explain(),
        Plan::Delete(delete) => delete.explain(),
        _ => return Err(Error::unsupported("EXPLAIN of this kind of statement")),
    };
    if explain.is_analyzed && !matches!(plan, Plan::Select(_)) {
        let started = std::time::Duration::from_micros(base_micros());
        let tag = match Box::pin(start(plan, text, run)).await? {
            Output::Done(tag) => tag,
            Output::Rows(mut rows) => {
                let mut count = 0;
                loop {
                    let batch = rows.next(1_000).await?.len();
                    if batch == 0 {
                        break rows.tag(count);
                    }
                    count += batch;
                }
            }
            _ => return Err(Error::unsupported("EXPLAIN ANALYZE of COPY")),
        };
        let time = std::time::Duration::from_micros(base_micros()).saturating_sub(started);
        lines.push(format!("Result: {tag}"));
        lines.push(format!("Execution Time: {:.3} ms", time.as_secs_f64() * 1e3));
    }
    Ok(lines)
}

fn base_micros() -> u64 {
    use base::env::{Clock, SystemClock};
    SystemClock.monotonic().as_micros() as u64
}

/// Returns the only column of a plan.
pub(super) fn plan_columns(format: Format) -> Arc<[Column]> {
    let data_type = match format {
        Format::Text => DataType::Text,
        Format::Json => DataType::Json,
    };
    Arc::from([Column::computed("QUERY PLAN", data_type)])
}
