//! The tables of three nodes, from each of them.

mod faults;
mod same;
mod world;

use table::mutate::WriteTime;
use table::{
    Bytes, CreateTable, FamilySpec, Pieces, ReadRows, ReadStats, Result, Row, RowMutation,
    RowMutations, RowPiece, RowSet, Store, TableName,
};

fn name() -> TableName {
    TableName::new("projects/p/instances/i/tables/t").unwrap()
}

/// Creates the table with families `f` and `g`.
async fn create(store: &impl Store, splits: &[&'static str]) {
    let families = ["f", "g"].map(|name| (name.to_owned(), FamilySpec::default()));
    let table = CreateTable {
        name: name(),
        families: families.into(),
        splits: splits.iter().map(|split| Bytes::from(*split)).collect(),
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    store.create_table(table).await.unwrap();
}

fn set(family: &str, qualifier: &'static str, millis: i64, value: impl Into<Bytes>) -> RowMutation {
    RowMutation::SetCell {
        family: family.to_owned(),
        qualifier: qualifier.into(),
        timestamp: WriteTime::At(table::Timestamp(millis * 1000)),
        value: value.into(),
    }
}

fn row(key: impl Into<Bytes>, mutations: Vec<RowMutation>) -> RowMutations {
    RowMutations { row: key.into(), mutations }
}

fn of_row(key: &'static str) -> ReadRows {
    ReadRows { rows: RowSet::key(key), ..ReadRows::default() }
}

/// Reads all pieces, and the counts at the end.
async fn pieces(store: &impl Store, request: ReadRows) -> Result<(Vec<RowPiece>, ReadStats)> {
    let mut stream = store.read_rows(&name(), request, Pieces::default()).await?;
    let (mut all, mut stats) = (Vec::new(), ReadStats::default());
    while let Some(batch) = stream.next_batch().await {
        let batch = batch?;
        all.extend(batch.rows);
        stats = batch.stats;
    }
    Ok((all, stats))
}

async fn rows(store: &impl Store, request: ReadRows) -> Result<Vec<Row>> {
    store.read_rows(&name(), request, Pieces::default()).await?.collect_rows().await
}

async fn keys(store: &impl Store) -> Result<Vec<Bytes>> {
    Ok(rows(store, ReadRows::default()).await?.into_iter().map(|row| row.key).collect())
}
