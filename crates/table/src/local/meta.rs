//! Where the schema is kept: behind [`MetaStore`], for one machine in the system tree of the same
//! engine (docs/format/schema.md).

use crate::error::{Error, Result};
use crate::records::RecordChange;
use crate::schema::record;
use crate::schema::{OwnedTrees, TableName, TableSchema};
use crate::shelf::{Shelf, ShelfMap, Shelved};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::{Column, Engine, FamilyId, RowRange, ScanRequest, Timestamp, TreeId, WriteBatch};
use engine::{Owner, TreeOptions};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// The tree of the schema.
pub(crate) const SYSTEM_TREE: TreeId = TreeId(1);

const FAMILY: FamilyId = FamilyId(1);
pub(super) const NEXT_TREE_ROW: &[u8] = b"next_tree";
pub(super) const TABLE_PREFIX: &[u8] = b"table/";
/// Begins the rows of [`Intent`]s; the first tree follows, as eight hexadecimal digits.
pub(super) const INTENT_PREFIX: &[u8] = b"intent/";
/// Begins the rows of the front's records; the name follows.
pub(super) const RECORD_PREFIX: &[u8] = b"admin/";
/// Begins the rows of deleted tables, and of backups; the name follows.
pub(super) const DELETED_PREFIX: &[u8] = b"deleted/";
pub(super) const BACKUP_PREFIX: &[u8] = b"backup/";
/// First byte of the record of a table out of service.
const SHELVED_VERSION: u8 = 1;
/// First byte of a front's record.
const RECORD_VERSION: u8 = 1;
/// First byte of an intent's record.
const INTENT_VERSION: u8 = 1;

/// Trees of a table that is being created or deleted: they are dropped if that was not finished, as no
/// table names them then. Nothing else is a reason to drop a tree.
pub type Intent = Vec<TreeId>;

