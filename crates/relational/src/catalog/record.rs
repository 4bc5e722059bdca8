//! Records of the catalog in its tree: docs/format/relational_catalog.md.
//!
//! A record is a version and the fields of one object as JSON. A field that this Stele does not know is
//! refused: a newer one wrote it.

use super::{Catalog, ForeignKey, Role, Schema, Sequence, Table, ViewDefinition, WideTable};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::Oid;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// First byte of every record of another kind than the next two.
const VERSION: u8 = 1;
/// First byte of the records of Bigtable tables.
const VERSION_OF_WIDE: u8 = 2;
/// First byte of the records of tables with foreign keys.
const VERSION_OF_REFERENCES: u8 = 3;
/// First byte of the records of columnar tables.
const VERSION_OF_COLUMNAR: u8 = 4;
/// Longest record that is read.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// One object of the catalog.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Object {
    /// Name and next number of the whole database.
    Database(Header),
    /// A schema of the database.
    Schema(Schema),
    /// A table with columns and indexes.
    Table(Box<Table>),
    /// A query with a name.
    View(Box<ViewDefinition>),
    /// The definition of a sequence.
    Sequence(Box<Sequence>),
    /// A role of the database.
    Role(Role),
    /// A Bigtable table that is declared, or that something was granted on.
    Wide(Box<WideTable>),
}

/// Name and next number of the whole database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// Name of the whole database.
    pub name: String,
    /// Number that the next object gets.
    pub next_oid: Oid,
    /// Number of the catalog's version: another one after each commit that changes it.
    #[serde(default)]
    pub version: u64,
}

/// The row with the [`Header`].
pub(crate) const HEADER_ROW: &[u8] = b"od\0\0\0\0";

impl Object {
    /// Returns the row of the catalog's tree that has the object.
    pub(crate) fn row(&self) -> Vec<u8> {
        match self {
            Self::Database(_) => row(b'd', 0),
            Self::Schema(schema) => row(b'n', schema.oid),
            Self::Table(table) => row(b't', table.oid),
            Self::View(view) => row(b'v', view.oid),
            Self::Sequence(sequence) => row(b's', sequence.oid),
            Self::Role(role) => row(b'r', role.oid),
            Self::Wide(wide) => row(b'w', wide.oid),
        }
    }

    fn version(&self) -> u8 {
        match self {
            Self::Wide(_) => VERSION_OF_WIDE,
            Self::Table(table) if table.is_columnar() => VERSION_OF_COLUMNAR,
            Self::Table(table) if !table.foreign_keys.is_empty() => VERSION_OF_REFERENCES,
            _ => VERSION,
        }
    }

    /// Returns the record of the object. 54000 if it is longer than what is read.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut record = vec![self.version()];
        let written = serde_json::to_writer(&mut record, self);
        written.map_err(|error| Error::internal(format!("a record of the catalog: {error}")))?;
        if record.len() > RECORD_BYTES_MAX {
            let (length, max) = (record.len(), RECORD_BYTES_MAX >> 20);
            let text = format!("the definition takes {length} bytes, over the limit of {max} MiB");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        Ok(record)
    }

    /// Returns the object in a row of the catalog's tree. XX001 if the record cannot be read.
    pub(crate) fn decode(at: &[u8], record: &[u8]) -> Result<Self> {
        let damaged = |what: String| {
            let row = at.escape_ascii();
            Error::corrupted(format!("tree 2, row '{row}' of the catalog of tables: {what}"))
        };
        let (version, body) = match record.split_first() {
            Some((version, body)) if body.len() <= RECORD_BYTES_MAX => (*version, body),
            _ => return Err(damaged("the record is empty or too long".to_owned())),
        };
        if !(VERSION..=VERSION_OF_COLUMNAR).contains(&version) {
            let text = format!(
                "record of version {version}, but this Stele reads versions up to {VERSION_OF_COLUMNAR}"
            );
            return Err(damaged(format!("{text}; use a newer Stele")));
        }
        let object: Self =
            serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))?;
        if object.row() != at {
            return Err(damaged("the record belongs to another row".to_owned()));
        }
        if object.version() != version {
            return Err(damaged("the record has the version of another kind".to_owned()));
        }
        object.check().map_err(damaged)?;
        Ok(object)
    }

    /// Checks what the rest of the program takes for granted.
    fn check(&self) -> Result<(), String> {
        let table = match self {
            Self::Table(table) => table,
            Self::Wide(wide) if wide.columns.is_empty() => {
                return Err("no columns".to_owned());
            }
            _ => return Ok(()),
        };
        let numbers: Vec<_> = table.columns.iter().map(|column| column.number).collect();
        let ascend = numbers.is_sorted_by(|a, b| a < b);
        let in_range = |number: &i16| *number >= 1 && *number < table.next_column;
        if !ascend || !numbers.iter().all(in_range) {
            return Err("numbers of columns".to_owned());
        }
        let key = table.primary_key.iter().map(|key| &key.parts);
        let of_indexes = table.indexes.iter().map(|index| &index.parts);
        let mut parts = key.chain(of_indexes);
        if !parts.all(|parts| {
            !parts.is_empty() && parts.iter().all(|part| numbers.contains(&part.column))
        }) {
            return Err("columns of a key".to_owned());
        }
        let fits = |key: &ForeignKey| {
            !key.columns.is_empty()
                && key.columns.len() == key.referenced.len()
                && key.columns.iter().all(|column| numbers.contains(column))
        };
        if !table.foreign_keys.iter().all(fits) {
            return Err("columns of a foreign key".to_owned());
        }
        let mut used: Vec<_> = table.indexes.iter().map(|index| index.part).collect();
        used.sort_unstable();
        if let Some(columnar) = &table.columnar {
            let has_keys = table.primary_key.is_some() || !table.foreign_keys.is_empty();
            if has_keys || !used.is_empty() || columnar.pages == table.tree {
                return Err("a columnar table with keys, or with one tree".to_owned());
            }
        }
        let parts_fit = used.iter().all(|part| *part > super::ROWS_PART && *part < table.next_part);
        if !parts_fit || !used.is_sorted_by(|a, b| a < b) {
            return Err("parts of indexes".to_owned());
        }
        Ok(())
    }
}

