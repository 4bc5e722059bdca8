//! What writing files needs of the engine.

use crate::cell::TreeId;
use crate::error::Result;
use crate::files::FileNumber;
use crate::files::open_files::OpenFiles;
use crate::manifest::LogPosition;
use crate::options::{Compression, FilterGranularity, Options, TreeOptions};
use crate::sstable::{BlockCache, SstOptions};
use base::env::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// What writing files needs of the engine.
pub(crate) struct Writing<'a> {
    /// Where files are.
    pub fs: &'a dyn FileSystem,
    /// The data directory.
    pub dir: &'a Path,
    /// Sizes.
    pub options: &'a Options,
    pub tree: TreeId,
    /// Up to where the tree is in SSTables already.
    pub flushed: LogPosition,
    /// What shapes its files.
    pub tree_options: &'a TreeOptions,
    /// For which questions their filters hold keys.
    pub filter_granularity: FilterGranularity,
    /// Opens the outputs.
    pub open_files: &'a Arc<OpenFiles>,
    /// For the outputs, when they are open.
    pub cache: &'a Arc<BlockCache>,
    /// Gives a number never used before, if there is one.
    pub new_file: &'a dyn Fn() -> Result<FileNumber>,
    /// Asked once a row: whether to give up, with `Error::Closed`.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told now and then how many bytes were written since it was told last. May wait.
    pub wrote: &'a dyn Fn(u64),
}

impl Writing<'_> {
    pub(crate) fn of_files(&self, compression: Compression) -> SstOptions {
        let shape = &self.options.shape;
        SstOptions::new(self.tree_options, compression, self.filter_granularity, shape)
    }
}
