//! The blocks of an open SSTable, each known to be of one type, through the cache.

use super::block_load::{BlockLoad, Lead};
use super::sst_reader::SstReader;
use super::typed_refs::{DataRef, FilterRef, IndexRef, ValueRef};
use crate::cache::{CacheFill, Hint, PinnedBlock};
use crate::error::Result;
use crate::sstable::Block;
use crate::sstable::block::LargeValue;

impl SstReader {
    /// The index partition at `at`.
    pub(crate) fn index(&self, at: usize, fill: CacheFill) -> Result<IndexRef> {
        let lead = self.index_lead(at);
        IndexRef::new(self.load(&lead, fill)?).ok_or_else(|| self.wrong_type(lead.handle()))
    }

    /// The data block at `block` of `index`.
    pub(crate) fn data(&self, index: &IndexRef, block: usize, fill: CacheFill) -> Result<DataRef> {
        self.data_noting(index, block, fill, &mut false)
    }

    /// The same; sets `missed` if it was read from disk.
    pub(crate) fn data_noting(
        &self,
        index: &IndexRef,
        block: usize,
        fill: CacheFill,
        missed: &mut bool,
    ) -> Result<DataRef> {
        let lead = Lead::data(index, block);
        DataRef::new(self.load_noting(&lead, fill, missed)?)
            .ok_or_else(|| self.wrong_type(lead.handle()))
    }

    /// The data block that `load` brought in.
    pub(crate) fn data_of(&self, hold: PinnedBlock<Block>, load: &BlockLoad) -> Result<DataRef> {
        DataRef::new(hold).ok_or_else(|| self.wrong_type(load.handle()))
    }

    /// The data block at `block` of `index`, if it is in memory. Not counted.
    pub(crate) fn resident_data(&self, index: &IndexRef, block: usize) -> Option<DataRef> {
        let lead = Lead::data(index, block);
        self.resident(&lead).and_then(DataRef::new)
    }

    /// The filter partition at `at`; `None` if it has none.
    pub(crate) fn filter(&self, at: usize, fill: CacheFill) -> Result<Option<FilterRef>> {
        let Some(lead) = self.filter_lead(at) else { return Ok(None) };
        let filter = FilterRef::new(self.load(&lead, fill)?);
        filter.ok_or_else(|| self.wrong_type(lead.handle())).map(Some)
    }

    /// A large value, of the length its entry says, to which `hint` leads.
    pub(crate) fn large_value(
        &self,
        large: LargeValue,
        hint: &Hint,
        fill: CacheFill,
    ) -> Result<ValueRef> {
        let lead = Lead::large_value(large, hint);
        ValueRef::new(self.load(&lead, fill)?).ok_or_else(|| self.wrong_type(lead.handle()))
    }
}