fn row(kind: u8, oid: Oid) -> Vec<u8> {
    let mut row = vec![b'o', kind];
    row.extend_from_slice(&oid.to_be_bytes());
    row
}

/// First byte of the rows of objects.
pub(crate) const OBJECTS_PREFIX: &[u8] = b"o";

/// Returns the row with the state of a sequence.
pub(crate) fn sequence_state_row(sequence: Oid) -> Vec<u8> {
    let mut row = vec![b'q'];
    row.extend_from_slice(&sequence.to_be_bytes());
    row
}

/// First byte of the rows with the states of sequences.
pub(crate) const STATES_PREFIX: &[u8] = b"q";

impl Catalog {
    /// Adds an object that was read. The last one of an oid counts.
    pub(crate) fn put(&mut self, object: Object) {
        match object {
            Object::Database(header) => {
                self.database = header.name;
                self.next_oid = header.next_oid;
                self.version = header.version.max(1);
            }
            Object::Schema(schema) => self.put_schema(schema),
            Object::Table(table) => self.put_table(*table),
            Object::View(view) => self.put_view(*view),
            Object::Sequence(sequence) => self.put_sequence(*sequence),
            Object::Role(role) => self.put_role(role),
            Object::Wide(wide) => self.put_wide(*wide),
        }
    }

    /// Returns the object of each kind with this number; an oid is of one object only.
    pub(crate) fn object(&self, oid: Oid) -> Option<Object> {
        let table = || self.table(oid).map(|table| Object::Table(Box::new(Table::clone(table))));
        let view =
            || self.view(oid).map(|view| Object::View(Box::new(ViewDefinition::clone(view))));
        let sequence = || {
            let sequence: Option<&Arc<Sequence>> = self.sequence(oid);
            sequence.map(|sequence| Object::Sequence(Box::new(Sequence::clone(sequence))))
        };
        let schema = || self.schema(oid).map(|schema| Object::Schema(Schema::clone(schema)));
        let role = || self.role(oid).map(|role| Object::Role(Role::clone(role)));
        let wide = || {
            let kept = self.kept_wides().get(&oid).or_else(|| self.wide(oid));
            kept.map(|wide| Object::Wide(Box::new(WideTable::clone(wide))))
        };
        table().or_else(view).or_else(sequence).or_else(schema).or_else(role).or_else(wide)
    }

