//! Rows that go on over the end of an index partition: what a file is passed over for must hold for
//! all of the row.

use super::*;

/// What a get, a get of many and a get in flight give of a column of family 1, as timestamps.
fn newest(tree: &Tree, row: &[u8], qualifier: &[u8]) -> [Option<Timestamp>; 3] {
    let of = ColumnOf { row, family: FamilyId(1), qualifier };
    let alone = tree.get(of, None).unwrap().map(|(timestamp, _)| timestamp);
    let mut of_many = None;
    let mut note = |cell: Option<(Timestamp, &[u8])>| of_many = cell.map(|cell| cell.0);
    tree.multi_get_with(&[of], None, |_, cell| note(cell)).unwrap();
    let mut gets = tree.in_flight(1, None);
    gets.submit(0, of);
    let in_flight = gets.wait().unwrap().1.unwrap().map(|(timestamp, _)| timestamp);
    [alone, of_many, in_flight]
}

/// An older file has `b:z` at 10, in the partition after the one in which `b` begins; that one has
/// nothing that new. A newer file has `b:z` at 5. The newer file's part of the row is simple, or has
/// a tombstone. The rows before `b` move the end of the partition through it.
#[test]
fn a_newer_cell_behind_the_end_of_a_partition_is_found() {
    for fillers in 246..=256u32 {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine_of_small_blocks(dir.path());
        let tree = engine.tree(TREE).unwrap();
        let mut older = WriteBatch::new();
        for filler in 0..fillers {
            let row = [b"a".as_slice(), &filler.to_be_bytes()].concat();
            older.put(&row, Column::of(FamilyId(1), b"q"), Timestamp(0), &[7; 900]);
        }
        for row in [b"b", b"c"] {
            for column in 0..10u8 {
                let column = [b'c', column];
                older.put(row, Column::of(FamilyId(1), &column), Timestamp(0), &[7; 400]);
            }
            older.put(row, Column::of(FamilyId(1), b"z"), Timestamp(10), b"newest");
        }
        engine.tree(TREE).unwrap().write(&older).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
        let mut newer = WriteBatch::new();
        for row in [b"b", b"c"] {
            newer.put(row, Column::of(FamilyId(1), b"z"), Timestamp(5), b"older");
        }
        newer.delete_column(b"c", FamilyId(1), b"c\0");
        engine.tree(TREE).unwrap().write(&newer).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
        for row in [b"b", b"c"] {
            let case = format!("{fillers} rows before, row {}", row.escape_ascii());
            assert_eq!(newest(&tree, row, b"z"), [Some(Timestamp(10)); 3], "{case}");
        }
    }
}

fn engine_of_small_blocks(dir: &std::path::Path) -> Engine {
    let options =
        Options { durability: Durability::None, memory_bytes_max: 4 << 20, ..Options::default() };
    let engine = Engine::open_with_env(Env::real(1), dir, options).unwrap();
    let tree = TreeOptions {
        block_bytes: 1 << 10,
        compression: crate::options::Compression::None,
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, tree).unwrap();
    engine
}
