//! Power lost at every write and sync while tables go to shelves and come back: what was
//! acknowledged is there, with its rows, and no tree is left that nothing names.

use super::super::*;
use super::crash::{View, name, open, view};
use crate::mutate::{RowMutation, WriteTime};
use crate::records::{RecordChange, Records};
use crate::schema::FamilySpec;
use crate::shelf::Shelf;
use base::env::sim::SimEnv;
use base::testing::block_on;
use engine::{Durability, Timestamp};
use std::time::Duration;

const BACKUP: &str = "clusters/c/backups/one";
const VIEW: &str = "p/a/authorizedViews/v";
const COPY: &str = "clusters/c/backups/two";
/// Later than the clock of the machine will ever show.
const NEVER: i64 = i64::MAX;

/// Tables with their cells, names on shelves, and names of records.
type Seen = (View, Vec<(Shelf, String)>, Vec<String>);

fn seen(local: &Local) -> Seen {
    let shelf = local.core.shelf.read().keys().cloned().collect();
    let records = local.records("").into_iter().map(|(name, _)| name).collect();
    (view(local), shelf, records)
}

fn write(local: &Local, id: &str, row: &'static str) -> Result<()> {
    let mutation = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::At(Timestamp(1000)),
        value: row.into(),
    };
    let row = RowMutations { row: row.into(), mutations: vec![mutation] };
    block_on(local.mutate_row(&name(id), row))
}

fn create(local: &Local, id: &str) -> Result<()> {
    let table = CreateTable {
        name: name(id),
        families: vec![("f".into(), FamilySpec::default())],
        splits: vec!["m".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    local.core.create_table(table).map(|_| ())
}

/// The changes, one at a time.
fn step(local: &Local, number: usize) -> Option<Result<()>> {
    let core = &local.core;
    let record = |name: &'static str| -> crate::shelf::BackupRecord {
        Box::new(move |copied| RecordChange::put(name, format!("{}", copied.bytes > 0)))
    };
    Some(match number {
        0 => create(local, "a"),
        1 => write(local, "a", "b"),
        2 => write(local, "a", "z"),
        3 => core.change_records(vec![RecordChange::put(VIEW, "a part")]),
        4 => core.back_up_table(&name("a"), BACKUP.into(), NEVER, record(BACKUP)),
        5 => write(local, "a", "later"),
        6 => core.delete_table(&name("a"), AfterDelete::MayComeBack),
        7 => core.undelete_table(&name("a")).map(|_| ()),
        8 => core.delete_table(&name("a"), AfterDelete::MayComeBack),
        9 => create(local, "a"),
        // Replaces the table that was deleted before.
        10 => core.delete_table(&name("a"), AfterDelete::MayComeBack),
        11 => {
            let restored = RecordChange::put("p/r/restoreInfo", "from a backup");
            core.restore_table(BACKUP, name("r"), vec![restored]).map(|_| ())
        }
        12 => core.copy_backup(BACKUP, COPY.into(), NEVER, record(COPY)),
        13 => core.set_backup_expiry(BACKUP, 1, RecordChange::put(BACKUP, "expires")),
        14 => core.drop_expired().map(|_| ()),
        15 => core.undelete_table(&name("a")).map(|_| ()),
        16 => core.delete_table(&name("r"), AfterDelete::Gone),
        17 => core.delete_backup(COPY.into()),
        _ => return None,
    })
}

fn open_keeping(machine: &SimEnv) -> Result<Local> {
    let local = open(machine, Durability::Sync)?;
    local.keep_deleted_for(Duration::from_secs(1_000_000));
    Ok(local)
}

fn cells<'a>(seen: &'a Seen, id: &str) -> &'a [String] {
    &seen.0[name(id).as_str()].1
}

#[test]
fn tables_go_to_shelves_and_come_back_whatever_moment_the_power_is_lost() {
    let machine = SimEnv::new(1);
    let local = open_keeping(&machine).unwrap();
    let mut all = vec![seen(&local)];
    while let Some(done) = step(&local, all.len() - 1) {
        done.unwrap();
        all.push(seen(&local));
    }
    let operations = machine.fs.operations();
    assert_eq!(all[7].2, [BACKUP], "a deleted table shows no records");
    assert_eq!(cells(&all[8], "a").len(), 3, "undeleted with its rows");
    assert_eq!(all[8].2, [BACKUP, VIEW], "and with its records");
    assert_eq!(cells(&all[12], "r").len(), 2, "restored as it was when it was backed up");
    assert_eq!(all[12].2, [BACKUP, "p/r/restoreInfo"]);
    assert_eq!(all[15].1.len(), 2, "the first backup is gone: {:?}", all[15].1);
    assert_eq!(cells(&all[16], "a").len(), 0, "the table that was deleted last came back");
    assert_eq!(all[17].2, [COPY], "records below a deleted table go with it");
    assert_eq!((all[18].1.len(), all[18].2.len()), (0, 0), "nothing is left on a shelf");
    assert!(operations > 100, "{operations}");
    for operation in 1..=operations {
        let machine = SimEnv::new(operation);
        machine.fs.power_off_at(operation);
        let mut acknowledged = 0;
        if let Ok(local) = open_keeping(&machine) {
            while let Some(Ok(())) = step(&local, acknowledged) {
                acknowledged += 1;
            }
        }
        let machine = machine.power_loss();
        let local = open_keeping(&machine)
            .unwrap_or_else(|error| panic!("after a loss at operation {operation}: {error}"));
        let found = seen(&local);
        let allowed = &all[acknowledged..all.len().min(acknowledged + 2)];
        assert!(allowed.contains(&found), "loss at operation {operation}: {found:?}");
        assert_no_orphans(&local);
    }
}