    /// Returns the header of the database.
    pub(crate) fn header(&self) -> Object {
        let (name, next_oid) = (self.database.clone(), self.next_oid);
        Object::Database(Header { name, next_oid, version: self.version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Columnar, KeyAction, KeyMatch, WideColumn, WideEncoding, WideSource};
    use crate::types::DataType;

    #[test]
    fn a_field_that_is_not_known_is_refused_at_every_depth() {
        let schema = Object::Schema(Schema {
            oid: 20_000,
            name: "s".to_owned(),
            owner: 10,
            comment: None,
            grants: Vec::new(),
        });
        let record = schema.encode().unwrap();
        assert!(Object::decode(&schema.row(), &record).is_ok());
        let text = String::from_utf8(record).unwrap();
        for (from, to) in [("{\"oid\"", "{\"new\":1,\"oid\""), ("[]", "[{\"new\":1}]")] {
            let error = Object::decode(&schema.row(), text.replace(from, to).as_bytes());
            assert!(error.unwrap_err().message.contains("unknown field `new`"));
        }
    }

    #[test]
    fn a_record_that_would_not_be_read_is_not_written() {
        let header = |length: usize| {
            Object::Database(Header { name: "x".repeat(length), next_oid: 1, version: 1 })
        };
        let fits = header(RECORD_BYTES_MAX - 100);
        assert!(Object::decode(HEADER_ROW, &fits.encode().unwrap()).is_ok());
        let error = header(RECORD_BYTES_MAX).encode().unwrap_err();
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    fn wide() -> Object {
        let newest = WideSource::Newest { family: "f".to_owned(), qualifier: vec![0, 0xff] };
        let column = |name: &str, source| WideColumn {
            name: name.to_owned(),
            data_type: DataType::Bytea,
            source,
            encoding: WideEncoding::Binary,
            not_null: true,
            comment: None,
        };
        Object::Wide(Box::new(WideTable {
            oid: 16_400,
            schema: 2_200,
            name: "w".to_owned(),
            owner: 10,
            table: "projects/p/instances/i/tables/t".to_owned(),
            columns: vec![column("k", WideSource::Key), column("v", newest)],
            comment: None,
            grants: Vec::new(),
        }))
    }

    #[test]
    fn a_record_of_a_bigtable_table_has_a_version_that_older_programs_refuse() {
        let object = wide();
        let record = object.encode().unwrap();
        assert_eq!((record[0], object.row()), (2, b"ow\0\0\x40\x10".to_vec()));
        let again = Object::decode(&object.row(), &record).unwrap();
        assert_eq!(again.encode().unwrap(), record);
        for version in [0, 1, 3, 4] {
            let other = [&[version][..], &record[1..]].concat();
            let error = Object::decode(&object.row(), &other).unwrap_err();
            assert_eq!(error.state.code(), "XX001", "version {version}");
        }
        let schema = Object::Schema(Schema {
            oid: 16_401,
            name: "s".to_owned(),
            owner: 10,
            comment: None,
            grants: Vec::new(),
        });
        assert_eq!(schema.encode().unwrap()[0], 1);
    }

    #[test]
    fn a_record_of_a_table_with_foreign_keys_has_a_version_that_older_programs_refuse() {
        let mut table = crate::fuzz::table();
        let plain = Object::Table(Box::new(table.clone())).encode().unwrap();
        assert_eq!(plain[0], 1);
        table.foreign_keys.push(ForeignKey {
            oid: 30,
            name: "k".to_owned(),
            columns: vec![3],
            references: 1,
            referenced: vec![3],
            index: 4,
            on_delete: KeyAction::SetNull,
            on_update: KeyAction::Cascade,
            matching: KeyMatch::Full,
        });
        let object = Object::Table(Box::new(table));
        let record = object.encode().unwrap();
        assert_eq!(record[0], 3);
        let again = Object::decode(&object.row(), &record).unwrap();
        assert_eq!(again.encode().unwrap(), record);
        for (version, body) in [(1, &record[1..]), (2, &record[1..]), (3, &plain[1..])] {
            let other = [&[version][..], body].concat();
            let error = Object::decode(&object.row(), &other).unwrap_err();
            assert_eq!(error.state.code(), "XX001", "version {version}");
        }
    }

    #[test]
    fn a_record_of_a_columnar_table_has_a_version_that_older_programs_refuse() {
        let mut table = crate::fuzz::table();
        table.columnar = Some(Columnar { pages: 17 });
        let keyed = Object::Table(Box::new(table.clone()));
        let error = Object::decode(&keyed.row(), &keyed.encode().unwrap()).unwrap_err();
        assert_eq!(error.state.code(), "XX001", "a key");
        table.primary_key = None;
        let object = Object::Table(Box::new(table.clone()));
        let record = object.encode().unwrap();
        assert_eq!(record[0], 4);
        let again = Object::decode(&object.row(), &record).unwrap();
        assert_eq!(again.encode().unwrap(), record);
        for version in [1, 2, 3, 5] {
            let other = [&[version][..], &record[1..]].concat();
            let error = Object::decode(&object.row(), &other).unwrap_err();
            assert_eq!(error.state.code(), "XX001", "version {version}");
        }
        table.columnar = Some(Columnar { pages: table.tree });
        let object = Object::Table(Box::new(table));
        let error = Object::decode(&object.row(), &object.encode().unwrap()).unwrap_err();
        assert_eq!(error.state.code(), "XX001", "one tree");
    }

    #[test]
    fn a_cut_record_is_damage() {
        let (row, record) = (wide().row(), wide().encode().unwrap());
        for len in 0..record.len() {
            assert!(Object::decode(&row, &record[..len]).is_err(), "{len} bytes");
        }
    }
}
