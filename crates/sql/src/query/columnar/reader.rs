//! Reads the rows of segments, batch by batch. Blocks.
//!
//! 1. Only pages of wanted columns are read that have rows of a batch, each of them once.
//! 2. The flag of the statement is looked at before each page.
//! 3. The pages that lie in memory, and a batch made of several, count in the memory of queries. Up to
//!    [`SURE_BYTES`] they are had even if others took all memory: operators that can spill to disk must be given the
//!    rows that make them spill.
//! 4. A damaged page ends the query with XX001, and the text names its place.

use std::ops::Range;
use std::sync::Arc;

use columnar::Page;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Count;
use engine::perf_context::{PerfContext, within};
use relational::{CancelFlag, Error, Pages, Result};

use super::super::arrow::page_type;
use super::super::bind::external;
use super::super::{from_datafusion, from_stored};
use super::segment::{Part, Wanted, page_of, page_rows};

/// Bytes that a reader takes whether the memory of queries has them or not.
const SURE_BYTES: usize = 32 << 20;
/// Bytes of values in a batch that are the same in all rows, roughly.
const MISSING_BYTES: usize = 4 << 20;

/// Opens pages of the segments of a table.
pub(super) trait PageSource: Send + Sync {
    /// Returns a page of a segment's column by its number. Errors: of the store, and inside of the page. Blocks.
    fn open(
        &self,
        segment: u64,
        column: u32,
        page: u16,
    ) -> Result<std::result::Result<Page, columnar::Error>>;
}

impl PageSource for Pages {
    fn open(
        &self,
        segment: u64,
        column: u32,
        page: u16,
    ) -> Result<std::result::Result<Page, columnar::Error>> {
        self.read(segment, column, page, |bytes| Page::open(Buffer::from(bytes)))
    }
}

/// Returns the error of bytes that cannot be read, with their place.
pub(super) fn unreadable(place: &str, error: &columnar::Error) -> Error {
    match error {
        columnar::Error::Version { .. } => Error::unsupported(format!("{place}: {error}")),
        error => Error::corrupted(format!("{place}: {error}")),
    }
}

/// Returns the error of columns that do not fit together, which checks before it exclude.
fn unmade(problem: ArrowError) -> Error {
    Error::internal(problem.to_string())
}

/// The parts of a scan that its partitions share.
pub(super) struct Shared {
    /// The name of the table, for people.
    pub(super) table: String,
    /// The schema of the batches.
    pub(super) schema: SchemaRef,
    /// The columns of the batches.
    pub(super) wanted: Vec<Wanted>,
    /// The segments to be read.
    pub(super) parts: Vec<Part>,
    /// The pages of the table.
    pub(super) pages: Box<dyn PageSource>,
    /// Ends the scan with 57014.
    pub(super) cancel: CancelFlag,
    /// Counts what the reads look at, for EXPLAIN.
    pub(super) counts: Option<Arc<PerfContext>>,
}

impl Shared {
    /// Returns the most rows of a batch by the columns that a segment does not have, whose values are all the same.
    fn rows_of_missing(&self, part: &Part) -> u32 {
        let missing = self.wanted.iter().enumerate().filter(|(at, _)| part.ends(*at).is_none());
        let longest = missing.map(|(_, wanted)| wanted.missing.size()).max().unwrap_or_default();
        u32::try_from(MISSING_BYTES / longest.max(1)).unwrap_or(u32::MAX).max(1)
    }
}

/// A page that was decoded.
struct Decoded {
    /// The place of the page among the pages of its column.
    at: usize,
    /// The rows of the page.
    rows: Range<u32>,
    /// The values of the rows, in the form of queries.
    values: ArrayRef,
}

/// A batch, with what reads the one behind it.
pub(super) type Step = Option<(RecordBatch, Box<Reader>)>;

/// The rows of some segments that are still to be read.
pub(super) struct Reader {
    shared: Arc<Shared>,
    /// Places of the segments to come; the first one is at work.
    parts: Range<usize>,
    /// The row of the first segment from which on rows are to be read.
    row: u32,
    /// For each wanted column the pages that the last batch needed and the next one may need.
    decoded: Vec<Vec<Decoded>>,
    /// Rows that are still wanted.
    left: usize,
    memory: MemoryReservation,
    pages_read: Count,
}