/// Keeps the schema of all tables, and the records of the front. Every change is durable when its call returns. Calls block, and
/// changes come one at a time.
pub trait MetaStore: Send + Sync + 'static {
    fn tables(&self) -> Result<Vec<TableSchema>>;

    /// Returns the trees that tables of other layers own. A cluster has none.
    fn owned(&self) -> Result<Vec<OwnedTrees>> {
        Ok(Vec::new())
    }

    /// Replaces the record of a table.
    fn put_table(&self, table: &TableSchema) -> Result<()>;

    /// Notes the intent to create or drop `trees`, before any of it is done.
    fn intend(&self, trees: &[TreeId]) -> Result<()>;

    /// Removes an intent that was carried out.
    fn forget(&self, trees: &[TreeId]) -> Result<()>;

    fn intents(&self) -> Result<Vec<Intent>>;

    /// Makes all of the changes or none.
    fn change(&self, changes: &[MetaChange<'_>]) -> Result<()>;

    /// Returns every table out of service.
    fn shelved(&self) -> Result<ShelfMap>;

    /// Returns every record of the front by its name.
    fn records(&self) -> Result<Vec<(String, Bytes)>>;

    /// Sets `count` consecutive tree ids aside, never given before, and returns the first.
    fn reserve_trees(&self, count: u32) -> Result<TreeId>;
}

/// Tree ids that are set aside with one write beyond those asked for. What is not given when the
/// engine closes is never given.
const AHEAD: u32 = 64;

/// The schema in the engine itself.
pub(crate) struct EngineMeta {
    engine: Engine,
    /// Tree ids that are set aside and not given.
    aside: Mutex<Range<u32>>,
}

impl EngineMeta {
    /// The schema of `engine`, which is a server's from then on, and whose system tree is created if
    /// it is missing.
    pub(crate) fn open(engine: Engine) -> Result<Self> {
        engine.claim(Owner::Server)?;
        if !engine.trees().contains(&SYSTEM_TREE) {
            engine.create_tree(SYSTEM_TREE, TreeOptions::default())?;
        }
        Ok(Self { engine, aside: Mutex::default() })
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.engine.tree(SYSTEM_TREE)?.write(batch)?;
        // Whatever the durability of the log: the trees this change is about are next.
        Ok(self.engine.sync()?)
    }

    /// Calls `each` with row and value of every cell in `rows`.
    fn read(&self, rows: RowRange, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut scan = self.engine.tree(SYSTEM_TREE)?.scan(&ScanRequest::rows(rows), None)?;
        while let Some(row) = scan.next_row()? {
            let row = row.to_vec();
            if let Some(cell) = scan.next_cell()? {
                each(&row, cell.value)?;
            }
        }
        Ok(())
    }

    /// Returns whether the system tree holds nothing but a schema. It may be an engine's of another use.
    pub(super) fn is_schema(&self) -> Result<bool> {
        let mut only = true;
        self.read(RowRange::ALL, |row, _| {
            only &= is_schema_row(row);
            Ok(())
        })?;
        Ok(only)
    }

    /// Returns the tables whose records can be read, and the rows of unreadable records.
    pub(super) fn readable_tables(&self) -> Result<(Vec<TableSchema>, Vec<Vec<u8>>)> {
        let (mut tables, mut damaged) = (Vec::new(), Vec::new());
        self.read(RowRange::prefix(TABLE_PREFIX), |row, record| {
            match decode_table(row, record) {
                _ if OwnedTrees::is_record(record) => {
                    if decode_owned(row, record).is_err() {
                        damaged.push(row.to_vec());
                    }
                }
                Ok(table) => tables.push(table),
                Err(_) => damaged.push(row.to_vec()),
            }
            Ok(())
        })?;
        for (_, prefix) in SHELVES {
            self.read(RowRange::prefix(prefix), |row, record| {
                if decode_shelved(row, record).is_err() {
                    damaged.push(row.to_vec());
                }
                Ok(())
            })?;
        }
        self.read(RowRange::prefix(RECORD_PREFIX), |row, record| {
            if decode_record(row, record).is_err() {
                damaged.push(row.to_vec());
            }
            Ok(())
        })?;
        Ok((tables, damaged))
    }

    /// Returns the trees of other layers' tables whose records can be read.
    pub(super) fn readable_owned(&self) -> Result<Vec<OwnedTrees>> {
        let mut owned = Vec::new();
        self.read(RowRange::prefix(TABLE_PREFIX), |row, record| {
            if OwnedTrees::is_record(record) {
                owned.extend(decode_owned(row, record));
            }
            Ok(())
        })?;
        Ok(owned)
    }

    /// Returns the tables out of service whose records can be read.
    pub(super) fn readable_shelved(&self) -> Result<ShelfMap> {
        let mut shelved = ShelfMap::new();
        for (shelf, prefix) in SHELVES {
            self.read(RowRange::prefix(prefix), |row, record| {
                if let Ok(table) = decode_shelved(row, record) {
                    shelved.insert((shelf, table.name.clone()), table);
                }
                Ok(())
            })?;
        }
        Ok(shelved)
    }

    /// Removes a record that cannot be read.
    pub(super) fn remove_record(&self, row: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_row(row);
        self.write(&batch)
    }

    fn next_tree(&self) -> Result<TreeId> {
        let mut next = TreeId::FIRST_OF_TABLES;
        self.read(RowRange::single(NEXT_TREE_ROW), |_, value| {
            let value = value.try_into().map_err(|_| damaged(NEXT_TREE_ROW, "not a u32"))?;
            next = next.max(TreeId(u32::from_le_bytes(value)));
            Ok(())
        })?;
        Ok(next.max(self.engine.first_unused_tree()))
    }

    /// Tells by a row of the system tree that it is one, as the first table does.
    pub(super) fn begin_numbers(&self) -> Result<()> {
        let mut begun = false;
        self.read(RowRange::single(NEXT_TREE_ROW), |_, _| {
            begun = true;
            Ok(())
        })?;
        if begun { Ok(()) } else { self.reserve_trees(1).map(|_| ()) }
    }
}

/// Returns whether a row of the system tree is one of the schema.
pub(super) fn is_schema_row(row: &[u8]) -> bool {
    row == NEXT_TREE_ROW
        || [TABLE_PREFIX, INTENT_PREFIX, RECORD_PREFIX, DELETED_PREFIX, BACKUP_PREFIX]
            .iter()
            .any(|prefix| row.starts_with(prefix))
}

fn intent_row(trees: &[TreeId]) -> Vec<u8> {
    let first = trees.first().map_or(0, |tree| tree.0);
    [INTENT_PREFIX, format!("{first:08x}").as_bytes()].concat()
}

fn encode_intent(trees: &[TreeId]) -> Vec<u8> {
    let mut record = vec![INTENT_VERSION];
    record.put_varint(trees.len() as u64);
    trees.iter().for_each(|tree| record.put_u32(tree.0));
    record
}

/// The trees of the intent in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_intent(row: &[u8], record: &[u8]) -> Result<Intent> {
    let mut reader = ByteReader::new(record);
    let mut decode = || {
        let version = reader.u8("version")?;
        let count = reader.varint("trees")?;
        let mut trees = Vec::new();
        for _ in 0..count {
            trees.push(TreeId(reader.u32("tree")?));
        }
        Ok::<_, DecodeError>((version, trees))
    };
    let (version, trees) = decode().map_err(|error| damaged(row, error))?;
    if version != INTENT_VERSION {
        return Err(damaged(row, format!("unknown intent version {version}")));
    }
    if !reader.is_empty() || intent_row(&trees) != row {
        return Err(damaged(row, "the intent belongs to another row"));
    }
    Ok(trees)
}

