//! A store with a clock that tests set, and short forms for requests.

use base::env::{Clock, Env};
use engine::{Durability, Engine, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use table::mutate::{Modify, WriteTime};
use table::*;

/// Stands still unless a test sets it. Starts at one second.
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn at(micros: i64) -> Self {
        Self(AtomicI64::new(micros))
    }

    pub(crate) fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for TestClock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now_micros() as u64)
    }
}

/// An open store and what it stands on.
pub(crate) struct Harness {
    pub(crate) local: Local,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) name: TableName,
}

impl Harness {
    /// A store in `dir`, without tables if the directory is new.
    pub(crate) fn open(dir: &Path) -> Self {
        let clock = Arc::new(TestClock::at(1_000_000));
        let env = Env { clock: clock.clone(), ..Env::real(1) };
        let options = Options { durability: Durability::None, ..Options::default() };
        let (engine, local) = super::open_store(env, dir, options);
        let name = TableName::new("projects/p/instances/i/tables/t").unwrap();
        Self { local, engine, clock, name }
    }

    /// Creates the table with raw families.
    pub(crate) async fn create(&self, families: &[&str], splits: &[&'static str]) {
        let families = families.iter().map(|name| (name.to_string(), FamilySpec::default()));
        self.create_with(families.collect(), splits).await;
    }

    pub(crate) async fn create_with(
        &self,
        families: Vec<(String, FamilySpec)>,
        splits: &[&'static str],
    ) {
        let table = CreateTable {
            name: self.name.clone(),
            families,
            splits: splits.iter().map(|split| Bytes::from(*split)).collect(),
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        self.local.create_table(table).await.unwrap();
    }

    pub(crate) async fn mutate(&self, row: &str, mutations: Vec<RowMutation>) -> Result<()> {
        let row = Bytes::copy_from_slice(row.as_bytes());
        self.local.mutate_row(&self.name, RowMutations { row, mutations }).await
    }

    pub(crate) async fn read(&self, request: ReadRows) -> Result<Vec<Row>> {
        self.local.read_rows(&self.name, request, Pieces::default()).await?.collect_rows().await
    }

    /// Every row as text.
    pub(crate) async fn dump(&self) -> String {
        show(&self.read(ReadRows::default()).await.unwrap())
    }

    pub(crate) async fn increment(&self, row: &str, amount: i64) -> Result<Row> {
        self.modify(row, Modify::Increment(amount)).await
    }

    pub(crate) async fn modify(&self, row: &str, modify: Modify) -> Result<Row> {
        let rule = ReadModifyWriteRule { family: "f".into(), qualifier: "q".into(), modify };
        let row = Bytes::copy_from_slice(row.as_bytes());
        self.local.read_modify_write_row(&self.name, row, vec![rule]).await
    }
}

/// `family:qualifier` at a timestamp in milliseconds.
pub(crate) fn set(family: &str, qualifier: &str, millis: i64, value: &str) -> RowMutation {
    RowMutation::SetCell {
        family: family.into(),
        qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
        timestamp: WriteTime::At(Timestamp(millis * 1000)),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

/// Rows as text: one line a cell, `row family:qualifier@millis=value label`.
pub(crate) fn show(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        for cell in &row.cells {
            out += &format!(
                "{} {}:{}@{}={}",
                row.key.escape_ascii(),
                cell.family,
                cell.qualifier.escape_ascii(),
                cell.timestamp.0 as f64 / 1000.0,
                cell.value.escape_ascii()
            );
            if let Some(label) = &cell.label {
                out += &format!(" [{label}]");
            }
            out.push('\n');
        }
    }
    out
}
