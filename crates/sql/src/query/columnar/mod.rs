//! Scans of columnar tables.
//!
//! ```text
//! filters ─ zones.rs ─▶ rows of each segment ─ segment.rs ─▶ pages and batches ─ reader.rs ─▶ exec.rs ─▶ plan
//! ```
//!
//! Invariants:
//! 1. A scan returns each row of its view once: the rows of all segments, and the rows that lie in no segment.
//! 2. Filters are only used to read less: DataFusion evaluates each of them again.
//! 3. Descriptors are read when the plan is made, pages when it runs. Both are what one view sees.
//! 4. The rows have no order.

mod exec;
mod reader;
mod segment;
mod zones;

use std::ops::ControlFlow;
use std::sync::Arc;

use columnar::SegmentDescriptor;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::PartitionStream;
use engine::perf_context::within;
use relational::{CancelFlag, Error, Oid, Result, Table, View};
use tokio::task::spawn_blocking;

use super::arrow::scalar_of;
use super::plan::Run;
use exec::ColumnarScanExec;
use reader::{Shared, unreadable};
use segment::{Part, Wanted};

pub(super) use zones::Zone;

/// The scan that a query asks for.
pub(super) struct Request<'a> {
    /// The definition of the table.
    pub(super) table: &'a Table,
    /// Places of the wanted columns in the table.
    pub(super) places: &'a [usize],
    /// The schema of the batches.
    pub(super) schema: SchemaRef,
    /// Filters that [`Zone::of`] can use.
    pub(super) filters: &'a [Expr],
    /// Rows that are wanted at most, if no filter is evaluated above.
    pub(super) limit: Option<usize>,
    /// Most partitions of the plan.
    pub(super) partitions: usize,
    /// View, flag and counts of the execution.
    pub(super) run: &'a Run,
    /// The rows that lie in no segment.
    pub(super) rows: Arc<dyn PartitionStream>,
}

/// Returns the plan of a scan. XX001 if a descriptor is damaged, 57014 once it is cancelled.
pub(super) async fn scan(request: Request<'_>) -> Result<Arc<dyn ExecutionPlan>> {
    let Request { table, run, limit, .. } = request;
    let wanted = wanted(table, request.places)?;
    let zones = request.filters.iter().filter_map(|filter| Zone::of(filter, table));
    let rows_max = limit.and_then(|limit| u64::try_from(limit).ok());
    let search = Search {
        table: table.name.clone(),
        oid: table.oid,
        wanted,
        zones: zones.collect(),
        rows_max: rows_max.unwrap_or(u64::MAX),
        cancel: run.cancel.clone(),
    };
    let (view, mut counts) = (run.view.clone(), run.counts.clone());
    let find = move || -> Result<_> {
        within(&mut counts, || {
            let pages = view.pages(search.oid)?;
            Ok((pages, search.parts(&view)?, search))
        })
    };
    let found = spawn_blocking(find)
        .await
        .map_err(|error| Error::internal(format!("a blocking call ended: {error}")))?;
    let (pages, (parts, segments), search) = found?;
    let shared = Shared {
        table: search.table,
        schema: request.schema,
        wanted: search.wanted,
        parts,
        pages: Box::new(pages),
        cancel: search.cancel,
        counts: run.counts.clone(),
    };
    let counts = (segments, request.partitions);
    Ok(Arc::new(ColumnarScanExec::new(shared, request.rows, limit, counts)))
}

/// Returns the columns at some places of a table; XX000 for the place of the row id.
fn wanted(table: &Table, places: &[usize]) -> Result<Vec<Wanted>> {
    let column = |place: &usize| {
        let missing = || {
            let text = format!("rows of columnar table \"{}\" have no row id", table.name);
            Error::internal(text)
        };
        let column = table.columns.get(*place).ok_or_else(missing)?;
        let number = u32::try_from(column.number)
            .map_err(|_| Error::internal(format!("a column has the number {}", column.number)))?;
        let data_type = column.data_type.clone();
        let missing = scalar_of(&column.missing, &data_type)?;
        Ok(Wanted { number, data_type, missing })
    };
    places.iter().map(column).collect()
}

/// A search for the segments to read.
struct Search {
    table: String,
    oid: Oid,
    wanted: Vec<Wanted>,
    zones: Vec<Zone>,
    /// Rows after which no more segments are needed.
    rows_max: u64,
    cancel: CancelFlag,
}

impl Search {
    /// Returns the parts of segments that are to be read, and the number of segments that were looked at: all, unless
    /// the rows of the first ones are enough. Blocks.
    fn parts(&self, view: &View) -> Result<(Vec<Part>, usize)> {
        let (mut parts, mut rows, mut segments) = (Vec::new(), 0, 0);
        view.each_segment(self.oid, &self.cancel, |number, descriptor| {
            segments += 1;
            if let Some(part) = self.part(number, descriptor)? {
                rows += part.rows();
                parts.push(part);
            }
            Ok(if rows < self.rows_max {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        Ok((parts, segments))
    }

    fn part(&self, number: u64, descriptor: &[u8]) -> Result<Option<Part>> {
        let place = || format!("table {}: segment {number}", self.table);
        let descriptor = SegmentDescriptor::decode(descriptor)
            .map_err(|error| unreadable(&format!("{}, its descriptor", place()), &error))?;
        Part::of(number, &descriptor, &self.wanted, &self.zones).map_err(|mut error| {
            error.message = format!("{}, {}", place(), error.message);
            error
        })
    }
}
