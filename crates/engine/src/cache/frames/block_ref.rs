//! A block that is looked at.

use super::hint::Hint;

/// A block that is being looked at.
#[derive(Debug)]
pub struct BlockRef<'a, M> {
    /// Metadata of the block.
    pub meta: &'a M,
    pub bytes: &'a [u8],
    /// The hints kept beside it.
    pub hints: &'a [Hint],
}

impl<M> Clone for BlockRef<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for BlockRef<'_, M> {}
