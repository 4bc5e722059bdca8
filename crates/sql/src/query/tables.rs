//! Tables as DataFusion reads them: rows of a view, or rows made from the catalog.
//!
//! 1. Filters are only used to read less: DataFusion evaluates each of them again.
//! 2. Rows come in the order of the key that is scanned, and the plan is told so.
//! 3. A scan holds a blocking thread while it reads a batch, and none between two of them, however long its
//!    query waits for its client.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use engine::perf_context::{PerfContext, within};
use relational::catalog::{IndexPart, Sequence};
use relational::{DataType, Error, KeyRange, RowScan, ScanSpec, Table, Value};
use tokio::task::{JoinHandle, spawn_blocking};

use super::arrow::{array_of, field_of, scalar_value};
use super::bind::external;
use super::columnar::{Request, Zone, scan as scan_segments};
use super::plan::Run;
use crate::catalogs::VirtualTable;

/// Rows that a scan hands over at once.
const BATCH_ROWS: usize = 4096;

/// The place from which the rows of a table come.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Rows that the database stores, by the definition of their table.
    Rows(Arc<Table>),
    /// Rows made from the catalog.
    Virtual(&'static VirtualTable),
    /// The state of a sequence, as one row.
    Sequence(Arc<Sequence>),
}

/// Rows that are made when they are read.
#[derive(Clone)]
enum Made {
    Table(&'static VirtualTable),
    Sequence(Arc<Sequence>),
}

impl Made {
    fn rows(&self, run: &Run) -> relational::Result<Vec<Vec<Value>>> {
        match self {
            Self::Table(table) => Ok(table.rows(run.view.catalog(), &run.evaluation)),
            Self::Sequence(sequence) => {
                let (last, is_called) = run.evaluation.server()?.last_value(sequence)?;
                Ok(vec![vec![Value::Int8(last), Value::Int8(0), Value::Bool(is_called)]])
            }
        }
    }
}

/// Returns the columns of a sequence that is read as a table.
pub(super) fn sequence_columns() -> Vec<(String, DataType)> {
    let columns = [
        ("last_value", DataType::Int8),
        ("log_cnt", DataType::Int8),
        ("is_called", DataType::Bool),
    ];
    columns.map(|(name, data_type)| (name.to_owned(), data_type)).to_vec()
}

/// A table of a statement; with a view once it runs.
pub(super) struct RelationTable {
    name: String,
    columns: Vec<(String, DataType)>,
    schema: SchemaRef,
    source: Source,
    /// The primary key, by which GROUP BY may name other columns.
    keys: Constraints,
    run: Option<Run>,
}

/// Schema under which a statement that changes a table names it, by its number.
pub(crate) const CHANGED: &str = "\u{1}changed";
/// Name of the column with the row id of a table without a primary key.
pub(crate) const ROW_ID: &str = "\u{1}row";

impl RelationTable {
    /// Returns a table to plan with.
    pub(super) fn new(name: &str, columns: Vec<(String, DataType)>, source: Source) -> Self {
        let fields: Vec<_> =
            columns.iter().map(|(name, data_type)| field_of(name, data_type)).collect();
        let schema = Arc::new(Schema::new(fields));
        let keys = primary_key(&source, columns.len());
        Self { name: name.to_owned(), columns, schema, source, keys, run: None }
    }

    /// Returns the numbers of the table and of its column at `place`; nothing for views of the catalog.
    pub(super) fn origin(&self, place: usize) -> Option<(u32, i16)> {
        match &self.source {
            Source::Rows(table) => {
                table.columns.get(place).map(|column| (table.oid, column.number))
            }
            Source::Sequence(sequence) => {
                i16::try_from(place + 1).ok().map(|number| (sequence.oid, number))
            }
            Source::Virtual(table) => {
                let number = i16::try_from(place + 1).ok()?;
                crate::catalogs::number_of(table).map(|oid| (oid, number))
            }
        }
    }

    /// Returns the table for one execution, without its key: the optimizer takes rows for unique by it, also where each
    /// row was spread to several.
    pub(super) fn for_run(&self, run: Run) -> Self {
        Self {
            name: self.name.clone(),
            columns: self.columns.clone(),
            schema: Arc::clone(&self.schema),
            source: self.source.clone(),
            keys: Constraints::default(),
            run: Some(run),
        }
    }
}

/// Returns the primary key of a source by the places of its columns; nothing if it has others than the first `count`.
fn primary_key(source: &Source, count: usize) -> Constraints {
    let places = match source {
        Source::Rows(table) => table.primary_key.as_ref().and_then(|key| {
            key.parts.iter().map(|part| table.place(part.column)).collect::<Option<Vec<usize>>>()
        }),
        Source::Virtual(_) | Source::Sequence(_) => None,
    };
    let places = places.filter(|places| places.iter().all(|place| *place < count));
    let keys = places.map(Constraint::PrimaryKey);
    Constraints::new_unverified(keys.into_iter().collect())
}

impl std::fmt::Debug for RelationTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.name)
    }
}

