//! Many tables, and large requests (docs/limits.md). `STELE_LIMITS=1` takes the whole sizes and
//! prints what they took.

use crate::harness::{Harness, set};
use std::time::Instant;
use table::*;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn name(number: u32) -> TableName {
    TableName::new(format!("projects/p/instances/i{}/tables/t{number:06}", number % 10)).unwrap()
}

#[tokio::test]
async fn a_hundred_thousand_tables() {
    let whole = std::env::var_os("STELE_LIMITS").is_some();
    let tables: u32 = if whole { 100_000 } else { 200 };
    let took = |what: &str, since: Instant| {
        if whole {
            let (seconds, mib) = (since.elapsed().as_secs_f64(), resident_kib() >> 10);
            println!("{tables} tables, {what}: {seconds:.2} s, {mib} MiB resident");
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    let before = resident_kib();
    let start = Instant::now();
    for number in 0..tables {
        let families = vec![("f".to_owned(), FamilySpec::default())];
        let table = CreateTable {
            name: name(number),
            families,
            splits: Vec::new(),
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        t.local.create_table(table).await.unwrap();
    }
    took("created", start);
    let per_table = resident_kib().saturating_sub(before) * 1024 / u64::from(tables);
    if whole {
        println!("{per_table} bytes resident a table");
    }
    let start = Instant::now();
    let count = |prefix: &'static str| async { t.local.list_tables(prefix).await.unwrap().len() };
    assert_eq!(count("").await, tables as usize);
    assert_eq!(count("projects/p/instances/i3/").await, tables as usize / 10);
    assert_eq!(count("projects/other/").await, 0);
    took("listed", start);
    let again = t.local.create_table(CreateTable {
        name: name(7),
        families: Vec::new(),
        splits: Vec::new(),
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    });
    assert!(matches!(again.await, Err(Error::AlreadyExists { .. })));
    let row = RowMutations { row: "r".into(), mutations: vec![set("f", "q", 1, "v")] };
    t.local.mutate_row(&name(tables - 1), row).await.unwrap();
    t.local.delete_table(&name(3)).await.unwrap();
    drop(t);
    let start = Instant::now();
    let t = Harness::open(dir.path());
    took("opened", start);
    assert_eq!(t.local.list_tables("").await.unwrap().len(), tables as usize - 1);
    assert!(t.local.get_table(&name(3)).await.is_err());
    let last = name(tables - 1);
    let rows = t.local.read_rows(&last, ReadRows::default(), Pieces::default());
    assert_eq!(rows.await.unwrap().collect_rows().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_request_of_a_hundred_thousand_mutations_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    let mut cells: Vec<RowMutation> =
        (0..100_000).map(|at| set("f", &format!("{at:06}"), 1, "v")).collect();
    t.mutate("wide", cells.clone()).await.unwrap();
    let rows = t.read(ReadRows::default()).await.unwrap();
    assert_eq!((rows.len(), rows[0].cells.len()), (1, 100_000));
    cells.push(set("f", "one more", 1, "v"));
    match t.mutate("wide", cells).await {
        Err(Error::InvalidArgument { field, message }) => {
            assert_eq!(field, "mutations");
            assert!(message.contains("100001") && message.contains("100000"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_value_of_100_mib_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    let largest = "v".repeat(100 << 20);
    t.mutate("large", vec![set("f", "q", 1, &largest)]).await.unwrap();
    let rows = t.read(ReadRows::default()).await.unwrap();
    assert!(rows[0].cells[0].value == largest.as_bytes());
    drop(rows);
    match t.mutate("large", vec![set("f", "q", 1, &(largest + "v"))]).await {
        Err(Error::InvalidArgument { message, .. }) => {
            assert!(message.contains("104857601") && message.contains("104857600"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_row_of_a_million_columns() {
    let columns = if std::env::var_os("STELE_LIMITS").is_some() { 1_000_000 } else { 20_000 };
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    for part in 0..10 {
        let columns = part * columns / 10..(part + 1) * columns / 10;
        let cells = columns.map(|at| set("f", &format!("{at:07}"), 1, &at.to_string()));
        t.mutate("wide", cells.collect()).await.unwrap();
    }
    let read = async |t: &Harness| {
        let rows = t.read(ReadRows::default()).await.unwrap();
        assert_eq!((rows.len(), rows[0].cells.len()), (1, columns));
        for (at, cell) in rows[0].cells.iter().enumerate() {
            assert_eq!(cell.qualifier, format!("{at:07}").as_bytes());
            assert_eq!(cell.value, at.to_string().as_bytes());
        }
    };
    read(&t).await;
    drop(t);
    read(&Harness::open(dir.path())).await;
}

/// A read holds a snapshot for as long as its client takes.
#[tokio::test]
async fn sixty_four_reads_held_open_each_see_their_time() {
    const ROWS: usize = 16;
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    // So large that no read has all of it when it begins.
    let value = |round: u8| char::from(b'0' + round).to_string().repeat(130_000);
    let write = async |row: usize, round: u8| {
        t.mutate(&format!("{row:02}"), vec![set("f", "q", 1, &value(round))]).await.unwrap();
    };
    for row in 0..ROWS {
        write(row, 0).await;
    }
    let (mut now, mut reads) = (vec![0u8; ROWS], Vec::new());
    for round in 1..=64 {
        let read = t.local.read_rows(&t.name, ReadRows::default(), Pieces::default());
        reads.push((read.await.unwrap(), now.clone()));
        let row = usize::from(round) * 7 % ROWS;
        write(row, round).await;
        now[row] = round;
        if round % 16 == 0 {
            let engine = t.engine.clone();
            let tree = t.local.get_table(&t.name).await.unwrap().tablets[0].tree;
            tokio::task::spawn_blocking(move || {
                engine.tree(tree).and_then(|tree| tree.compact_range(&engine::RowRange::ALL))
            })
            .await
            .unwrap()
            .unwrap();
        }
    }
    // Those that began last end first.
    for (read, then) in reads.into_iter().rev() {
        let rows = read.collect_rows().await.unwrap();
        let seen: Vec<u8> = rows.iter().map(|row| row.cells[0].value[0] - b'0').collect();
        assert_eq!(seen, then);
        assert!(rows.iter().all(|row| row.cells.len() == 1));
    }
}
