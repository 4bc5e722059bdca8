//! Where the schema is kept: behind [`MetaStore`], for one machine in the system tree of the same
//! engine (docs/format/schema.md).

use crate::error::{Error, Result};
use crate::schema::{TableName, TableSchema};
use crate::schema_record;
use engine::TreeOptions;
use engine::{Column, Engine, FamilyId, RowRange, ScanRequest, Timestamp, TreeId, WriteBatch};
use parking_lot::Mutex;
use std::ops::Range;

/// The tree of the schema.
pub(crate) const SYSTEM_TREE: TreeId = TreeId(1);
/// The first tree of a tablet.
pub(crate) const FIRST_TABLET_TREE: TreeId = TreeId(16);

const FAMILY: FamilyId = FamilyId(1);
pub(super) const NEXT_TREE_ROW: &[u8] = b"next_tree";
pub(super) const TABLE_PREFIX: &[u8] = b"table/";

/// Keeps the schema of all tables. Every change is durable when its call returns. Calls block, and
/// changes come one at a time.
pub trait MetaStore: Send + Sync + 'static {
    /// All tables.
    fn tables(&self) -> Result<Vec<TableSchema>>;

    /// Creates or replaces the record of a table.
    fn put_table(&self, table: &TableSchema) -> Result<()>;

    /// Removes the record of a table.
    fn remove_table(&self, table: &TableName) -> Result<()>;

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
    /// The schema of `engine`, whose system tree is created if it is missing.
    pub(crate) fn open(engine: Engine) -> Result<Self> {
        if !engine.trees().contains(&SYSTEM_TREE) {
            engine.create_tree(SYSTEM_TREE, TreeOptions::default())?;
        }
        Ok(Self { engine, aside: Mutex::default() })
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.engine.write(SYSTEM_TREE, batch)?;
        // Whatever the durability of the log: the trees this change is about are next.
        Ok(self.engine.sync()?)
    }

    /// Calls `each` with row and value of every cell in `rows`.
    fn read(&self, rows: RowRange, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut scan = self.engine.scan(SYSTEM_TREE, &ScanRequest::rows(rows), None)?;
        while let Some(row) = scan.next_row()? {
            let row = row.to_vec();
            if let Some(cell) = scan.next_cell()? {
                each(&row, cell.value)?;
            }
        }
        Ok(())
    }

    /// Whether the system tree holds nothing but a schema. It may be an engine's of another use.
    pub(super) fn is_schema(&self) -> Result<bool> {
        let mut only = true;
        self.read(RowRange::ALL, |row, _| {
            only &= row == NEXT_TREE_ROW || row.starts_with(TABLE_PREFIX);
            Ok(())
        })?;
        Ok(only)
    }

    /// The tables whose records can be read, and the rows of those that cannot.
    pub(super) fn readable_tables(&self) -> Result<(Vec<TableSchema>, Vec<Vec<u8>>)> {
        let (mut tables, mut damaged) = (Vec::new(), Vec::new());
        self.read(RowRange::prefix(TABLE_PREFIX), |row, record| {
            match decode_table(row, record) {
                Ok(table) => tables.push(table),
                Err(_) => damaged.push(row.to_vec()),
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
        let mut next = FIRST_TABLET_TREE;
        self.read(RowRange::single(NEXT_TREE_ROW), |_, value| {
            let value = value.try_into().map_err(|_| damaged(NEXT_TREE_ROW, "not a u32"))?;
            next = next.max(TreeId(u32::from_le_bytes(value)));
            Ok(())
        })?;
        let used = self.engine.trees().into_iter().max().map_or(0, |tree| tree.0);
        Ok(next.max(TreeId(used.saturating_add(1))))
    }
}

fn table_row(table: &TableName) -> Vec<u8> {
    [TABLE_PREFIX, table.as_str().as_bytes()].concat()
}

/// The table whose record stands in `row`; `DataLoss` if it cannot be read.
pub(super) fn decode_table(row: &[u8], record: &[u8]) -> Result<TableSchema> {
    let table = schema_record::decode(record).map_err(|error| damaged(row, error))?;
    if table_row(&table.name) != row {
        return Err(damaged(row, "the record is another table's"));
    }
    Ok(table)
}

fn damaged(row: &[u8], what: impl std::fmt::Display) -> Error {
    Error::DataLoss(format!("system tree, row '{}': {what}", row.escape_ascii()))
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
        let record = schema_record::encode(table);
        batch.put(&table_row(&table.name), Column::of(FAMILY, b""), Timestamp(0), &record);
        self.write(&batch)
    }

    fn remove_table(&self, table: &TableName) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_row(&table_row(table));
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
