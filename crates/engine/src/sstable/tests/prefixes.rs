//! Row prefixes: no row of a range is missed by the filter's keys of prefixes, and the prefix index
//! leads where the plain search does.

use super::*;
use proptest::prelude::*;

/// Files of several partitions: `count` rows, of which about `per_prefix` share a prefix of four
/// bytes, and now and then one that is too wide for a block or shorter than a prefix.
fn rows(count: u32, per_prefix: u32) -> Rows {
    let mut rows = Rows::new();
    for at in 0..count {
        let row = [&(at / per_prefix * 3).to_be_bytes()[..], &at.to_be_bytes()].concat();
        let columns = if at % 997 == 5 { 60 } else { 1 };
        let entries = (0..columns).map(|column| put(1, &[column], 1, 0, &[7; 100]));
        if at % 500 == 0 {
            rows.push((row[..3].to_vec(), vec![put(1, b"short", 1, 0, b"v")]));
        }
        rows.push((row, entries.collect()));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.dedup_by(|a, b| a.0 == b.0);
    rows
}

fn file(rows: &Rows, prefix_index: bool) -> Arc<SstReader> {
    let options = SstOptions { row_prefix_bytes: 4, prefix_index, ..options() };
    let sst = open(build(rows, &[], &options).0).unwrap();
    assert!(sst.top.partitions().len() > 2, "the test wants several partitions");
    sst
}

/// What the filter says of a range whose rows share four bytes.
fn says(sst: &SstReader, range: &RowRange) -> Option<bool> {
    let prefix = range.shared_prefix(4).expect("the test asks within a prefix");
    sst.filter_says(range, &FilterQuery::prefix(prefix)).unwrap()
}

fn has_row(rows: &Rows, range: &RowRange) -> bool {
    let first = rows.partition_point(|(row, _)| *row < range.start);
    rows.get(first).is_some_and(|(row, _)| range.contains(row))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_range_with_rows_is_missed(per_prefix in prop_oneof![1u32..6, 50u32..2000]) {
        let rows = rows(6000, per_prefix);
        let sst = file(&rows, false);
        let firsts = sst.top.partitions().iter().map(|partition| partition.row.clone());
        // At random, and around the first rows of partitions.
        let starts = rows.iter().map(|(row, _)| row.clone()).step_by(7).chain(firsts);
        for start in starts.filter(|row| row.len() >= 4) {
            for tail in [&b""[..], b"\0", b"\xff"] {
                let mut from = start.clone();
                from.extend_from_slice(tail);
                let whole = RowRange::prefix(&start[..4]);
                let rest = RowRange { start: from.clone(), ..whole.clone() };
                let until = RowRange { end: Some(from.clone()), ..whole.clone() };
                for range in [whole, rest, until, RowRange::single(&from)] {
                    let missed = says(&sst, &range) == Some(false) && has_row(&rows, &range);
                    prop_assert!(!missed, "{range:?}");
                }
            }
        }
    }

    #[test]
    fn the_prefix_index_leads_where_the_plain_search_does(
        per_prefix in prop_oneof![1u32..6, 50u32..2000],
    ) {
        let rows = rows(6000, per_prefix);
        let sst = file(&rows, true);
        sst.verify().unwrap();
        let plain = SstReader::with_read_path(
            file(&rows, true),
            ReadPath { prefix_index: false, ..ReadPath::default() },
        );
        for at in 0..sst.top.partitions().len() {
            let index = sst.index(at, CacheFill::Insert).unwrap();
            let plain = plain.index(at, CacheFill::Insert).unwrap();
            prop_assert!(index.view().row_prefix_len() == Some(4));
            prop_assert!(plain.view().row_prefix_len().is_none());
            for (row, _) in &rows {
                for row in [row.as_slice(), &row[..row.len() - 1], &[row, &[0][..]].concat()] {
                    prop_assert_eq!(index.view().lower_bound(row), plain.view().lower_bound(row));
                }
            }
        }
    }
}

#[test]
fn absent_prefixes_are_mostly_seen_to_be_absent() {
    let rows = rows(6000, 3);
    let sst = file(&rows, false);
    let absent = (0..2000u32).map(|at| at * 3 + 1).map(|prefix| prefix.to_be_bytes());
    let ranges: Vec<_> = absent.map(|prefix| RowRange::prefix(&prefix)).collect();
    assert!(ranges.iter().all(|range| !has_row(&rows, range)));
    let maybe = ranges.iter().filter(|range| says(&sst, range) != Some(false)).count();
    assert!(maybe < 40, "{maybe} of {}", ranges.len());
}

#[test]
fn a_file_without_keys_of_prefixes_of_that_length_says_nothing() {
    let rows = rows(6000, 3);
    let sst = file(&rows, false);
    let absent = RowRange::prefix(b"absent");
    assert_eq!(says(&sst, &absent), Some(false));
    for len in [1, 3, 5] {
        let query = FilterQuery::prefix(&absent.start[..len]);
        assert_eq!(sst.filter_says(&absent, &query).unwrap(), None);
    }
}
