//! Bodies of the fuzz targets for the decoders of this folder: any bytes at all are refused or
//! read without a panic, and what is accepted keeps the invariants it was checked for.
//!
//! The targets themselves are in `/fuzz`; ordinary tests call these functions as well, with
//! mutated blocks.

use super::block::{BlockView, CellValue, DataMeta};
use super::filter::{FilterMeta, FilterPartition, FilterQuery};
use super::format::block_identity::{HEADER_LEN, decode_header, encode_header};
use super::format::properties::Properties;
use super::format::range_block;
use super::format::{BlockType, FOOTER_LEN, Footer, unseal};
use super::index::top_index::TopIndex;
use super::index::{IndexMeta, IndexPartition};
use crate::cell::FamilyId;
use base::checksum::xxh3;

/// A data block. The first byte chooses how the rest is framed: raw, or behind a compression
/// byte and a checksum that is made right.
pub fn block(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let raw = match choice & 3 {
        0 => data.to_vec(),
        compression => {
            let mut framed = data.to_vec();
            framed.extend_from_slice(&[compression - 1, BlockType::Data as u8]);
            let checksum = xxh3(&framed) as u32;
            framed.extend_from_slice(&checksum.to_le_bytes());
            let mut raw = Vec::new();
            let Ok(raw) = unseal(&framed, BlockType::Data, 0, &mut raw) else { return };
            raw.to_vec()
        }
    };
    if let Ok(meta) = DataMeta::check(&raw) {
        use_block(BlockView::of(&raw, &meta));
    }
}

fn use_block(view: BlockView<'_>) {
    let mut previous: Option<Vec<u8>> = None;
    let mut row = Vec::new();
    for at in 0..view.rows() {
        view.copy_row(at, &mut row);
        assert!(previous.as_ref().is_none_or(|previous| *previous < row), "rows ascend");
        assert_eq!(view.lower_bound(&row), at);
        assert!(view.row_is(at, &row));
        for cell in view.cells_of(at) {
            let key = view.key(cell);
            assert!(key.timestamp <= view.timestamp_max());
            let found = view.find_column(view.cells_of(at), &key.column);
            assert!(found <= cell && view.id(found) == view.id(cell));
            assert!(found == cell || view.key(cell - 1).cmp_in_row(&key).is_lt());
            if let CellValue::Inline(value) = view.value(cell) {
                assert!(value.len() <= view.len());
            }
        }
        previous = Some(row.clone());
    }
    row.push(0);
    assert_eq!(view.lower_bound(&row), view.rows());
}

/// An index partition, or (by the first byte) a top index or a range-tombstone block.
pub fn index(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    match choice & 3 {
        1 => {
            if let Ok(top) = TopIndex::decode(data) {
                use_top_index(&top);
            }
        }
        2 => {
            if let Ok(tombstones) = range_block::decode(data) {
                assert_eq!(range_block::encode(&tombstones), data);
            }
        }
        _ => {
            if let Ok(meta) = IndexMeta::check(data) {
                let plain = meta.without_prefix_index();
                use_index(IndexPartition::of(data, &meta), IndexPartition::of(data, &plain));
            }
        }
    }
}

/// Uses a partition with and without its prefix index.
fn use_index(index: IndexPartition<'_>, plain: IndexPartition<'_>) {
    let mut row = Vec::new();
    for block in 0..index.blocks() {
        index.copy_row(block, &mut row);
        assert!(index.row_is(block, &row));
        let first = index.lower_bound(&row);
        assert!(first <= block && index.row_is(first, &row));
        for row in [row.as_slice(), &[&row[..], &[0]].concat(), row.get(1..).unwrap_or(&[])] {
            assert_eq!(index.lower_bound(row), plain.lower_bound(row), "buckets are hints");
        }
        assert_eq!(index.continued(block), index.first_column(block).is_some());
        let _ = (index.handle(block), index.timestamp_max(block));
    }
}

fn use_top_index(top: &TopIndex) {
    for (at, partition) in top.partitions().iter().enumerate() {
        assert!(top.lower_bound(&partition.row) <= at);
        assert!(at == 0 || top.partition_of(&partition.row).is_some());
    }
}

/// A filter partition: it answers anything without a panic.
pub fn filter(data: &[u8]) {
    let Ok(meta) = FilterMeta::check(data) else { return };
    let filter = FilterPartition::of(data, &meta);
    for row in [&b""[..], b"row", data] {
        let query = FilterQuery::column(row, FamilyId(1), row);
        let any = filter.may_contain(&FilterQuery::row(row));
        assert!(any || !filter.may_contain(&query), "a column lies in a row");
        let _ = filter.may_have_tombstone(&query);
    }
}

/// A header (the first 40 bytes), a footer (the last 64 bytes), and properties.
pub fn footer(data: &[u8]) {
    if let Some(bytes) = data.first_chunk::<HEADER_LEN>()
        && let Ok(identity) = decode_header(bytes)
    {
        assert_eq!(encode_header(identity), *bytes);
    }
    if let Some((_, bytes)) = data.split_last_chunk::<FOOTER_LEN>()
        && let Ok(footer) = Footer::decode(bytes)
    {
        assert_eq!(Footer::decode(&footer.encode()), Ok(footer));
    }
    if let Ok(properties) = Properties::decode(data) {
        assert_eq!(Properties::decode(&properties.encode()), Ok(properties));
    }
}
