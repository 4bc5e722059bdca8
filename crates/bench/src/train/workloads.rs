//! The workloads. Each checks what comes back.

use super::session::{Client, FAMILIES, QUALIFIERS, Session, Table, row_key, set_cell};
use crate::AnyError;
use bench_core::{KeyKind, SplitMix64};
use clap::ValueEnum;
use data::read_modify_write_rule::Rule;
use data::read_rows_response::cell_chunk::RowStatus;
use data::row_filter::Filter;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// A kind of work for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// `stele import` of a CSV file.
    BulkImport,
    /// `MutateRows` of 100 rows.
    BatchWrite,
    /// `MutateRow`.
    SingleWrite,
    /// `ReadRows` of one row that is there.
    PointReadHit,
    /// `ReadRows` of one row that is not.
    PointReadMiss,
    /// Of wide rows: the row, one family, one column, in turns.
    WideRow,
    /// Ranges of rows through filters that test names, values and counts.
    Filter,
    /// The whole table.
    Scan,
    /// `CheckAndMutateRow`, both branches.
    CheckAndMutate,
    /// `ReadModifyWriteRow`: appends and increments.
    ReadModifyWrite,
    /// Rows written again and deleted, and the compactions that this causes.
    Compaction,
    /// Writes that are not flushed, a stop, and the start that replays them.
    Recovery,
}

/// Rows of one filtered range.
const RANGE_ROWS: i64 = 50;

impl Workload {
    /// Each of them, in the order of training.
    pub(super) const ALL: [Self; 12] = [
        Self::BulkImport,
        Self::BatchWrite,
        Self::SingleWrite,
        Self::PointReadHit,
        Self::PointReadMiss,
        Self::WideRow,
        Self::Filter,
        Self::Scan,
        Self::CheckAndMutate,
        Self::ReadModifyWrite,
        Self::Compaction,
        Self::Recovery,
    ];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BulkImport => "bulk-import",
            Self::BatchWrite => "batch-write",
            Self::SingleWrite => "single-write",
            Self::PointReadHit => "point-read-hit",
            Self::PointReadMiss => "point-read-miss",
            Self::WideRow => "wide-row",
            Self::Filter => "filter",
            Self::Scan => "scan",
            Self::CheckAndMutate => "check-and-mutate",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Compaction => "compaction",
            Self::Recovery => "recovery",
        }
    }

    /// Does it once; gives the number of operations.
    pub(super) async fn run(self, session: &mut Session) -> Result<u64, AnyError> {
        match self {
            Self::BulkImport => bulk_import(session),
            Self::BatchWrite => session.write(Table::Churn, session.rows, 0).await,
            Self::SingleWrite => single_write(session).await,
            Self::PointReadHit => point_read(session, KeyKind::Present).await,
            Self::PointReadMiss => point_read(session, KeyKind::Absent).await,
            Self::WideRow => wide_row(session).await,
            Self::Filter => filter(session).await,
            Self::Scan => scan(session).await,
            Self::CheckAndMutate => check_and_mutate(session).await,
            Self::ReadModifyWrite => read_modify_write(session).await,
            Self::Compaction => compaction(session).await,
            Self::Recovery => recovery(session).await,
        }
    }
}

fn bulk_import(session: &Session) -> Result<u64, AnyError> {
    let mut csv = "key,name,number,text\n".to_owned();
    for number in 0..session.rows {
        let mut draw = SplitMix64(number);
        let (a, b, c) = (draw.next_u64(), draw.next_u64(), draw.next_u64());
        writeln!(
            csv,
            "row-{:016x},name-{a:x},{},text {b:x} {c:x} {number}",
            draw.next_u64(),
            a % 1000
        )?;
    }
    let file = session.dir.join("import.csv");
    std::fs::write(&file, csv)?;
    let mut import = Command::new(session.server.binary());
    import.arg("import").arg(&file).args(["--key", "key", "--restart"]);
    import.args(["--project", "train", "--instance", "train", "--table", Table::Imported.id()]);
    import.args(["--endpoint", session.server.address()]);
    let done = import.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(session.rows)
}

async fn single_write(session: &Session) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Churn);
    let write = move |mut client: Client, at| {
        let number = asked(at);
        async move {
            let request = data::MutateRowRequest {
                table_name: Table::Churn.name(),
                row_key: row_key(number, KeyKind::Present).into(),
                mutations: Table::Churn.cells(number, 1),
                ..Default::default()
            };
            client.mutate_row(request).await?;
            Ok(())
        }
    };
    session.repeat(session.rows, write).await
}

