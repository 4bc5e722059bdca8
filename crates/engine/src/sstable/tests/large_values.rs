//! Hints to large values: one each, behind the data block, wherever other entries lie between.

use super::super::block::CellValue;
use super::*;
use crossbeam_epoch as epoch;

#[test]
fn each_large_value_has_a_hint_that_a_read_sets() {
    let options = SstOptions { large_value_bytes: 256, ..options() };
    let cell = |number: u64| match number % 5 {
        0 => entry_of(Column::ROW, 9, number, Kind::Tombstone, &3i64.to_le_bytes()),
        1 | 3 => put(1, b"q", 5, number, &vec![number as u8; 300]),
        _ => put(1, b"q", 5, number, b"small"),
    };
    let mixed: Rows =
        (1..200u64).map(|number| (number.to_be_bytes().to_vec(), vec![cell(number)])).collect();
    let only_large: Rows =
        mixed.iter().filter(|(_, cells)| cells[0].value.len() > 256).cloned().collect();
    for rows in [mixed, only_large] {
        let sst = open(build(&rows, &[], &options).0).unwrap();
        assert_eq!(read_all(&sst).unwrap(), rows);
        let index = sst.index(0, CacheFill::Insert).unwrap();
        let pinned = epoch::pin();
        let mut large_values = 0;
        for block in 0..index.view().blocks() {
            let data = sst.data(&index, block, CacheFill::Insert).unwrap();
            let view = data.view();
            let mut of_block = 0;
            for cell in 0..view.cells() {
                let CellValue::Large(large) = view.value(cell) else { continue };
                of_block += 1;
                let hint = data.hint_of_large_value(cell);
                let found = sst.cache().look(sst.key(large.handle), hint, &pinned);
                let found = found.expect("the read has set its hint and no other's");
                assert_eq!(found.bytes, vec![view.sequence(cell).0 as u8; 300]);
            }
            assert_eq!(data.0.get().hints.len(), of_block, "no hint is for nothing");
            large_values += of_block as u64;
        }
        assert!(index.view().blocks() > 1);
        assert_eq!(large_values, sst.properties().large_values);
    }
}