impl Reader {
    /// Returns the reader of segments by their places, of `limit` rows at most.
    pub(super) fn new(
        shared: Arc<Shared>,
        parts: Range<usize>,
        limit: usize,
        memory: MemoryReservation,
        pages_read: Count,
    ) -> Self {
        let decoded = shared.wanted.iter().map(|_| Vec::new()).collect();
        Self { shared, parts, row: 0, decoded, left: limit, memory, pages_read }
    }

    /// Returns the next batch with the reader; nothing at the end. Blocks.
    pub(super) fn step(mut self: Box<Self>) -> datafusion::common::Result<Step> {
        let mut counts = self.shared.counts.clone();
        let batch = within(&mut counts, || self.next_batch()).map_err(external)?;
        Ok(batch.map(|batch| (batch, self)))
    }

    /// Returns the next batch; nothing at the end. 57014 once it is cancelled, XX001 for damage.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let shared = Arc::clone(&self.shared);
        while self.left > 0 {
            shared.cancel.check()?;
            let part = self.parts.clone().next().and_then(|at| shared.parts.get(at));
            let Some(part) = part else { break };
            let Some(mut rows) = part.batch(self.row) else {
                self.parts.next();
                self.row = 0;
                self.decoded.iter_mut().for_each(Vec::clear);
                continue;
            };
            let wanted = u32::try_from(self.left).unwrap_or(u32::MAX);
            let wanted = wanted.min(shared.rows_of_missing(part));
            rows.end = rows.end.min(rows.start.saturating_add(wanted));
            let batch = self.batch(&shared, part, &rows)?;
            self.row = rows.end;
            self.left -= batch.num_rows().min(self.left);
            return Ok(Some(batch));
        }
        Ok(None)
    }

    fn batch(&mut self, shared: &Shared, part: &Part, rows: &Range<u32>) -> Result<RecordBatch> {
        let count = rows.len();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(shared.wanted.len());
        // Bytes of all pages in memory and of what the batch has beside them.
        let mut bytes = 0;
        for (at, wanted) in shared.wanted.iter().enumerate() {
            let Some(ends) = part.ends(at) else {
                let values = wanted.missing.to_array_of_size(count).map_err(from_datafusion)?;
                bytes += values.get_array_memory_size();
                columns.push(values);
                continue;
            };
            self.decode(shared, (part, ends), at, rows)?;
            let pages = self.decoded.get(at).into_iter().flatten();
            bytes += pages.map(|page| page.values.get_array_memory_size()).sum::<usize>();
            self.hold(self.memory.size().max(bytes))?;
            let slices = self.slices(at, rows);
            if let [only] = slices.as_slice() {
                columns.push(Arc::clone(only));
                continue;
            }
            let slices: Vec<&dyn Array> = slices.iter().map(|values| values.as_ref()).collect();
            let values = concat(&slices).map_err(unmade)?;
            bytes += values.get_array_memory_size();
            columns.push(values);
        }
        self.hold(bytes)?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&shared.schema);
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(unmade)
    }

    /// Counts bytes in the memory of queries. 53200 if it has no room for more than [`SURE_BYTES`].
    fn hold(&self, bytes: usize) -> Result<()> {
        match self.memory.try_resize(bytes) {
            Err(_) if bytes <= SURE_BYTES => self.memory.resize(bytes),
            resized => resized.map_err(from_datafusion)?,
        }
        Ok(())
    }

    /// Decodes the pages of a column that have some rows, and forgets the ones before them.
    fn decode(
        &mut self,
        shared: &Shared,
        (part, ends): (&Part, &[u32]),
        at: usize,
        rows: &Range<u32>,
    ) -> Result<()> {
        let (Some(decoded), Some(wanted)) = (self.decoded.get_mut(at), shared.wanted.get(at))
        else {
            return Err(Error::internal("a column of a scan is not there"));
        };
        decoded.retain(|page| page.rows.end > rows.start);
        let next = decoded.last().map_or(page_of(ends, rows.start), |page| page.at + 1);
        for page in next.. {
            let Some(page_rows) = page_rows(ends, page) else { break };
            if page_rows.start >= rows.end {
                break;
            }
            shared.cancel.check()?;
            let values = read(shared, part.number, wanted, page, page_rows.len())?;
            self.pages_read.add(1);
            decoded.push(Decoded { at: page, rows: page_rows, values });
        }
        Ok(())
    }

    /// Returns the values of some rows of a column, a slice of each page.
    fn slices(&self, at: usize, rows: &Range<u32>) -> Vec<ArrayRef> {
        let mut slices = Vec::new();
        for page in self.decoded.get(at).into_iter().flatten() {
            let both = page.rows.start.max(rows.start)..page.rows.end.min(rows.end);
            if !both.is_empty() {
                let from = (both.start - page.rows.start) as usize;
                slices.push(page.values.slice(from, both.len()));
            }
        }
        slices
    }
}