/// A read of one row, filtered.
fn read_one(table: Table, row: Vec<u8>, filter: Option<Filter>) -> data::ReadRowsRequest {
    data::ReadRowsRequest {
        table_name: table.name(),
        rows: Some(data::RowSet { row_keys: vec![row.into()], row_ranges: vec![] }),
        filter: filter.map(row_filter),
        rows_limit: 1,
        ..Default::default()
    }
}

async fn point_read(session: &Session, kind: KeyKind) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Narrow);
    let read = move |mut client: Client, at| {
        let row = row_key(asked(at), kind);
        async move {
            // As clients do that want the newest value only, on every second read.
            let newest = (at % 2 == 0).then_some(Filter::CellsPerColumnLimitFilter(1));
            let got = read_rows(&mut client, read_one(Table::Narrow, row, newest)).await?;
            let rows = u64::from(kind == KeyKind::Present);
            expect(got, Got { rows, cells: rows })
        }
    };
    session.repeat(session.rows, read).await
}

async fn wide_row(session: &Session) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Wide);
    let read = move |mut client: Client, at| {
        let row = row_key(asked(at), KeyKind::Present);
        async move {
            let family = Filter::FamilyNameRegexFilter(FAMILIES[1].into());
            let qualifier = Filter::ColumnQualifierRegexFilter(QUALIFIERS[2].into());
            let newest = Filter::CellsPerColumnLimitFilter(1);
            let (filter, cells) = match at % 3 {
                0 => (newest, FAMILIES.len() * QUALIFIERS.len()),
                1 => (chain([family, newest]), QUALIFIERS.len()),
                _ => (chain([family, qualifier, newest]), 1),
            };
            let got = read_rows(&mut client, read_one(Table::Wide, row, Some(filter))).await?;
            expect(got, Got { rows: 1, cells: cells as u64 })
        }
    };
    session.repeat(session.rows, read).await
}

/// The filters of ranges, in turns; none lets a row through without a cell.
fn range_filter(at: u64) -> Filter {
    match at % 4 {
        0 => chain([Filter::ValueRegexFilter(r"\C*[a-f]\C*".into()), strip()]),
        1 => Filter::Interleave(data::row_filter::Interleave {
            filters: vec![
                row_filter(Filter::FamilyNameRegexFilter("f|h".into())),
                row_filter(Filter::CellsPerRowLimitFilter(2)),
            ],
        }),
        2 => Filter::ColumnRangeFilter(data::ColumnRange {
            family_name: FAMILIES[1].into(),
            start_qualifier: Some(data::column_range::StartQualifier::StartQualifierClosed(
                QUALIFIERS[1].into(),
            )),
            end_qualifier: Some(data::column_range::EndQualifier::EndQualifierOpen(
                QUALIFIERS[3].into(),
            )),
        }),
        _ => chain([
            Filter::ColumnQualifierRegexFilter("column-[02]".into()),
            Filter::CellsPerRowOffsetFilter(1),
        ]),
    }
}

async fn filter(session: &Session) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Wide);
    let read = move |mut client: Client, at| {
        let start = row_key(asked(at), KeyKind::Present);
        async move {
            let range = data::RowRange {
                start_key: Some(data::row_range::StartKey::StartKeyClosed(start.into())),
                end_key: None,
            };
            let request = data::ReadRowsRequest {
                table_name: Table::Wide.name(),
                rows: Some(data::RowSet { row_keys: vec![], row_ranges: vec![range] }),
                filter: Some(row_filter(range_filter(at))),
                rows_limit: RANGE_ROWS,
                ..Default::default()
            };
            let got = read_rows(&mut client, request).await?;
            match got.rows {
                // The range begins with a row that is there.
                0 if at % 4 != 0 => Err("a filtered range is empty".into()),
                _ => Ok(()),
            }
        }
    };
    session.repeat(session.rows / 20, read).await
}

async fn scan(session: &Session) -> Result<u64, AnyError> {
    let mut rows = 0;
    for table in [Table::Narrow, Table::Wide, Table::Narrow] {
        let request = data::ReadRowsRequest { table_name: table.name(), ..Default::default() };
        let got = read_rows(&mut session.client.clone(), request).await?;
        if got.rows != session.rows_of(table) {
            return Err(format!("a scan of {} gave {} rows", table.id(), got.rows).into());
        }
        rows += got.rows;
    }
    Ok(rows)
}

