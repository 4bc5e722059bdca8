//! The key-value API.

use crate::support::small;
use engine::kv::{Kv, KvBatch};
use engine::{Direction, RowRange};

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

#[test]
fn ranges_walk_both_ways_and_snapshots_stay() {
    let dir = tempfile::tempdir().unwrap();
    let kv = Kv::open(dir.path(), small()).unwrap();
    for n in 0..2_000u32 {
        kv.put(&number(n), &[7; 100]).unwrap();
    }
    let before = kv.snapshot();
    let mut batch = KvBatch::default();
    batch.delete_range(&number(500), Some(&number(1_500)));
    batch.put(&number(700), b"back");
    kv.write(&batch).unwrap();
    kv.engine().tree(engine::TreeId(1)).unwrap().compact_range(&RowRange::ALL).unwrap();

    let keys = |direction, snapshot| {
        let range = kv.range_at(RowRange::ALL, direction, snapshot);
        range.map(|item| item.unwrap().0).collect::<Vec<_>>()
    };
    let forward = keys(Direction::Forward, None);
    assert_eq!(forward.len(), 1_001);
    let mut reverse = keys(Direction::Reverse, None);
    reverse.reverse();
    assert_eq!(forward, reverse);
    assert_eq!(keys(Direction::Forward, Some(&before)).len(), 2_000);
    assert_eq!(kv.get(&number(700)).unwrap().as_deref(), Some(&b"back"[..]));
    assert_eq!(kv.get(&number(701)).unwrap(), None);
    assert!(kv.get_at(&number(701), Some(&before)).unwrap().is_some());
}
