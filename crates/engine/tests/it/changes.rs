//! Readers of changes that were removed before they came to read. More of changes: the simulation.

use crate::support::{TREE, small};
use base::env::sim::SimEnv;
use engine::internals::Shape;
use engine::{
    ChangePosition, Column, Durability, Engine, Error, FamilyId, Options, ReadUpTo, Timestamp,
    TreeOptions, WriteBatch,
};
use std::path::Path;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn batch(row: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&row.to_be_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(1), &[7; 200]);
    batch
}

#[test]
fn a_reader_whose_first_segment_was_removed_before_it_read_is_told() {
    let machine = SimEnv::new(1);
    let shape = Shape { log_segment_bytes_min: 256, ..Shape::DEFAULT };
    let (durability, log_segment_bytes) = (Durability::Sync, 4 << 10);
    let options = Options { durability, log_segment_bytes, shape, ..small() };
    let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    engine.keep_changes(&[TREE], DAY).unwrap();
    let kept = || engine.metrics().get("change_segments").unwrap();
    let numbers: Vec<_> = (0..100).map(|row| tree.write(&batch(row)).unwrap()).collect();
    tree.flush().unwrap();
    assert!(kept() > 3, "{}", kept());
    let reader = |position| engine.change_reader(&[TREE], position).unwrap();
    let after = |number| ChangePosition { sequence: number, micros: 0 };
    // One begins at the oldest segment, the others in one that they find.
    let positions = [ChangePosition::at(0), after(numbers[0]), after(numbers[50])];
    let mut late = positions.map(reader);
    machine.clock.advance(DAY + Duration::from_secs(1));
    tree.write(&batch(100)).unwrap();
    tree.flush().unwrap();
    assert!(kept() <= 1, "all but what ends with the newest segments");
    for reader in &mut late {
        let told = reader.read(1 << 20, ReadUpTo::Committed);
        assert!(matches!(told, Err(Error::ChangesGone(_))), "{told:?}");
    }
    // Changes removed before a reader was made are no loss of that reader.
    let read = reader(ChangePosition::at(0)).read(1 << 20, ReadUpTo::Committed).unwrap();
    assert!(!read.batches.is_empty());
}
