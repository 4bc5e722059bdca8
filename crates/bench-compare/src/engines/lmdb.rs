//! LMDB: a B+ tree in a memory map.
//!
//! Its cache is the system's, which no option bounds, so uncached work is left out; it has no
//! runs, so overlapping runs are too. It keeps no checksums, and without a sync its commits may
//! lose the whole database in a power loss, where the others lose the latest writes: its figures
//! are for orientation.
#![allow(unsafe_code)] // Opening a memory map, see `open`.

use crate::data::{Cell, Model};
use crate::engines::encode::{Rows, key_of, key_of_part};
use crate::engines::{BenchEngine, Entry, Part, Reader, Result, Setup};
use crate::source::Source;
use crate::touched::Touched;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, WithoutTls};
use std::ops::Bound;
use std::path::Path;

/// See [`Entry`].
pub(crate) const ENTRY: Entry = Entry { name: "lmdb", configurations, open };

/// Address space for the map, not memory.
const MAP_BYTES: usize = 64 << 30;

fn configurations(setup: &Setup) -> std::result::Result<Vec<&'static str>, &'static str> {
    if setup.disk_bound {
        return Err("its cache is the system's, which cannot be kept to a size");
    }
    if setup.of_runs {
        return Err("a B+ tree has no runs");
    }
    Ok(vec!["default"])
}

fn open(dir: &Path, setup: &Setup, _configuration: &str) -> Result<Box<dyn BenchEngine>> {
    let flags = EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC | EnvFlags::NO_READ_AHEAD;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES);
    // SAFETY: the directory is made by this run and used by no other process, so nobody changes
    // the map; a database lost in a power loss is of no use to anybody.
    let env = unsafe { options.flags(flags).open(dir) }?;
    let mut transaction = env.write_txn()?;
    let database = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    let options = format!("{flags:?} map_size={} GiB checksums=none", MAP_BYTES >> 30);
    Ok(Box::new(Lmdb { env, database, model: setup.model, options }))
}

struct Lmdb {
    env: Env<WithoutTls>,
    database: Database<Bytes, Bytes>,
    model: Model,
    options: String,
}

impl BenchEngine for Lmdb {
    fn options(&self) -> String {
        self.options.clone()
    }

    fn write(&self, cells: &[Cell<'_>]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let mut key = Vec::new();
        for cell in cells {
            key_of(self.model, cell, &mut key);
            match cell.value {
                Some(value) => self.database.put(&mut transaction, &key, value)?,
                None => {
                    self.database.delete(&mut transaction, &key)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn bulk_load(&self, source: &mut Source<'_>) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let mut key = Vec::new();
        while let Some(cells) = source.next_chunk() {
            for cell in &cells {
                key_of(self.model, cell, &mut key);
                let value = cell.value.unwrap_or_default();
                self.database.put_with_flags(&mut transaction, PutFlags::APPEND, &key, value)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let transaction = self.env.read_txn()?;
        Ok(Box::new(LmdbReader { engine: self, transaction, key: Vec::new() }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbReader<'a> {
    engine: &'a Lmdb,
    transaction: RoTxn<'a, WithoutTls>,
    key: Vec<u8>,
}

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: &[u8], touched: &mut Touched) -> Result<()> {
        let found = match self.engine.model {
            Model::Versions => {
                let next =
                    self.engine.database.get_greater_than_or_equal_to(&self.transaction, key)?;
                next.filter(|(found, _)| found.starts_with(key)).map(|(_, value)| value)
            }
            Model::Keys | Model::Columns => self.engine.database.get(&self.transaction, key)?,
        };
        match found {
            Some(value) => touched.value(value),
            None => touched.missing(),
        }
        Ok(())
    }

    /// It has no call for many keys.
    fn multi_get(&mut self, keys: &[&[u8]], touched: &mut Touched) -> Result<()> {
        keys.iter().try_for_each(|key| self.get(key, touched))
    }

    fn seek(&mut self, key: &[u8], count: usize, touched: &mut Touched) -> Result<()> {
        let range = (Bound::Included(key), Bound::Unbounded);
        let mut rows = Rows::new(self.engine.model);
        let mut left = count;
        for entry in self.engine.database.range(&self.transaction, &range)? {
            let (key, value) = entry?;
            left -= usize::from(rows.touch(key, value, touched));
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    fn scan(&mut self, touched: &mut Touched) -> Result<()> {
        let mut rows = Rows::new(self.engine.model);
        for entry in self.engine.database.iter(&self.transaction)? {
            let (key, value) = entry?;
            rows.touch(key, value, touched);
        }
        Ok(())
    }

    fn row(&mut self, row: &[u8], part: Part, touched: &mut Touched) -> Result<()> {
        key_of_part(row, part, &mut self.key);
        if let Part::Column(..) = part {
            match self.engine.database.get(&self.transaction, &self.key)? {
                Some(value) => touched.value(value),
                None => touched.missing(),
            }
            return Ok(());
        }
        let mut met = false;
        for entry in self.engine.database.prefix_iter(&self.transaction, &self.key)? {
            let (key, value) = entry?;
            touched.entry(&key[row.len() + 1..], value);
            met = true;
        }
        if !met {
            touched.missing();
        }
        Ok(())
    }
}
