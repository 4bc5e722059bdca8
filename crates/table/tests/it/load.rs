//! Bulk loads through the table layer.

use crate::harness::{Harness, set};
use engine::IngestOptions;
use table::*;

fn row(key: &str, mutations: Vec<RowMutation>) -> RowMutations {
    RowMutations { row: Bytes::copy_from_slice(key.as_bytes()), mutations }
}

fn refused(result: Result<()>, text: &str) {
    match result {
        Err(Error::InvalidArgument { field, message }) => {
            assert!(format!("{field}: {message}").contains(text), "{field}: {message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_load_is_seen_in_all_tablets_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f", "g"], &["h", "p"]).await;
    t.mutate("b", vec![set("f", "old", 1, "kept")]).await.unwrap();
    let mut load = t.local.load(&t.name, &IngestOptions::default()).unwrap();
    for key in ["a", "b", "i", "q", "z"] {
        // In any order within the row; of equal cells the later one counts.
        let cells = vec![
            set("g", "x", 1, "one"),
            set("f", "y", 2, "first"),
            set("f", "y", 3, "newer"),
            set("f", "y", 2, "last"),
        ];
        load.add(&row(key, cells)).unwrap();
    }
    let loaded = load.finish().unwrap();
    assert_eq!((loaded.rows(), loaded.cells(), loaded.files()), (5, 15, 3));
    assert_eq!(t.dump().await, "b f:old@1=kept\n");
    t.local.install(loaded).await.unwrap();
    let mut want = String::new();
    for key in ["a", "b", "i", "q", "z"] {
        if key == "b" {
            want += "b f:old@1=kept\n";
        }
        want += &format!("{key} f:y@3=newer\n{key} f:y@2=last\n{key} g:x@1=one\n");
    }
    assert_eq!(t.dump().await, want);
    drop(t);
    assert_eq!(Harness::open(dir.path()).dump().await, want);
}

#[tokio::test]
async fn what_cannot_be_loaded_is_refused_by_name_and_the_load_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    let sum =
        FamilySpec { value_type: ValueType::Aggregate(Aggregate::SumInt64), ..Default::default() };
    let families = vec![("f".to_owned(), FamilySpec::default()), ("sum".to_owned(), sum)];
    t.create_with(families, &[]).await;
    let mut load = t.local.load(&t.name, &IngestOptions::default()).unwrap();
    load.add(&row("m", vec![set("f", "q", 1, "v")])).unwrap();
    for key in ["m", "a"] {
        let text = format!("row \"{key}\" does not come after row \"m\"");
        refused(load.add(&row(key, vec![set("f", "q", 1, "v")])), &text);
    }
    refused(load.add(&row("", vec![set("f", "q", 1, "v")])), "row_key");
    refused(load.add(&row(&"n".repeat(5000), vec![set("f", "q", 1, "v")])), "4096");
    refused(load.add(&row("n", vec![])), "at least one cell");
    refused(load.add(&row("n", vec![RowMutation::DeleteFromRow])), "only cells");
    refused(load.add(&row("n", vec![set("sum", "q", 1, "v")])), "aggregate");
    let long = "q".repeat((16 << 10) + 1);
    refused(load.add(&row("n", vec![set("f", &long, 1, "v")])), "16384");
    let missing = load.add(&row("n", vec![set("none", "q", 1, "v")]));
    assert!(matches!(missing, Err(Error::NotFound { what: "column family", .. })), "{missing:?}");
    load.add(&row("n", vec![set("f", "q", 1, "w")])).unwrap();
    let loaded = load.finish().unwrap();
    t.local.install(loaded).await.unwrap();
    assert_eq!(t.dump().await, "m f:q@1=v\nn f:q@1=w\n");
    let unknown = TableName::new("projects/p/instances/i/tables/other").unwrap();
    let none = t.local.load(&unknown, &IngestOptions::default()).map(|_| ());
    assert!(matches!(none, Err(Error::NotFound { what: "table", .. })), "{none:?}");
}

#[tokio::test]
async fn a_load_into_a_table_that_is_deleted_meanwhile_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    let mut load = t.local.load(&t.name, &IngestOptions::default()).unwrap();
    load.add(&row("a", vec![set("f", "q", 1, "v")])).unwrap();
    let loaded = load.finish().unwrap();
    t.local.delete_table(&t.name).await.unwrap();
    let installed = t.local.install(loaded).await;
    assert!(matches!(installed, Err(Error::NotFound { what: "table", .. })), "{installed:?}");
    let nothing = t.engine.metrics().get("level_runs{level=\"2\"}");
    assert_eq!(nothing, Some(0));
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(names.filter(|path| path.extension().is_some_and(|ext| ext == "sst")).count(), 0);
}

/// A family of the same name is another one: its cells would be seen by nobody.
#[tokio::test]
async fn a_load_into_a_family_that_was_dropped_since_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f", "g"], &[]).await;
    let load = |family: &str| {
        let mut load = t.local.load(&t.name, &IngestOptions::default()).unwrap();
        load.add(&row("a", vec![set(family, "q", 1, "v")])).unwrap();
        load.finish().unwrap()
    };
    let (into_f, into_g) = (load("f"), load("g"));
    let spec = FamilySpec::default();
    let changes = vec![
        FamilyChange::Drop { name: "f".into() },
        FamilyChange::Create { name: "f".into(), spec },
    ];
    t.local.modify_families(&t.name, changes).await.unwrap();
    match t.local.install(into_f).await {
        Err(Error::FailedPrecondition(text)) => assert!(text.contains("family f"), "{text}"),
        other => panic!("{other:?}"),
    }
    t.local.install(into_g).await.unwrap();
    t.local.install(load("f")).await.unwrap();
    assert_eq!(t.dump().await, "a g:q@1=v\na f:q@1=v\n");
}

#[tokio::test]
async fn a_load_into_a_table_that_was_deleted_since_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let t = Harness::open(dir.path());
    t.create(&["f"], &[]).await;
    let load = || {
        let mut load = t.local.load(&t.name, &IngestOptions::default()).unwrap();
        load.add(&row("a", vec![set("f", "q", 1, "v")])).unwrap();
        load.finish().unwrap()
    };
    let (gone, anew) = (load(), load());
    t.local.delete_table(&t.name).await.unwrap();
    let refused = t.local.install(gone).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    t.create(&["f"], &[]).await;
    let refused = t.local.install(anew).await;
    assert!(matches!(refused, Err(Error::FailedPrecondition(_))), "{refused:?}");
    t.local.install(load()).await.unwrap();
    assert_eq!(t.dump().await, "a f:q@1=v\n");
}