#[async_trait]
impl TableProvider for RelationTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.keys)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let use_of = |filter: &&Expr| {
            let is_used = match &self.source {
                Source::Rows(table) if table.is_columnar() => Zone::of(filter, table).is_some(),
                Source::Rows(_) => condition(filter).is_some(),
                Source::Virtual(_) | Source::Sequence(_) => false,
            };
            match is_used {
                true => TableProviderFilterPushDown::Inexact,
                false => TableProviderFilterPushDown::Unsupported,
            }
        };
        Ok(filters.iter().map(use_of).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let run = self
            .run
            .clone()
            .ok_or_else(|| DataFusionError::Internal(format!("{} has no view", self.name)))?;
        let places: Vec<usize> = match projection {
            Some(places) => places.clone(),
            None => (0..self.columns.len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&places)?);
        let types = places.iter().map(|place| self.columns[*place].1.clone()).collect();
        let mut orderings = Vec::new();
        let work = match &self.source {
            Source::Rows(table) if table.is_columnar() => {
                // Inexact filters run above: only an unfiltered scan may stop early.
                let limit = limit.filter(|_| filters.is_empty());
                let spec = ScanSpec {
                    columns: Some(places.clone()),
                    limit: limit.map(|limit| limit as u64),
                    cancel: run.cancel.clone(),
                    delta_rows: true,
                    ..ScanSpec::of(table.oid)
                };
                let (name, run) = (self.name.clone(), &run);
                let work = Rows::Stored { spec, pick: None };
                let rows =
                    Scan { name, schema: Arc::clone(&schema), types, work, run: run.clone() };
                let partitions = state.config().target_partitions();
                let (places, rows) = (places.as_slice(), Arc::new(rows));
                let request =
                    Request { table, places, schema, filters, limit, partitions, run, rows };
                return scan_segments(request).await.map_err(external);
            }
            Source::Virtual(table) => Rows::Made { made: Made::Table(table), places },
            Source::Sequence(sequence) => {
                Rows::Made { made: Made::Sequence(Arc::clone(sequence)), places }
            }
            Source::Rows(table) => {
                let conditions: Vec<Condition> = filters.iter().filter_map(condition).collect();
                let access = choose(table, &conditions);
                orderings.extend(ordering(table, access.parts, &places));
                // Inexact filters run above: only an unfiltered scan may stop early.
                let limit = limit.filter(|_| filters.is_empty()).map(|limit| limit as u64);
                let with_id = self.columns.len() > table.columns.len();
                let (columns, pick) =
                    if with_id { (None, Some(places)) } else { (Some(places), None) };
                let spec = ScanSpec {
                    index: access.index,
                    ranges: access.ranges,
                    columns,
                    limit,
                    cancel: run.cancel.clone(),
                    ..ScanSpec::of(table.oid)
                };
                Rows::Stored { spec, pick }
            }
        };
        let name = self.name.clone();
        let stream = Scan { name, schema: Arc::clone(&schema), types, work, run };
        let plan = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(stream)],
            None,
            orderings,
            false,
            limit.filter(|_| filters.is_empty()),
        )?;
        Ok(Arc::new(plan))
    }
}

/// A comparison of a column with a constant.
struct Condition {
    column: String,
    op: Operator,
    values: Vec<Value>,
}

/// Returns the value of a constant that is not NULL.
pub(super) fn constant(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => {
            let kind = super::arrow::type_of_arrow(&value.data_type());
            scalar_value(value, &kind).ok()
        }
        _ => None,
    }
}

/// Returns the comparison that a filter makes, if a key range can follow from it.
fn condition(filter: &Expr) -> Option<Condition> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, value) = match (left.as_ref(), right.as_ref()) {
                (Expr::Column(column), value) => (column, *op, value),
                (value, Expr::Column(column)) => (column, op.swap()?, value),
                _ => return None,
            };
            let usable = matches!(
                op,
                Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            );
            let values = vec![constant(value).filter(|_| usable)?];
            Some(Condition { column: column.name.clone(), op, values })
        }
        Expr::InList(list) if !list.negated && list.list.len() <= 1000 => {
            let Expr::Column(column) = list.expr.as_ref() else { return None };
            let values: Option<Vec<Value>> = list.list.iter().map(constant).collect();
            let mut values = values?;
            values.sort();
            values.dedup();
            Some(Condition { column: column.name.clone(), op: Operator::Eq, values })
        }
        _ => None,
    }
}

