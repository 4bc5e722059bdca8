//! The workloads: reads whose answers are known.

use super::AblateArgs;
use super::data::{DataSet, FAMILIES, FAMILY, KEY_BYTES, Opened, PREFIX_BYTES, QUALIFIERS, row};
use bench_core::{KeyKind, SplitMix64};
use engine::{
    ColumnOf, Columns, FamilyId, QualifierRange, Result, RowRange, RowSelection, ScanRequest,
};
use std::hint::black_box;

/// Keys of one multi-get.
const GROUP: usize = 32;
/// Rows read after a seek.
const SEEK_ROWS: u64 = 10;
/// Seeks in a slice, as a share of its reads.
const SEEKS_ONE_IN: u64 = 8;

/// Where the data of a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Warmth {
    /// In memory.
    Cached,
    /// On disk, but for 5 % of it.
    Cold,
}

/// The rows that a slice asks for.
pub(super) struct Questions(Vec<[u8; KEY_BYTES]>);

/// Reads that are done again and again.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) data: DataSet,
    pub(super) warmth: Warmth,
    /// Which rows are asked for.
    kind: KeyKind,
    /// One question for so many reads.
    one_in: u64,
    /// Asks all questions, checks the answers, and gives the number of operations.
    pub(super) run: fn(&Opened, &Questions) -> Result<u64>,
}

const fn workload(
    name: &'static str,
    data: DataSet,
    kind: KeyKind,
    run: fn(&Opened, &Questions) -> Result<u64>,
) -> Workload {
    Workload { name, data, warmth: Warmth::Cached, kind, one_in: 1, run }
}

pub(super) const WORKLOADS: &[Workload] = {
    use DataSet::{Keys, Prefixes, Runs, Wide};
    use KeyKind::{Absent, Present};
    &[
        workload("get-hit", Keys, Present, get_hit),
        workload("get-miss", Keys, Absent, get_miss),
        workload("multi-get-32", Keys, Present, multi_get),
        Workload { one_in: SEEKS_ONE_IN, ..workload("seek-10", Keys, Present, seek) },
        Workload { one_in: u64::MAX, ..workload("scan", Keys, Present, |on, _| scan_all(on)) },
        Workload { warmth: Warmth::Cold, ..workload("cold-get-hit", Keys, Present, get_hit) },
        Workload { warmth: Warmth::Cold, ..workload("cold-get-miss", Keys, Absent, get_miss) },
        Workload {
            warmth: Warmth::Cold,
            ..workload("cold-multi-get-32", Keys, Present, multi_get)
        },
        Workload {
            warmth: Warmth::Cold,
            ..workload("cold-in-flight-32", Keys, Present, get_in_flight)
        },
        Workload {
            warmth: Warmth::Cold,
            one_in: u64::MAX,
            ..workload("cold-scan", Keys, Present, |on, _| scan_all(on))
        },
        workload("wide-column", Wide, Present, wide_column),
        workload("wide-column-miss", Wide, Present, wide_column_miss),
        workload("wide-family", Wide, Present, wide_family),
        workload("wide-row", Wide, Present, wide_row),
        workload("runs-8-hit", Runs, Present, get_hit),
        workload("runs-8-miss", Runs, Absent, get_miss),
        workload("prefix-get", Prefixes, Present, get_hit),
        Workload {
            one_in: SEEKS_ONE_IN,
            ..workload("prefix-scan", Prefixes, Present, prefix_scan)
        },
    ]
};

impl Workload {
    /// Those of a data set.
    pub(super) fn of(data: DataSet, warmth: Warmth) -> impl Iterator<Item = &'static Self> {
        WORKLOADS.iter().filter(move |known| known.data == data && known.warmth == warmth)
    }

    /// What slice number `slice` asks `opened`.
    pub(super) fn questions(&self, args: &AblateArgs, opened: &Opened, slice: u64) -> Questions {
        let count = match self.warmth {
            Warmth::Cached => args.reads / self.one_in,
            Warmth::Cold => args.cold_reads,
        };
        let mut draw = SplitMix64(args.seed ^ slice.wrapping_mul(0x9e37_79b9));
        Questions((0..count).map(|_| row(draw.below(opened.rows), self.kind)).collect())
    }
}

fn column_of(row: &[u8]) -> ColumnOf<'_> {
    ColumnOf { row, family: FAMILY, qualifier: b"" }
}

/// Gets the column that `of` names in each row; all rows have it, or none.
fn get<'q>(
    opened: &Opened,
    questions: &'q Questions,
    of: impl Fn(&'q [u8]) -> ColumnOf<'q>,
    there: bool,
) -> Result<u64> {
    for row in &questions.0 {
        let length = opened.tree.get_with(of(row), None, |_, value| black_box(value).len())?;
        assert_eq!(length.is_some(), there, "every loaded cell is found and no other");
    }
    Ok(questions.0.len() as u64)
}