pub(super) fn table_row(table: &TableName) -> Vec<u8> {
    [TABLE_PREFIX, table.as_str().as_bytes()].concat()
}

/// The table whose record stands in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_table(row: &[u8], value: &[u8]) -> Result<TableSchema> {
    let table = record::decode(value).map_err(|error| damaged(row, error))?;
    if table_row(&table.name) != row {
        return Err(damaged(row, "the record belongs to another table"));
    }
    Ok(table)
}

/// Returns the row of the record of another layer's table.
pub(super) fn owned_row(name: &str) -> Vec<u8> {
    [TABLE_PREFIX, name.as_bytes()].concat()
}

/// Returns the trees of another layer's table whose record stands in `row`; `DataLoss` if it cannot be
/// read.
pub(super) fn decode_owned(row: &[u8], value: &[u8]) -> Result<OwnedTrees> {
    let owned = OwnedTrees::decode(value).map_err(|error| damaged(row, error))?;
    if owned_row(&owned.name) != row {
        return Err(damaged(row, "the record belongs to another table"));
    }
    Ok(owned)
}

/// Adds the record of another layer's table to a batch.
pub(super) fn put_owned(batch: &mut WriteBatch, owned: &OwnedTrees) {
    let column = Column::of(FAMILY, b"");
    batch.put(&owned_row(&owned.name), column, Timestamp(0), &owned.encode());
}

/// Adds the removal of an intent to a batch.
pub(super) fn remove_intent(batch: &mut WriteBatch, trees: &[TreeId]) {
    batch.delete_row(&intent_row(trees));
}

/// Returns name and bytes of the front's record in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_record(row: &[u8], record: &[u8]) -> Result<(String, Bytes)> {
    let name = row.strip_prefix(RECORD_PREFIX).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| damaged(row, "its name is not UTF-8"))?;
    match record.split_first() {
        Some((&RECORD_VERSION, value)) => Ok((name.to_owned(), Bytes::copy_from_slice(value))),
        Some((version, _)) => Err(newer(row, *version, RECORD_VERSION)),
        None => Err(damaged(row, "the record is empty")),
    }
}

/// The shelves with the beginnings of their rows.
const SHELVES: [(Shelf, &[u8]); 2] =
    [(Shelf::Deleted, DELETED_PREFIX), (Shelf::Backup, BACKUP_PREFIX)];

pub(super) fn shelf_row(shelf: Shelf, name: &str) -> Vec<u8> {
    let prefix = match shelf {
        Shelf::Deleted => DELETED_PREFIX,
        Shelf::Backup => BACKUP_PREFIX,
    };
    [prefix, name.as_bytes()].concat()
}

/// Returns whether a row of the system tree is of a table out of service.
pub(super) fn is_shelf_row(row: &[u8]) -> bool {
    SHELVES.iter().any(|(_, prefix)| row.starts_with(prefix))
}

pub(super) fn encode_shelved(shelved: &Shelved) -> Vec<u8> {
    let mut record = vec![SHELVED_VERSION];
    record.put_i64(shelved.at_micros);
    record.put_varint(shelved.records.len() as u64);
    for (name, value) in &shelved.records {
        record.put_string(name.as_bytes());
        record.put_string(value);
    }
    record.extend_from_slice(&record::encode(&shelved.schema));
    record
}