/// A key and its ranges.
struct Access<'a> {
    index: Option<u32>,
    ranges: Vec<KeyRange>,
    parts: &'a [IndexPart],
}

/// Returns the key whose ranges the conditions bound best; the table's own if none helps.
fn choose<'a>(table: &'a Table, conditions: &[Condition]) -> Access<'a> {
    let own = table.primary_key.as_ref().map_or(&[][..], |key| &key.parts);
    let mut best = Access { index: None, ranges: vec![KeyRange::ALL], parts: own };
    let mut score = 0;
    if let Some((found, ranges)) = ranges(table, own, conditions) {
        (score, best.ranges) = (found + 1, ranges);
    }
    for index in table.indexes.iter().filter(|index| index.ready) {
        if let Some((found, ranges)) = ranges(table, &index.parts, conditions)
            && found > score
        {
            score = found;
            best = Access { index: Some(index.oid), ranges, parts: &index.parts };
        }
    }
    best
}

/// Returns how well conditions bound a key, and the ranges; nothing if they do not.
fn ranges(
    table: &Table,
    parts: &[IndexPart],
    conditions: &[Condition],
) -> Option<(usize, Vec<KeyRange>)> {
    let mut prefixes: Vec<Vec<Value>> = vec![Vec::new()];
    let mut score = 0;
    for part in parts {
        let column = &table.columns[table.place(part.column)?];
        let fits = |condition: &&Condition| {
            condition.column == column.name
                && condition.values.iter().all(|value| same_kind(value, &column.data_type))
        };
        let mut found = conditions.iter().filter(fits);
        let equal = found.clone().find(|condition| condition.op == Operator::Eq);
        if let Some(equal) = equal.filter(|equal| prefixes.len() * equal.values.len() <= 1000) {
            score += 2;
            let mut values = equal.values.clone();
            if part.descending {
                values.reverse();
            }
            let extended = prefixes.iter().flat_map(|prefix| {
                values.iter().map(|value| {
                    let mut longer = prefix.clone();
                    longer.push(value.clone());
                    longer
                })
            });
            prefixes = extended.collect();
            continue;
        }
        let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
        for condition in found.by_ref() {
            let value = condition.values.first()?.clone();
            match condition.op {
                Operator::Gt => lower = Bound::Excluded(value),
                Operator::GtEq => lower = Bound::Included(value),
                Operator::Lt => upper = Bound::Excluded(value),
                Operator::LtEq => upper = Bound::Included(value),
                _ => {}
            }
        }
        if matches!((&lower, &upper), (Bound::Unbounded, Bound::Unbounded)) {
            break;
        }
        if part.descending {
            std::mem::swap(&mut lower, &mut upper);
        }
        let around = |prefix: &[Value], bound: &Bound<Value>| {
            let with = |value: &Value| {
                let mut longer = prefix.to_vec();
                longer.push(value.clone());
                longer
            };
            match bound {
                Bound::Included(value) => Bound::Included(with(value)),
                Bound::Excluded(value) => Bound::Excluded(with(value)),
                Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
                Bound::Unbounded => Bound::Included(prefix.to_vec()),
            }
        };
        let bounded = prefixes.iter().map(|prefix| KeyRange {
            lower: around(prefix, &lower),
            upper: around(prefix, &upper),
        });
        return Some((score + 1, bounded.collect()));
    }
    (score > 0).then(|| (score, prefixes.into_iter().map(KeyRange::prefix).collect()))
}

/// Returns whether a key of the column's type can hold the value.
fn same_kind(value: &Value, data_type: &DataType) -> bool {
    matches!(
        (value, data_type),
        (Value::Bool(_), DataType::Bool)
            | (Value::Int2(_), DataType::Int2)
            | (Value::Int4(_), DataType::Int4)
            | (Value::Int8(_), DataType::Int8)
            | (Value::Oid(_), DataType::Oid)
            | (Value::Text(_), DataType::Text | DataType::Varchar(_) | DataType::Name)
            | (Value::Bytea(_), DataType::Bytea)
            | (Value::Uuid(_), DataType::Uuid)
            | (Value::Date(_), DataType::Date)
            | (Value::Time(_), DataType::Time)
            | (Value::Timestamp(_), DataType::Timestamp)
            | (Value::TimestampTz(_), DataType::TimestampTz)
    )
}

