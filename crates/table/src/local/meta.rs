//! Where the schema is kept: behind [`MetaStore`], for one machine in the system tree of the same
//! engine (docs/format/schema.md).

use crate::error::{Error, Result};
use crate::records::RecordChange;
use crate::schema::record;
use crate::schema::{TableName, TableSchema};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::{Column, Engine, FamilyId, RowRange, ScanRequest, Timestamp, TreeId, WriteBatch};
use engine::{Owner, TreeOptions};
use parking_lot::Mutex;
use std::ops::Range;

/// The tree of the schema.
pub(crate) const SYSTEM_TREE: TreeId = TreeId(1);

const FAMILY: FamilyId = FamilyId(1);
pub(super) const NEXT_TREE_ROW: &[u8] = b"next_tree";
pub(super) const TABLE_PREFIX: &[u8] = b"table/";
/// Begins the rows of [`Intent`]s; the first tree follows, as eight hexadecimal digits.
pub(super) const INTENT_PREFIX: &[u8] = b"intent/";
/// Begins the rows of the front's records; the name follows.
pub(super) const RECORD_PREFIX: &[u8] = b"admin/";
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

    /// Replaces the record of a table.
    fn put_table(&self, table: &TableSchema) -> Result<()>;

    /// Notes the intent to create or drop `trees`, before any of it is done.
    fn intend(&self, trees: &[TreeId]) -> Result<()>;

    /// Removes an intent that was carried out.
    fn forget(&self, trees: &[TreeId]) -> Result<()>;

    fn intents(&self) -> Result<Vec<Intent>>;

    /// Creates the record of a table whose trees were intended and are there, and removes the
    /// intent: both or none.
    fn create_table(&self, table: &TableSchema) -> Result<()>;

    /// Removes the record of a table and `records` of the front, and notes the intent to drop the
    /// table's trees: all or none.
    fn remove_table(&self, table: &TableSchema, records: &[RecordChange]) -> Result<()>;

    /// Returns every record of the front by its name.
    fn records(&self) -> Result<Vec<(String, Bytes)>>;

    /// Changes records of the front: all or none.
    fn change_records(&self, changes: &[RecordChange]) -> Result<()>;

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
                Ok(table) => tables.push(table),
                Err(_) => damaged.push(row.to_vec()),
            }
            Ok(())
        })?;
        self.read(RowRange::prefix(RECORD_PREFIX), |row, record| {
            if decode_record(row, record).is_err() {
                damaged.push(row.to_vec());
            }
            Ok(())
        })?;
        Ok((tables, damaged))
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
        || [TABLE_PREFIX, INTENT_PREFIX, RECORD_PREFIX].iter().any(|prefix| row.starts_with(prefix))
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

/// Returns name and bytes of the front's record in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_record(row: &[u8], record: &[u8]) -> Result<(String, Bytes)> {
    let name = row.strip_prefix(RECORD_PREFIX).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| damaged(row, "its name is not UTF-8"))?;
    match record.split_first() {
        Some((&RECORD_VERSION, value)) => Ok((name.to_owned(), Bytes::copy_from_slice(value))),
        Some((version, _)) => Err(damaged(
            row,
            format!(
                "record of version {version}, but this Stele reads versions up to \
                 {RECORD_VERSION}; use a newer Stele"
            ),
        )),
        None => Err(damaged(row, "the record is empty")),
    }
}

/// Adds a change of a front's record to a batch.
fn put_change(batch: &mut WriteBatch, change: &RecordChange) {
    let row = [RECORD_PREFIX, change.name.as_bytes()].concat();
    match &change.value {
        None => batch.delete_row(&row),
        Some(value) => {
            let record = [&[RECORD_VERSION], &value[..]].concat();
            batch.put(&row, Column::of(FAMILY, b""), Timestamp(0), &record);
        }
    }
}

fn damaged(row: &[u8], what: impl std::fmt::Display) -> Error {
    Error::DataLoss(format!("system tree, row '{}': {what}", row.escape_ascii()))
}

fn put_record(batch: &mut WriteBatch, table: &TableSchema) {
    let record = record::encode(table);
    batch.put(&table_row(&table.name), Column::of(FAMILY, b""), Timestamp(0), &record);
}

fn put_intent(batch: &mut WriteBatch, trees: &[TreeId]) {
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
            tables.push(decode_table(row, record)?);
            Ok(())
        })?;
        Ok(tables)
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

    fn create_table(&self, table: &TableSchema) -> Result<()> {
        let mut batch = WriteBatch::new();
        put_record(&mut batch, table);
        batch.delete_row(&intent_row(&trees_of(table)));
        self.write(&batch)
    }

    fn remove_table(&self, table: &TableSchema, records: &[RecordChange]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_row(&table_row(&table.name));
        records.iter().for_each(|change| put_change(&mut batch, change));
        put_intent(&mut batch, &trees_of(table));
        self.write(&batch)
    }

    fn records(&self) -> Result<Vec<(String, Bytes)>> {
        let mut records = Vec::new();
        self.read(RowRange::prefix(RECORD_PREFIX), |row, record| {
            records.push(decode_record(row, record)?);
            Ok(())
        })?;
        Ok(records)
    }

    fn change_records(&self, changes: &[RecordChange]) -> Result<()> {
        let mut batch = WriteBatch::new();
        changes.iter().for_each(|change| put_change(&mut batch, change));
        self.write(&batch)
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