/// Returns the table out of service whose record stands in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_shelved(row: &[u8], record: &[u8]) -> Result<Shelved> {
    let prefix = SHELVES.iter().find(|(_, prefix)| row.starts_with(prefix));
    let name = prefix.map_or(row, |(_, prefix)| &row[prefix.len()..]);
    let name = std::str::from_utf8(name).map_err(|_| damaged(row, "its name is not UTF-8"))?;
    let mut reader = ByteReader::new(record);
    let version = reader.u8("version").map_err(|error| damaged(row, error))?;
    if version != SHELVED_VERSION {
        return Err(newer(row, version, SHELVED_VERSION));
    }
    let mut head = || Ok::<_, DecodeError>((reader.i64("time")?, shelved_records(&mut reader)?));
    let (at_micros, records) = head().map_err(|error| damaged(row, error))?;
    let schema = record::decode(reader.rest()).map_err(|error| damaged(row, error))?;
    if prefix.is_some_and(|(shelf, _)| *shelf == Shelf::Deleted) && schema.name.as_str() != name {
        return Err(damaged(row, "the record belongs to another table"));
    }
    let mut named = Vec::with_capacity(records.len());
    for (name, value) in records {
        let name = std::str::from_utf8(name);
        let name = name.map_err(|_| damaged(row, "the name of a record is not UTF-8"))?;
        named.push((name.to_owned(), Bytes::copy_from_slice(value)));
    }
    Ok(Shelved { name: name.to_owned(), at_micros, schema: Arc::new(schema), records: named })
}

/// Name and bytes of a front's record.
type NamedRecord<'a> = (&'a [u8], &'a [u8]);

/// Returns the front's records that are kept with a table out of service.
fn shelved_records<'a>(reader: &mut ByteReader<'a>) -> Result<Vec<NamedRecord<'a>>, DecodeError> {
    let count = reader.varint("records")?;
    let mut records = Vec::new();
    for _ in 0..count {
        records.push((reader.string("name of a record")?, reader.string("record")?));
    }
    Ok(records)
}

