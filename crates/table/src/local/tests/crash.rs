//! Power lost at every write and sync while the schema changes: what was acknowledged is there,
//! what was under way happened or did not, and the store always opens.

use super::super::read::Reader;
use super::super::*;
use crate::gc::GcRule;
use crate::mutate::{RowMutation, WriteTime};
use crate::row::RowPiece;
use crate::row_output::Pieces;
use crate::schema::FamilySpec;
use base::env::sim::SimEnv;
use base::testing::block_on;
use engine::{Direction, Durability, Options, RowRange, Timestamp};
use std::path::Path;

/// Visible state of the store: families of each table, and its cells.
pub(super) type View = BTreeMap<String, (Vec<(String, GcRule, u16)>, Vec<String>)>;

pub(super) fn open(machine: &SimEnv, durability: Durability) -> Result<Local> {
    let options = Options {
        durability,
        memtable_bytes_max: 64 << 10,
        memory_bytes_max: 4 << 20,
        cache_bytes_max: Some(1 << 20),
        log_segment_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = Engine::open_with_env(machine.env(), Path::new("data"), options)?;
    Local::open(engine, machine.env().clock)
}

pub(super) fn name(id: &str) -> TableName {
    TableName::new(format!("p/{id}")).unwrap()
}

/// The changes, one at a time.
fn step(local: &Local, number: usize) -> Option<Result<()>> {
    let create = |id: &str, families: &[&str]| {
        let families = families.iter().map(|f| (f.to_string(), FamilySpec::default())).collect();
        let splits = vec!["m".into()];
        let table = CreateTable {
            name: name(id),
            families,
            splits,
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        local.core.create_table(table).map(|_| ())
    };
    let write = |id: &str, row: &'static str, family: &str| {
        let mutation = RowMutation::SetCell {
            family: family.into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(1000)),
            value: row.into(),
        };
        let row = RowMutations { row: row.into(), mutations: vec![mutation] };
        block_on(local.mutate_row(&name(id), row))
    };
    let modify = |id: &str, changes: Vec<FamilyChange>| {
        local.core.modify_families(&name(id), changes).map(|_| ())
    };
    let family = |name: &str| FamilyChange::Create {
        name: name.into(),
        spec: FamilySpec { gc: GcRule::MaxVersions(3), ..FamilySpec::default() },
    };
    let drop = |name: &str| FamilyChange::Drop { name: name.into() };
    Some(match number {
        0 => create("a", &["f", "g"]),
        1 => write("a", "b", "f"),
        2 => write("a", "z", "g"),
        3 => modify("a", vec![drop("f"), family("f")]),
        4 => create("b", &["f"]),
        5 => write("b", "r", "f"),
        6 => write("a", "b", "f"),
        7 => local.core.delete_table(&name("b"), AfterDelete::MayComeBack),
        8 => create("b", &["x"]),
        9 => modify("b", vec![family("y"), drop("x")]),
        10 => write("b", "n", "y"),
        11 => local.core.delete_table(&name("a"), AfterDelete::MayComeBack),
        _ => return None,
    })
}

pub(super) fn view(local: &Local) -> View {
    let mut view = View::new();
    let tables: Vec<_> = local.core.tables.read().values().cloned().collect();
    for table in tables {
        let schema = Arc::clone(&table.schema);
        let families = schema.families.values();
        let families = families.map(|f| (f.name.to_string(), f.gc.clone(), f.id.0)).collect();
        let plan = Arc::new(Plan::compile(None, &schema, &local.core.shape).unwrap());
        let all = [RowRange::ALL];
        let mut reader = Reader::new(&local.core, table, plan, &all, Direction::Forward, 0);
        let mut cells = Vec::new();
        loop {
            let filled = reader.fill(&mut Pieces::default()).unwrap();
            let pieces = filled.batch.into_iter().flat_map(|batch| batch.rows);
            cells.extend(pieces.filter_map(|piece| match piece {
                RowPiece::Cell(cell) => Some(format!("{}={:?}", cell.family, cell.value)),
                _ => None,
            }));
            if filled.done {
                break;
            }
        }
        view.insert(schema.name.to_string(), (families, cells));
    }
    view
}