fn get_hit(opened: &Opened, questions: &Questions) -> Result<u64> {
    get(opened, questions, |row| column_of(row), true)
}

/// Gets of one thread, 32 in flight; all rows have the column.
fn get_in_flight(opened: &Opened, questions: &Questions) -> Result<u64> {
    let mut gets = opened.tree.in_flight(32, None);
    let mut rows = questions.0.iter();
    loop {
        while gets.in_flight() < 32
            && let Some(row) = rows.next()
        {
            gets.submit(0, column_of(row));
        }
        let Some((_, answer)) = gets.wait() else { return Ok(questions.0.len() as u64) };
        assert!(black_box(answer?).is_some(), "every loaded cell is found");
    }
}

fn get_miss(opened: &Opened, questions: &Questions) -> Result<u64> {
    get(opened, questions, |row| column_of(row), false)
}

fn multi_get(opened: &Opened, questions: &Questions) -> Result<u64> {
    for rows in questions.0.chunks(GROUP) {
        let wanted: Vec<_> = rows.iter().map(|row| column_of(row)).collect();
        let mut found = 0;
        opened.tree.multi_get_with(&wanted, None, |_, cell| {
            found += usize::from(black_box(cell).is_some());
        })?;
        assert_eq!(found, rows.len(), "every loaded key is found");
    }
    Ok(questions.0.len() as u64)
}

fn seek(opened: &Opened, questions: &Questions) -> Result<u64> {
    for row in &questions.0 {
        let request = ScanRequest {
            versions_max: Some(1),
            ..ScanRequest::rows(RowRange { start: row.to_vec(), end: None })
        };
        scan(opened, &request, SEEK_ROWS)?;
    }
    Ok(questions.0.len() as u64)
}

/// Reads all rows that share the prefix of each; there is at least that one.
fn prefix_scan(opened: &Opened, questions: &Questions) -> Result<u64> {
    for row in &questions.0 {
        let rows = RowRange::prefix(&row[..usize::from(PREFIX_BYTES)]);
        let request = ScanRequest { versions_max: Some(1), ..ScanRequest::rows(rows) };
        assert!(scan(opened, &request, u64::MAX)? > 0, "a loaded row has its prefix");
    }
    Ok(questions.0.len() as u64)
}

/// Reads everything; gives the number of rows.
pub(super) fn scan_all(opened: &Opened) -> Result<u64> {
    let request = ScanRequest { versions_max: Some(1), ..ScanRequest::default() };
    let rows = scan(opened, &request, u64::MAX)?;
    assert_eq!(rows, opened.rows, "a scan meets every row");
    Ok(rows)
}

fn scan(opened: &Opened, request: &ScanRequest, rows_max: u64) -> Result<u64> {
    let mut scan = opened.tree.scan(request, None)?;
    let mut rows = 0;
    while rows < rows_max && scan.next_row()?.is_some() {
        while let Some(cell) = scan.next_cell()? {
            black_box(cell.value);
        }
        rows += 1;
    }
    Ok(rows)
}

/// The column in the middle of a wide row.
fn middle(row: &[u8]) -> ColumnOf<'_> {
    ColumnOf { row, family: FamilyId(FAMILY.0 + FAMILIES / 2), qualifier: QUALIFIERS[2] }
}

fn wide_column(opened: &Opened, questions: &Questions) -> Result<u64> {
    get(opened, questions, middle, true)
}

fn wide_column_miss(opened: &Opened, questions: &Questions) -> Result<u64> {
    get(opened, questions, |row| ColumnOf { qualifier: b"column-x", ..middle(row) }, false)
}

fn wide_family(opened: &Opened, questions: &Questions) -> Result<u64> {
    let family = QualifierRange::family(middle(b"").family);
    read_rows(opened, questions, &Columns::Ranges(vec![family]), QUALIFIERS.len())
}

fn wide_row(opened: &Opened, questions: &Questions) -> Result<u64> {
    let cells = QUALIFIERS.len() * usize::from(FAMILIES);
    read_rows(opened, questions, &Columns::All, cells)
}

fn read_rows(
    opened: &Opened,
    questions: &Questions,
    columns: &Columns,
    cells: usize,
) -> Result<u64> {
    let selection = RowSelection { versions_max: Some(1), ..RowSelection::of(columns) };
    for row in &questions.0 {
        let lent = opened.tree.read_row_with(row, &selection, None, |cell| {
            black_box(cell.value);
        })?;
        assert_eq!(lent, cells as u64, "a row has all its cells");
    }
    Ok(questions.0.len() as u64)
}