/// One change of the schema.
#[derive(Debug)]
pub enum MetaChange<'a> {
    /// Replaces the record of a table.
    PutTable(&'a TableSchema),
    /// Removes the record of a table.
    RemoveTable(&'a TableName),
    /// Writes the record of a table out of service.
    Shelve(Shelf, &'a Shelved),
    /// Removes the record of a table out of service.
    Unshelve(Shelf, &'a str),
    /// Notes the intent to create or drop trees.
    Intend(&'a [TreeId]),
    /// Removes an intent that was carried out.
    Forget(&'a [TreeId]),
    /// Changes a record of the front.
    Record(&'a RecordChange),
}

impl MetaChange<'_> {
    fn put(&self, batch: &mut WriteBatch) {
        match self {
            Self::PutTable(table) => put_record(batch, table),
            Self::RemoveTable(name) => batch.delete_row(&table_row(name)),
            Self::Shelve(shelf, shelved) => {
                let row = shelf_row(*shelf, &shelved.name);
                let column = Column::of(FAMILY, b"");
                batch.put(&row, column, Timestamp(0), &encode_shelved(shelved));
            }
            Self::Unshelve(shelf, name) => batch.delete_row(&shelf_row(*shelf, name)),
            Self::Intend(trees) => put_intent(batch, trees),
            Self::Forget(trees) => batch.delete_row(&intent_row(trees)),
            Self::Record(change) => put_change(batch, change),
        }
    }
}

/// Returns the row of the front's record `name`.
pub(super) fn record_row(name: &str) -> Vec<u8> {
    [RECORD_PREFIX, name.as_bytes()].concat()
}

/// Adds a change of a front's record to a batch.
fn put_change(batch: &mut WriteBatch, change: &RecordChange) {
    let row = record_row(&change.name);
    match &change.value {
        None => batch.delete_row(&row),
        Some(value) => {
            let record = [&[RECORD_VERSION], &value[..]].concat();
            batch.put(&row, Column::of(FAMILY, b""), Timestamp(0), &record);
        }
    }
}

/// Returns the error of a record that a newer program wrote.
fn newer(row: &[u8], version: u8, known: u8) -> Error {
    let text = format!("record of version {version}, but this Stele reads versions up to {known}");
    damaged(row, format!("{text}; use a newer Stele"))
}

fn damaged(row: &[u8], what: impl std::fmt::Display) -> Error {
    Error::DataLoss(format!("system tree, row '{}': {what}", row.escape_ascii()))
}

fn put_record(batch: &mut WriteBatch, table: &TableSchema) {
    let record = record::encode(table);
    batch.put(&table_row(&table.name), Column::of(FAMILY, b""), Timestamp(0), &record);
}

pub(super) fn put_intent(batch: &mut WriteBatch, trees: &[TreeId]) {
    let column = Column::of(FAMILY, b"");
    batch.put(&intent_row(trees), column, Timestamp(0), &encode_intent(trees));
}

/// The trees of a table, in order of its tablets.
pub(super) fn trees_of(table: &TableSchema) -> Vec<TreeId> {
    table.tablets.iter().map(|tablet| tablet.tree).collect()
}

impl MetaStore for EngineMeta {
    fn tables(&self) -> Result<Vec<TableSchema>> {
        let mut tables = Vec::new();
        self.read(RowRange::prefix(TABLE_PREFIX), |row, record| {
            if !OwnedTrees::is_record(record) {
                tables.push(decode_table(row, record)?);
            }
            Ok(())
        })?;
        Ok(tables)
    }

    fn owned(&self) -> Result<Vec<OwnedTrees>> {
        let mut owned = Vec::new();
        self.read(RowRange::prefix(TABLE_PREFIX), |row, record| {
            if OwnedTrees::is_record(record) {
                owned.push(decode_owned(row, record)?);
            }
            Ok(())
        })?;
        Ok(owned)
    }

    fn put_table(&self, table: &TableSchema) -> Result<()> {
        let mut batch = WriteBatch::new();
        put_record(&mut batch, table);
        self.write(&batch)
    }

    fn intend(&self, trees: &[TreeId]) -> Result<()> {
        let mut batch = WriteBatch::new();
        put_intent(&mut batch, trees);
        self.write(&batch)
    }

    fn forget(&self, trees: &[TreeId]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_row(&intent_row(trees));
        self.write(&batch)
    }

    fn intents(&self) -> Result<Vec<Intent>> {
        let mut intents = Vec::new();
        self.read(RowRange::prefix(INTENT_PREFIX), |row, record| {
            intents.push(decode_intent(row, record)?);
            Ok(())
        })?;
        Ok(intents)
    }

    fn records(&self) -> Result<Vec<(String, Bytes)>> {
        let mut records = Vec::new();
        self.read(RowRange::prefix(RECORD_PREFIX), |row, record| {
            records.push(decode_record(row, record)?);
            Ok(())
        })?;
        Ok(records)
    }

    fn change(&self, changes: &[MetaChange<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        changes.iter().for_each(|change| change.put(&mut batch));
        self.write(&batch)
    }

    fn shelved(&self) -> Result<ShelfMap> {
        let mut shelved = ShelfMap::new();
        for (shelf, prefix) in SHELVES {
            self.read(RowRange::prefix(prefix), |row, record| {
                let table = decode_shelved(row, record)?;
                shelved.insert((shelf, table.name.clone()), table);
                Ok(())
            })?;
        }
        Ok(shelved)
    }

    fn reserve_trees(&self, count: u32) -> Result<TreeId> {
        let mut aside = self.aside.lock();
        if let Some(rest) = aside.start.checked_add(count).filter(|rest| *rest <= aside.end) {
            return Ok(TreeId(std::mem::replace(&mut aside.start, rest)));
        }
        let first = self.next_tree()?;
        let given = first
            .0
            .checked_add(count)
            .ok_or_else(|| Error::ResourceExhausted("all tree ids are used up".into()))?;
        let next = given.saturating_add(AHEAD);
        let mut batch = WriteBatch::new();
        let column = Column::of(FAMILY, b"");
        batch.put(NEXT_TREE_ROW, column, Timestamp(0), &next.to_le_bytes());
        self.write(&batch)?;
        *aside = given..next;
        Ok(first)
    }
}