/// What the store shows before the first change and after each, on a machine that works; and how
/// many operations of its disk that took.
fn history(durability: Durability) -> (Vec<View>, u64) {
    let machine = SimEnv::new(1);
    let local = open(&machine, durability).unwrap();
    let mut views = vec![view(&local)];
    while let Some(done) = step(&local, views.len() - 1) {
        done.unwrap();
        views.push(view(&local));
    }
    (views, machine.fs.operations())
}

/// A machine after a power loss at `operation`, and how many changes it had acknowledged.
fn crashed(operation: u64, durability: Durability) -> (SimEnv, usize) {
    let machine = SimEnv::new(operation);
    machine.fs.power_off_at(operation);
    let mut acknowledged = 0;
    if let Ok(local) = open(&machine, durability) {
        while let Some(Ok(())) = step(&local, acknowledged) {
            acknowledged += 1;
        }
    }
    (machine.power_loss(), acknowledged)
}

#[test]
fn schema_changes_survive_a_power_loss_at_any_moment() {
    let (views, operations) = history(Durability::Sync);
    assert!(operations > 60, "{operations}");
    for operation in 1..=operations {
        let (machine, acknowledged) = crashed(operation, Durability::Sync);
        let local = open(&machine, Durability::Sync)
            .unwrap_or_else(|error| panic!("after a loss at operation {operation}: {error}"));
        let found = view(&local);
        let allowed = &views[acknowledged..views.len().min(acknowledged + 2)];
        assert!(
            allowed.contains(&found),
            "loss at operation {operation}: {found:?}\nis none of {allowed:?}"
        );
        let tables: Vec<_> = local.core.tables.read().values().cloned().collect();
        let named = tables.iter().map(|table| table.schema.tablets.len()).sum::<usize>();
        assert_eq!(local.core.engine.trees().len(), named + 1, "no orphan is left");
        assert!(local.core.meta.intents().unwrap().is_empty(), "and no intent");
        // And it goes on: a new table is as good as any.
        let table = CreateTable {
            name: name("later"),
            families: vec![],
            splits: vec![],
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        local.core.create_table(table).unwrap();
    }
}

#[test]
fn an_unsynced_log_loses_no_schema() {
    let schema = |view: &View| -> Vec<_> {
        view.iter().map(|(name, (families, _))| (name.clone(), families.clone())).collect()
    };
    let (views, operations) = history(Durability::None);
    for operation in 1..=operations {
        let (machine, acknowledged) = crashed(operation, Durability::None);
        let local = open(&machine, Durability::None)
            .unwrap_or_else(|error| panic!("after a loss at operation {operation}: {error}"));
        let found = schema(&view(&local));
        let mut allowed = views[acknowledged..views.len().min(acknowledged + 2)].iter();
        assert!(allowed.any(|view| schema(view) == found), "loss at {operation}: {found:?}");
    }
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    let machine = SimEnv::new(1);
    let local = open(&machine, Durability::Sync).unwrap();
    step(&local, 0).unwrap().unwrap();
    let write = |value: &str| {
        let mutation = RowMutation::SetCell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(1000)),
            value: Bytes::copy_from_slice(value.as_bytes()),
        };
        let row = RowMutations { row: "b".into(), mutations: vec![mutation] };
        block_on(local.mutate_row(&name("a"), row))
    };
    write("kept").unwrap();
    machine.fs.set_capacity(machine.fs.used());
    let large = "x".repeat(200 << 10);
    let error = write(&large).unwrap_err();
    assert!(matches!(error, Error::ResourceExhausted(_)), "{error}");
    assert_eq!(view(&local)["p/a"].1, ["f=b\"kept\""]);
    machine.fs.set_capacity(u64::MAX);
    write("again").unwrap();
    assert_eq!(view(&local)["p/a"].1, ["f=b\"again\""]);
}
