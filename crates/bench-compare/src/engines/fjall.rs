//! fjall: filters and indexes pinned, hash index in data blocks, blocks of 4 KB or 16 KB.
//!
//! It reads through the system's cache and has no direct reads, so uncached work is left out: the
//! system's memory would count as its own.

use crate::data::{Cell, Model};
use crate::engines::encode::{Rows, key_of, key_of_part};
use crate::engines::{BenchEngine, Entry, Merging, Part, Reader, Result, Setup};
use crate::source::Source;
use crate::touched::Touched;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PinningPolicy,
};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// See [`Entry`].
pub(crate) const ENTRY: Entry = Entry { name: "fjall", configurations, open };

const BLOOM_BITS: f32 = 10.0;
const HASH_RATIO: f32 = 0.75;
const WORKERS: usize = 2;
/// More runs than any workload makes.
const RUNS_UNMERGED: u8 = 64;

fn configurations(setup: &Setup) -> std::result::Result<Vec<&'static str>, &'static str> {
    if setup.disk_bound {
        return Err("it has no direct reads, so the system's cache would hold all data");
    }
    Ok(vec!["4k", "16k"])
}

fn open(dir: &Path, setup: &Setup, configuration: &str) -> Result<Box<dyn BenchEngine>> {
    let block_bytes = if configuration == "4k" { 4 << 10 } else { 16 << 10 };
    let db = Database::builder(dir.join("db"))
        .cache_size(setup.cache_bytes as u64)
        .worker_threads(WORKERS)
        .open()?;
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS));
    let create = || {
        let options = KeyspaceCreateOptions::default()
            .data_block_size_policy(BlockSizePolicy::all(block_bytes))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(HASH_RATIO))
            .data_block_compression_policy(CompressionPolicy::disabled())
            .index_block_compression_policy(CompressionPolicy::disabled())
            .filter_policy(FilterPolicy::all(filter))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .max_memtable_size(setup.memtable_bytes as u64);
        match setup.merging {
            Merging::Automatic => options,
            Merging::Never => options
                .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(RUNS_UNMERGED))),
        }
    };
    let keyspace = db.keyspace("data", create)?;
    let options = format!(
        "data_block_size={block_bytes} data_block_hash_ratio={HASH_RATIO} bloom={BLOOM_BITS} \
         compression=none filter and index pinned cache={} MiB max_memtable_size={} MiB \
         worker_threads={WORKERS} merging={:?}",
        setup.cache_bytes >> 20,
        setup.memtable_bytes >> 20,
        setup.merging,
    );
    Ok(Box::new(Fjall { db, keyspace, model: setup.model, options }))
}

struct Fjall {
    db: Database,
    keyspace: Keyspace,
    model: Model,
    options: String,
}

impl BenchEngine for Fjall {
    fn options(&self) -> String {
        self.options.clone()
    }

    fn write(&self, cells: &[Cell<'_>]) -> Result<()> {
        let mut batch = self.db.batch();
        let mut key = Vec::new();
        for cell in cells {
            key_of(self.model, cell, &mut key);
            match cell.value {
                Some(value) => batch.insert(&self.keyspace, key.as_slice(), value),
                None => batch.remove(&self.keyspace, key.as_slice()),
            }
        }
        Ok(batch.commit()?)
    }

    fn bulk_load(&self, source: &mut Source<'_>) -> Result<()> {
        let mut ingestion = self.keyspace.start_ingestion()?;
        let mut key = Vec::new();
        while let Some(cells) = source.next_chunk() {
            for cell in &cells {
                key_of(self.model, cell, &mut key);
                ingestion.write(key.as_slice(), cell.value.unwrap_or_default())?;
            }
        }
        Ok(ingestion.finish()?)
    }

    fn flush(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        while self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(FjallReader { engine: self, key: Vec::new() }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct FjallReader<'a> {
    engine: &'a Fjall,
    key: Vec<u8>,
}

impl FjallReader<'_> {
    fn touch_entries(
        &self,
        entries: impl Iterator<Item = Guard>,
        count: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        let mut rows = Rows::new(self.engine.model);
        let mut left = count;
        for entry in entries {
            if left == 0 {
                break;
            }
            let (key, value) = entry.into_inner()?;
            left -= usize::from(rows.touch(&key, &value, touched));
        }
        Ok(())
    }
}

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &[u8], touched: &mut Touched) -> Result<()> {
        let found = match self.engine.model {
            Model::Versions => match self.engine.keyspace.prefix(key).next() {
                Some(newest) => Some(newest.value()?),
                None => None,
            },
            Model::Keys | Model::Columns => self.engine.keyspace.get(key)?,
        };
        match found {
            Some(value) => touched.value(&value),
            None => touched.missing(),
        }
        Ok(())
    }

    /// It has no call for many keys.
    fn multi_get(&mut self, keys: &[&[u8]], touched: &mut Touched) -> Result<()> {
        keys.iter().try_for_each(|key| self.get(key, touched))
    }

    fn seek(&mut self, key: &[u8], count: usize, touched: &mut Touched) -> Result<()> {
        self.touch_entries(self.engine.keyspace.range(key..), count, touched)
    }

    fn scan(&mut self, touched: &mut Touched) -> Result<()> {
        self.touch_entries(self.engine.keyspace.iter(), usize::MAX, touched)
    }

    fn row(&mut self, row: &[u8], part: Part, touched: &mut Touched) -> Result<()> {
        key_of_part(row, part, &mut self.key);
        if let Part::Column(..) = part {
            match self.engine.keyspace.get(&self.key)? {
                Some(value) => touched.value(&value),
                None => touched.missing(),
            }
            return Ok(());
        }
        let mut met = false;
        for entry in self.engine.keyspace.prefix(&self.key) {
            let (key, value) = entry.into_inner()?;
            touched.entry(&key[row.len() + 1..], &value);
            met = true;
        }
        if !met {
            touched.missing();
        }
        Ok(())
    }
}