fn assert_no_orphans(local: &Local) {
    let tables = local.core.tables.read();
    let tables = tables.values().map(|table| table.schema.tablets.len()).sum::<usize>();
    let shelf = local.core.shelf.read();
    let shelved = shelf.values().map(|shelved| shelved.schema.tablets.len()).sum::<usize>();
    assert_eq!(local.core.engine.trees().len(), tables + shelved + 1, "no orphan is left");
    assert!(local.core.meta.intents().unwrap().is_empty(), "and no intent");
}

#[test]
fn a_deleted_table_does_not_come_back_when_its_time_is_over_or_its_name_is_taken() {
    let machine = SimEnv::new(1);
    let local = open_keeping(&machine).unwrap();
    create(&local, "a").unwrap();
    local.core.delete_table(&name("a"), AfterDelete::MayComeBack).unwrap();
    create(&local, "a").unwrap();
    let taken = local.core.undelete_table(&name("a")).unwrap_err();
    assert!(matches!(&taken, Error::AlreadyExists { .. }), "{taken}");
    local.core.delete_table(&name("a"), AfterDelete::MayComeBack).unwrap();
    assert_no_orphans(&local);
    assert_eq!(local.core.drop_expired().unwrap(), 0);
    local.keep_deleted_for(Duration::ZERO);
    let over = local.core.undelete_table(&name("a")).unwrap_err();
    assert!(matches!(&over, Error::NotFound { .. }), "{over}");
    assert_eq!(local.core.drop_expired().unwrap(), 1);
    assert_no_orphans(&local);
    // Without time to keep it, a deleted table goes at once.
    create(&local, "a").unwrap();
    local.core.delete_table(&name("a"), AfterDelete::MayComeBack).unwrap();
    assert_eq!(local.core.engine.trees().len(), 1);
}

#[test]
fn compactions_leave_tables_on_shelves_alone() {
    let machine = SimEnv::new(1);
    let local = open_keeping(&machine).unwrap();
    create(&local, "a").unwrap();
    write(&local, "a", "b").unwrap();
    let record: crate::shelf::BackupRecord = Box::new(|_| RecordChange::put(BACKUP, ""));
    local.core.back_up_table(&name("a"), BACKUP.into(), NEVER, record).unwrap();
    local.core.delete_table(&name("a"), AfterDelete::MayComeBack).unwrap();
    let at_rest = |local: &Local| {
        let trees = local.core.engine.trees().into_iter().skip(1);
        trees.map(|tree| local.core.engine.tree(tree).unwrap().is_at_rest()).collect::<Vec<_>>()
    };
    assert_eq!(at_rest(&local), [true; 4]);
    drop(local);
    let local = open_keeping(&machine.power_loss()).unwrap();
    assert_eq!(at_rest(&local), [true; 4]);
    local.core.undelete_table(&name("a")).unwrap();
    local.core.restore_table(BACKUP, name("r"), Vec::new()).unwrap();
    assert_eq!(at_rest(&local), [false, false, true, true, false, false]);
}

/// Returns row and value of the example in docs/format/schema.md.
fn example() -> (Vec<u8>, Vec<u8>) {
    let head = [&[1][..], &9i64.to_le_bytes(), b"\x01\x07p/i/t/x\x02\x08\x01"].concat();
    let table = [
        &[1, 5][..],
        b"p/i/t",
        &[1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0],
        b"\x01\x01\x00\x03raw\x01\x01",
        b"\x01\x00\x10\x00\x00\x00",
    ];
    (b"deleted/p/i/t".to_vec(), [head, table.concat()].concat())
}

#[test]
fn the_record_of_a_deleted_table_is_as_documented() {
    let (row, value) = example();
    let shelved = meta::decode_shelved(&row, &value).unwrap();
    assert_eq!((shelved.name.as_str(), shelved.at_micros), ("p/i/t", 9));
    assert_eq!(shelved.records, [("p/i/t/x".to_owned(), Bytes::from_static(&[8, 1]))]);
    assert!(shelved.schema.deletion_protection && shelved.schema.families.contains_key("raw"));
    assert_eq!(meta::encode_shelved(&shelved), value);
    for end in 0..value.len() {
        assert!(meta::decode_shelved(&row, &value[..end]).is_err(), "cut at {end}");
    }
    let newer = [&[2], &value[1..]].concat();
    let error = meta::decode_shelved(&row, &newer).unwrap_err().to_string();
    assert!(error.contains("use a newer Stele"), "{error}");
    let error = meta::decode_shelved(b"deleted/p/i/u", &value).unwrap_err().to_string();
    assert!(error.contains("belongs to another table"), "{error}");
    assert!(meta::decode_shelved(b"backup/any", &value).is_ok(), "a backup has a name of its own");
}