/// Reads a page that must have so many rows.
fn read(
    shared: &Shared,
    segment: u64,
    wanted: &Wanted,
    page: usize,
    rows: usize,
) -> Result<ArrayRef> {
    let column = wanted.number;
    let place = || {
        let table = &shared.table;
        format!("table {table}: segment {segment}, column {column}, page {page}")
    };
    let damaged = |what: &str| Error::corrupted(format!("{}: {what}", place()));
    let number = u16::try_from(page).map_err(|_| damaged("the number is too large"))?;
    let read = shared.pages.open(segment, column, number)?;
    let read = read.and_then(|page| page.decode(&page_type(&wanted.data_type)));
    let values = read.map_err(|error| unreadable(&place(), &error))?;
    if values.len() != rows {
        let found = values.len();
        return Err(damaged(&format!("{found} rows, but {rows} by the descriptor")));
    }
    from_stored(&values, &wanted.data_type).map_err(|mut error| {
        error.message = format!("{}: {}", place(), error.message);
        error
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::arrow::{array_of, field_of, read_column, scalar_of, to_stored};
    use super::super::zones::Zone;
    use super::*;
    use columnar::{Bound, Comparison, EncodedSegment, PageOptions, encode_segment};
    use datafusion::arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use relational::{DataType, SqlState, Value};

    const ROWS: u32 = 30_000;

    /// The pages of one segment in memory.
    struct Hand(EncodedSegment);

    impl PageSource for Hand {
        fn open(
            &self,
            _segment: u64,
            column: u32,
            page: u16,
        ) -> Result<std::result::Result<Page, columnar::Error>> {
            let columns = &self.0.descriptor.columns;
            let at = columns.iter().position(|found| found.number == column).unwrap();
            let bytes = self.0.pages[at][usize::from(page)].as_slice();
            Ok(Page::open(Buffer::from(bytes)))
        }
    }

    /// Returns the row's text, of which there are some pages.
    fn text(row: u32) -> Value {
        Value::text(format!("{row:05}{:095}", 0))
    }

    fn number(row: u32) -> Value {
        if row.is_multiple_of(3) { Value::Null } else { Value::Int4(row.cast_signed()) }
    }

    /// Returns a segment of the columns 1, text, and 4, numbers.
    fn segment() -> EncodedSegment {
        let column = |data_type: &DataType, value: fn(u32) -> Value| {
            let values: Vec<Value> = (0..ROWS).map(value).collect();
            to_stored(&array_of(&values, data_type).unwrap(), data_type).unwrap()
        };
        let columns = [(1, column(&DataType::Text, text)), (4, column(&DataType::Int4, number))];
        encode_segment(&columns, &PageOptions::default()).unwrap()
    }

    fn reader(
        segment: EncodedSegment,
        wanted: &[(u32, DataType, Value)],
        zones: &[Zone],
        limit: usize,
    ) -> Reader {
        let fields = wanted.iter().map(|(number, data_type, _)| {
            let name = format!("c{number}");
            field_of(&name, data_type)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let wanted = wanted.iter().map(|(number, data_type, missing)| Wanted {
            number: *number,
            data_type: data_type.clone(),
            missing: scalar_of(missing, data_type).unwrap(),
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let part = Part::of(7, &segment.descriptor, &wanted, zones).unwrap();
        let parts: Vec<Part> = part.into_iter().collect();
        let places = 0..parts.len();
        let shared = Shared {
            table: "t".to_owned(),
            schema,
            wanted,
            parts,
            pages: Box::new(Hand(segment)),
            cancel: CancelFlag::default(),
            counts: None,
        };
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let memory = MemoryConsumer::new("test").register(&pool);
        Reader::new(Arc::new(shared), places, limit, memory, Count::new())
    }

    /// Returns all rows of a reader, column by column.
    fn all(reader: &mut Reader) -> (usize, Vec<Vec<Value>>) {
        let wanted = reader.shared.wanted.iter().map(|column| column.data_type.clone());
        let types: Vec<DataType> = wanted.collect();
        let (mut rows, mut columns) = (0, vec![Vec::new(); types.len()]);
        while let Some(batch) = reader.next_batch().unwrap() {
            assert!((1..=8_192).contains(&batch.num_rows()));
            rows += batch.num_rows();
            for ((values, data_type), all) in batch.columns().iter().zip(&types).zip(&mut columns) {
                all.extend(read_column(values, data_type).unwrap());
            }
        }
        (rows, columns)
    }

    #[test]
    fn all_rows_are_read_in_their_order() {
        let wanted = [
            (4, DataType::Int4, Value::Null),
            (1, DataType::Text, Value::Null),
            (9, DataType::Int8, Value::Int8(5)),
        ];
        let mut reader = reader(segment(), &wanted, &[], usize::MAX);
        let (rows, columns) = all(&mut reader);
        assert_eq!(rows, ROWS as usize);
        assert_eq!(columns[0], (0..ROWS).map(number).collect::<Vec<_>>());
        assert_eq!(columns[1], (0..ROWS).map(text).collect::<Vec<_>>());
        assert!(columns[2].iter().all(|value| *value == Value::Int8(5)));
        let pages: usize = reader.shared.parts.iter().map(Part::pages).sum();
        assert_eq!(reader.pages_read.value(), pages, "each page is read once");
    }

    #[test]
    fn pages_without_a_row_that_may_pass_are_not_read() {
        let Value::Text(last) = text(ROWS - 1) else { return };
        let value = Bound::Bytes(last.as_bytes().to_vec());
        let last = Zone::Compare { column: 1, comparison: Comparison::Equal, value };
        let wanted = [(1, DataType::Text, Value::Null), (4, DataType::Int4, Value::Null)];
        let mut some = reader(segment(), &wanted, std::slice::from_ref(&last), usize::MAX);
        let (rows, columns) = all(&mut some);
        assert!(rows < ROWS as usize / 2, "{rows}");
        assert_eq!(columns[0].last(), Some(&text(ROWS - 1)));
        assert_eq!(columns[1].last(), Some(&number(ROWS - 1)));
        assert_eq!(some.pages_read.value(), 2);
        let value = Bound::Integer(i128::from(ROWS));
        let none = Zone::Compare { column: 4, comparison: Comparison::GreaterOrEqual, value };
        let mut none = reader(segment(), &wanted, &[last, none], usize::MAX);
        assert_eq!((all(&mut none).0, none.pages_read.value()), (0, 0));
    }

    #[test]
    fn rows_are_counted_without_pages() {
        let mut counted = reader(segment(), &[], &[], usize::MAX);
        assert_eq!((all(&mut counted).0, counted.pages_read.value()), (ROWS as usize, 0));
        let wanted = [(4, DataType::Int4, Value::Null)];
        assert_eq!(all(&mut reader(segment(), &wanted, &[], 10)).0, 10);
    }

    #[test]
    fn damage_names_its_place() {
        let mut damaged = segment();
        *damaged.pages[1][0].last_mut().unwrap() ^= 1;
        let mut reader = reader(damaged, &[(4, DataType::Int4, Value::Null)], &[], usize::MAX);
        let problem = reader.next_batch().unwrap_err();
        assert_eq!(problem.state, SqlState::DATA_CORRUPTED);
        let place = "table t: segment 7, column 4, page 0: damaged at byte 60: ";
        assert!(problem.message.starts_with(place), "{}", problem.message);
    }

    #[test]
    fn cancelled_reads_end() {
        let mut reader = reader(segment(), &[], &[], usize::MAX);
        reader.shared.cancel.cancel();
        assert_eq!(reader.next_batch().unwrap_err().state, SqlState::QUERY_CANCELED);
    }
}