async fn check_and_mutate(session: &Session) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Wide);
    let check = move |mut client: Client, at| {
        let row = row_key(asked(at), KeyKind::Present);
        async move {
            let there = at % 2 == 0;
            let qualifier = if there { QUALIFIERS[0] } else { "nowhere" };
            let predicate = Filter::ColumnQualifierRegexFilter(qualifier.into());
            let set = |value: &str| vec![set_cell("h", QUALIFIERS[3], value.into())];
            let request = data::CheckAndMutateRowRequest {
                table_name: Table::Wide.name(),
                row_key: row.into(),
                predicate_filter: Some(row_filter(predicate)),
                true_mutations: set("true"),
                false_mutations: set("false"),
                ..Default::default()
            };
            let matched =
                client.check_and_mutate_row(request).await?.into_inner().predicate_matched;
            if matched == there { Ok(()) } else { Err("the wrong branch was taken".into()) }
        }
    };
    session.repeat(session.rows / 2, check).await
}

async fn read_modify_write(session: &Session) -> Result<u64, AnyError> {
    let asked = session.asked(Table::Churn);
    let modify = move |mut client: Client, at| {
        let row = row_key(asked(at), KeyKind::Absent);
        async move {
            let (qualifier, rule) = match at % 2 {
                0 => ("count", Rule::IncrementAmount(1)),
                _ => ("text", Rule::AppendValue("x".into())),
            };
            let rule = data::ReadModifyWriteRule {
                family_name: FAMILIES[2].into(),
                column_qualifier: qualifier.into(),
                rule: Some(rule),
            };
            let request = data::ReadModifyWriteRowRequest {
                table_name: Table::Churn.name(),
                row_key: row.into(),
                rules: vec![rule],
                ..Default::default()
            };
            match client.read_modify_write_row(request).await?.into_inner().row {
                Some(row) if row.families.len() == 1 => Ok(()),
                _ => Err("the changed cell did not come back".into()),
            }
        }
    };
    session.repeat(session.rows / 2, modify).await
}

async fn compaction(session: &Session) -> Result<u64, AnyError> {
    let mut operations = 0;
    for generation in 2..5 {
        operations += session.write(Table::Churn, session.rows, generation).await?;
        let delete = move |mut client: Client, at: u64| async move {
            use data::mutation::{DeleteFromRow, Mutation};
            let delete = Mutation::DeleteFromRow(DeleteFromRow {});
            let request = data::MutateRowRequest {
                table_name: Table::Churn.name(),
                row_key: row_key(at * 10, KeyKind::Present).into(),
                mutations: vec![data::Mutation { mutation: Some(delete) }],
                ..Default::default()
            };
            client.mutate_row(request).await?;
            Ok(())
        };
        operations += session.repeat(session.rows / 10, delete).await?;
        session.server.rest().await?;
    }
    Ok(operations)
}

async fn recovery(session: &mut Session) -> Result<u64, AnyError> {
    let mut operations = 0;
    for generation in 5..8 {
        operations += session.write(Table::Churn, session.rows / 2, generation).await?;
        session.server.restart().await?;
        session.reconnect().await?;
        let read = read_one(Table::Churn, row_key(1, KeyKind::Present), None);
        if read_rows(&mut session.client.clone(), read).await?.rows != 1 {
            return Err("a row is gone after a restart".into());
        }
    }
    Ok(operations)
}

fn row_filter(filter: Filter) -> data::RowFilter {
    data::RowFilter { filter: Some(filter) }
}

fn chain<const N: usize>(filters: [Filter; N]) -> Filter {
    Filter::Chain(data::row_filter::Chain { filters: filters.map(row_filter).into() })
}

fn strip() -> Filter {
    Filter::StripValueTransformer(true)
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Got {
    rows: u64,
    cells: u64,
}

async fn read_rows(client: &mut Client, request: data::ReadRowsRequest) -> Result<Got, AnyError> {
    let mut replies = client.read_rows(request).await?.into_inner();
    let mut got = Got::default();
    while let Some(reply) = replies.message().await? {
        for chunk in &reply.chunks {
            got.rows += u64::from(matches!(chunk.row_status, Some(RowStatus::CommitRow(true))));
            // A value in several pieces says its size in all but the last.
            got.cells += u64::from(chunk.value_size == 0);
        }
    }
    Ok(got)
}

/// Rows must be as many as they should; cells of a row that was written again may be more.
fn expect(got: Got, want: Got) -> Result<(), AnyError> {
    if got.rows == want.rows && got.cells >= want.cells {
        return Ok(());
    }
    Err(format!("a read gave {got:?} and should have given {want:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        let names: Vec<_> =
            Workload::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        assert_eq!(names.len(), Workload::ALL.len());
        for (workload, name) in Workload::ALL.iter().zip(names) {
            assert_eq!(workload.name(), name.get_name());
        }
    }
}
