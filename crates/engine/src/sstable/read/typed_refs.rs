//! Holds of cached blocks, each known to be of one type.

use crate::cache::{Hint, PinnedBlock};
use crate::sstable::block::BlockView;
use crate::sstable::filter::FilterPartition;
use crate::sstable::index::IndexPartition;
use crate::sstable::{Block, Content};

/// Declares a hold of a cached block known to be of one type.
macro_rules! block_ref {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $target:ty, $content:pat, $block:ident => $view:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name(pub(crate) PinnedBlock<Block>);

        impl $name {
            /// The hold as one of such a block, if it is.
            pub(crate) fn new(pin: PinnedBlock<Block>) -> Option<Self> {
                matches!(pin.get().meta.0, Content::$variant { .. }).then_some(Self(pin))
            }

            /// The block.
            #[inline]
            pub(in crate::sstable) fn view(&self) -> $target {
                let $block = self.0.get();
                match &$block.meta.0 {
                    $content => $view,
                    _ => unreachable!("the type was checked when the reference was made"),
                }
            }
        }
    };
}

block_ref!(
    /** A data block. */
    DataRef, Data, BlockView<'_>, Content::Data(meta), block => BlockView::of(block.bytes, meta)
);
block_ref!(
    /** An index partition. */
    IndexRef, Index, IndexPartition<'_>, Content::Index(meta), block =>
        IndexPartition::of(block.bytes, meta)
);
block_ref!(
    /** A filter partition. */
    FilterRef, Filter, FilterPartition<'_>, Content::Filter(meta), block =>
        FilterPartition::of(block.bytes, meta)
);
block_ref!(
    /** A large value. */
    ValueRef, LargeValue, &[u8], Content::LargeValue, block => block.bytes
);

impl DataRef {
    /// The hint to the large value of the entry at `cell`.
    pub(crate) fn hint_of_large_value(&self, cell: usize) -> &Hint {
        &self.0.get().hints[self.view().large_values_before(cell)]
    }
}

impl IndexRef {
    /// A hint for each block of the partition.
    pub(crate) fn hints(&self) -> &[Hint] {
        self.0.get().hints
    }
}