/// Returns the order of the rows, as far as the columns that are read show it.
fn ordering(table: &Table, parts: &[IndexPart], places: &[usize]) -> Option<LexOrdering> {
    let mut out = Vec::new();
    for part in parts {
        let place = table.place(part.column)?;
        let column = &table.columns[place];
        let plain = super::bind::compares_plainly(&column.data_type);
        let Some(at) = places.iter().position(|wanted| *wanted == place).filter(|_| plain) else {
            break;
        };
        out.push(PhysicalSortExpr {
            expr: Arc::new(Column::new(&column.name, at)),
            options: SortOptions { descending: part.descending, nulls_first: part.nulls_first },
        });
    }
    LexOrdering::new(out)
}

/// The rows that a scan returns.
enum Rows {
    /// Rows of the database; of rows that are read whole, the places to pick.
    Stored {
        spec: ScanSpec,
        pick: Option<Vec<usize>>,
    },
    Made {
        made: Made,
        places: Vec<usize>,
    },
}

/// A scan that runs when its stream is polled.
struct Scan {
    name: String,
    schema: SchemaRef,
    types: Vec<DataType>,
    work: Rows,
    run: Run,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.name)
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let shape = Shape { types: self.types.clone(), schema: Arc::clone(&schema) };
        let run = self.run.clone();
        let first: Read = match &self.work {
            Rows::Stored { spec, pick } => {
                let (spec, pick) = (spec.clone(), pick.clone());
                spawn_blocking(move || {
                    let mut counts = run.counts.clone();
                    let scan = within(&mut counts, || run.view.scan(spec)).map_err(external)?;
                    next_batch(Reader::Stored { scan: Box::new(scan), pick, counts }, shape)
                })
            }
            Rows::Made { made, places } => {
                let (made, places) = (made.clone(), places.clone());
                spawn_blocking(move || {
                    let all = made.rows(&run).map_err(external)?;
                    let wanted = all.into_iter().map(|row| {
                        places
                            .iter()
                            .map(|place| row.get(*place).cloned().unwrap_or_default())
                            .collect()
                    });
                    let rows: Vec<Vec<Value>> = wanted.collect();
                    next_batch(Reader::Virtual(rows.into_iter()), shape)
                })
            }
        };
        let batches = futures::stream::try_unfold(Some(first), |read| async {
            let Some(read) = read else { return Ok(None) };
            let found = read.await.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(found?.map(|(batch, reader, shape)| {
                // The next batch is read while the query works on this one.
                let next = spawn_blocking(move || next_batch(reader, shape));
                (batch, Some(next))
            }))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// Types and schema of the batches of a scan.
struct Shape {
    types: Vec<DataType>,
    schema: SchemaRef,
}

/// The rows of a scan that are still to be read.
enum Reader {
    /// A scan, the places in its rows of the values that are wanted, and the counts of its work.
    Stored {
        scan: Box<RowScan>,
        pick: Option<Vec<usize>>,
        counts: Option<Arc<PerfContext>>,
    },
    Virtual(std::vec::IntoIter<Vec<Value>>),
}

/// A batch, with what is needed to read the one behind it.
type Batch = (RecordBatch, Reader, Shape);
/// A batch that is being read; nothing at the end.
type Read = JoinHandle<Result<Option<Batch>>>;

/// Reads rows, as many as are handed over at once. Blocks.
fn next_batch(mut reader: Reader, shape: Shape) -> Result<Option<Batch>> {
    let rows: Vec<Vec<Value>> = match &mut reader {
        Reader::Stored { scan, pick, counts } => {
            let rows = within(counts, || scan.next_batch(BATCH_ROWS)).map_err(external)?;
            match pick {
                None => rows,
                Some(places) => {
                    let value = |row: &Vec<Value>, at: usize| row.get(at).cloned();
                    let chosen = |row: Vec<Value>| {
                        places.iter().map(|at| value(&row, *at).unwrap_or_default()).collect()
                    };
                    rows.into_iter().map(chosen).collect()
                }
            }
        }
        Reader::Virtual(rows) => rows.by_ref().take(BATCH_ROWS).collect(),
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let batch = batch_of(&rows, &shape.types, &shape.schema)?;
    Ok(Some((batch, reader, shape)))
}

/// Returns rows as columns of Arrow.
pub(crate) fn batch_of(
    rows: &[Vec<Value>],
    types: &[DataType],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(types.len());
    for (at, data_type) in types.iter().enumerate() {
        let values: Option<Vec<Value>> = rows.iter().map(|row| row.get(at).cloned()).collect();
        let values =
            values.ok_or_else(|| external(Error::internal("a row has too few columns")))?;
        columns.push(array_of(&values, data_type).map_err(external)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
