#![no_main]

use std::sync::LazyLock;
use table::mutate::WriteTime;
use table::{
    Bytes, CreateTable, FamilySpec, Local, RowMutation, RowMutations, Store, TableName, Timestamp,
};

/// A small table, kept for the whole run.
struct Fixture {
    runtime: tokio::runtime::Runtime,
    store: Local,
    table: TableName,
    _dir: tempfile::TempDir,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let env = base::env::Env::real(1);
    let clock = env.clock.clone();
    let engine =
        engine::Engine::open_with_env(env, dir.path(), engine::Options::default()).unwrap();
    let store = Local::open(engine, clock).unwrap();
    let table = TableName::new("fuzz").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let families = ["f", "g"].map(|name| (name.to_owned(), FamilySpec::default()));
        let create = CreateTable {
            name: table.clone(),
            families: families.into(),
            splits: Vec::new(),
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        store.create_table(create).await.unwrap();
        for row in ["r1", "r22"] {
            let cell = |family: &str, qualifier: &'static str, micros, value: &'static [u8]| {
                RowMutation::SetCell {
                    family: family.into(),
                    qualifier: qualifier.into(),
                    timestamp: WriteTime::At(Timestamp(micros)),
                    value: Bytes::from_static(value),
                }
            };
            let mutations = vec![
                cell("f", "", 1_000, b"abc"),
                cell("f", "q\0", 3_000, b"\xff\n"),
                cell("f", "q\0", 2_000, b""),
                cell("g", "q", 0, b"z"),
            ];
            let row = RowMutations { row: row.into(), mutations };
            store.mutate_row(&table, row).await.unwrap();
        }
    });
    Fixture { runtime, store, table, _dir: dir }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let fixture = &*FIXTURE;
    let read = bigtable::fuzz::row_filter(&fixture.store, &fixture.table, data);
    fixture.runtime.block_on(read);
});
