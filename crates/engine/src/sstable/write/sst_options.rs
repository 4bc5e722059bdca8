//! What shapes the bytes of one SSTable.

use crate::options::{Compression, FilterGranularity, ROW_PREFIX_BYTES_MAX, TreeOptions};
use crate::shape::Shape;

/// What shapes the bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SstOptions {
    /// Bytes of a data block before compression, a target. 1 KiB..=64 KiB; fewer where `shape`
    /// says so.
    pub block_bytes: usize,
    /// Compression of data blocks and large values.
    pub compression: Compression,
    /// Bits of filter per key; 0 builds none. 0..=32.
    pub filter_bits_per_key: u8,
    /// For which questions filters hold keys.
    pub filter_granularity: FilterGranularity,
    /// Values of at least so many bytes get a block of their own: keys stay dense, but a scan
    /// that wants values reads each apart. 64 B..=1 MiB, 4 KiB unless set.
    pub large_value_bytes: usize,
    /// Length of the row prefix for which filters hold a key; 0 for none. 0..=1024.
    pub row_prefix_bytes: u16,
    /// Index partitions get a prefix index. Needs `row_prefix_bytes`.
    pub prefix_index: bool,
    /// Where blocks and partitions are cut.
    pub shape: Shape,
}

impl SstOptions {
    /// The options of a file of a tree, with the compression of its level and the granularity that
    /// the tree has now.
    pub(crate) fn new(
        tree: &TreeOptions,
        compression: Compression,
        filter_granularity: FilterGranularity,
        shape: &Shape,
    ) -> Self {
        Self {
            block_bytes: (tree.block_bytes as usize).min(shape.block_bytes_max),
            compression,
            filter_bits_per_key: tree.filter_bits_per_key,
            filter_granularity,
            large_value_bytes: shape.large_value_bytes,
            row_prefix_bytes: tree.row_prefix_bytes,
            prefix_index: tree.prefix_index,
            shape: *shape,
        }
    }

    /// Panics unless each is in its range.
    pub(crate) fn assert_valid(&self) {
        let least = self.shape.block_bytes_max.min(1 << 10);
        assert!((least..=64 << 10).contains(&self.block_bytes), "block_bytes");
        assert!(self.filter_bits_per_key <= 32, "filter_bits_per_key");
        assert!((64..=1 << 20).contains(&self.large_value_bytes), "large_value_bytes");
        assert!(self.row_prefix_bytes <= ROW_PREFIX_BYTES_MAX, "row_prefix_bytes");
        assert!(!self.prefix_index || self.row_prefix_bytes > 0, "prefix_index");
    }
}
