//! What is written can be read, however unlike its neighbours a row or an entry is.

use super::*;

/// Keys that share `prefix_len` bytes, `count` of them, and one behind them that shares nothing.
fn rows_that_stop_sharing(prefix_len: usize, count: u32) -> Rows {
    let shared = vec![b'p'; prefix_len];
    let row = |at: u32| [shared.as_slice(), &at.to_be_bytes()].concat();
    let cell = || vec![put(1, b"q", 1, 1, b"v")];
    let mut rows: Rows = (0..count).map(|at| (row(at), cell())).collect();
    rows.push((b"q".to_vec(), cell()));
    rows
}

fn assert_reads_back(rows: &Rows, options: &SstOptions, case: &str) -> Arc<SstReader> {
    let (bytes, _) = build(rows, &[], options);
    let sst = open(bytes).unwrap();
    sst.verify().unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(read_all(&sst).unwrap() == *rows, "{case}");
    sst
}

/// The rows share a prefix, which their block has once; with a row behind them that does not, the
/// block would have it in each key. It is not made longer by that than by a row of its size.
#[test]
fn a_row_that_shares_less_with_those_before_begins_a_block() {
    for block_bytes in [1 << 10, 16 << 10, 32 << 10, 64 << 10] {
        for prefix_len in [100, 8 << 10, 60 << 10] {
            let rows = rows_that_stop_sharing(prefix_len, 819);
            let case = format!("blocks of {block_bytes}, prefix of {prefix_len}");
            let sst = assert_reads_back(&rows, &SstOptions { block_bytes, ..options() }, &case);
            let longest = block_bytes + block_bytes / 2 + prefix_len + 256;
            for partition in 0..sst.top.partitions().len() {
                let index = sst.index(partition, CacheFill::Bypass).unwrap();
                for block in 0..index.view().blocks() {
                    let len = index.view().handle(block).len as usize;
                    assert!(len <= longest, "{case}: a block of {len} bytes");
                }
            }
        }
    }
}

/// A block that is nearly full, and then the longest that an entry and a key may be, with numbers
/// that make every column of integers wide.
#[test]
fn a_full_block_takes_the_longest_entry_there_is() {
    let options = SstOptions { block_bytes: 64 << 10, large_value_bytes: 1 << 20, ..options() };
    let last = |qualifier: &[u8]| put(9, qualifier, i64::MAX, 1 << 55, &vec![7; (1 << 20) - 1]);
    let qualifier = vec![0xff; QUALIFIER_BYTES_MAX];
    let small = |at: u32| put(1, &at.to_be_bytes()[2..], i64::MIN, 1, b"");
    for entries in [1u32, 5000, 10_000, 14_000] {
        let mut of_one: Vec<OwnedEntry> = (0..entries).map(small).collect();
        of_one.push(last(&qualifier));
        let mut of_many: Rows = (0..entries.min(3000))
            .map(|at| (at.to_be_bytes().to_vec(), vec![put(1, b"q", i64::MIN, 1, b"")]))
            .collect();
        of_many.push((vec![0xff; ROW_BYTES_MAX], vec![last(&qualifier)]));
        assert_reads_back(&vec![(b"r".to_vec(), of_one)], &options, &format!("{entries} entries"));
        assert_reads_back(&of_many, &options, &format!("{entries} rows"));
    }
}
