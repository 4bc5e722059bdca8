//! Foreign keys of tables: columns of one table that name rows of another one, or of the same.
//!
//! 1. The referenced columns are the columns of one unique index, or of the primary key, in any order.
//! 2. A value of a referencing column is looked for as one of the referenced column's type, and back. A value that the
//!    other type does not have is not there.

use super::{Catalog, ColumnNumber, Table};
use crate::error::Error;
use crate::state::SqlState;
use crate::types::{DataType, Oid, Value};
use serde::{Deserialize, Serialize};

/// A foreign key of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// Number of the constraint in the catalog.
    pub oid: Oid,
    /// Name of the constraint in its table.
    pub name: String,
    /// The referencing columns, in the order of the constraint.
    pub columns: Vec<ColumnNumber>,
    /// Number of the referenced table, which may be the table itself.
    pub references: Oid,
    /// The referenced columns, each for the one of `columns` at its place.
    pub referenced: Vec<ColumnNumber>,
    /// Number of the referenced primary key or unique index.
    pub index: Oid,
    /// The answer to a delete of a referenced row.
    pub on_delete: KeyAction,
    /// The answer to a change of a referenced key.
    pub on_update: KeyAction,
    /// The rule for keys with NULL.
    pub matching: KeyMatch,
}

/// The answer to a referenced row that goes, or gets another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum KeyAction {
    /// The change is refused if there are referencing rows at the end of the statement.
    #[default]
    NoAction,
    /// The change is refused if there are referencing rows.
    Restrict,
    /// The referencing rows are deleted, or get the other key.
    Cascade,
    /// The referencing columns become NULL.
    SetNull,
    /// The referencing columns get their defaults.
    SetDefault,
}

/// The rule for keys with NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum KeyMatch {
    /// A key with NULL references nothing.
    #[default]
    Simple,
    /// Either all columns are NULL, or none is.
    Full,
}

impl ForeignKey {
    /// Returns the places of the referencing columns in a row.
    pub fn places(&self, table: &Table) -> Vec<usize> {
        self.columns.iter().filter_map(|number| table.place(*number)).collect()
    }

    /// Returns the places of the referenced columns in a row, in the order of [`Self::columns`].
    pub fn referenced_places(&self, referenced: &Table) -> Vec<usize> {
        self.referenced.iter().filter_map(|number| referenced.place(*number)).collect()
    }

    /// Returns the values of the index of the referenced table for the values of referencing columns. Nothing if the
    /// index can have no such values.
    pub fn wanted(&self, referenced: &Table, values: &[Value]) -> Option<Vec<Value>> {
        let parts = referenced.index_parts(self.index)?;
        let value = |number: ColumnNumber| {
            let at = self.referenced.iter().position(|known| *known == number)?;
            let column = &referenced.columns[referenced.place(number)?];
            converted(values.get(at)?, &column.data_type)
        };
        parts.iter().map(|part| value(part.column)).collect()
    }

    /// Returns the values of referencing columns that reference a key, given in the order of [`Self::columns`].
    /// Nothing if the columns can have no such values, or the key has NULL.
    pub fn referencing(&self, table: &Table, key: &[Value]) -> Option<Vec<Value>> {
        let value = |(number, value): (&ColumnNumber, &Value)| {
            converted(value, &table.columns[table.place(*number)?].data_type)
        };
        self.columns.iter().zip(key).map(value).collect()
    }

    /// Returns the error of a row that references no row (23503). Without `values` it does not show them.
    pub fn not_present(&self, catalog: &Catalog, table: &Table, values: Option<&[Value]>) -> Error {
        let other = catalog.table(self.references).map_or("", |other| other.name.as_str());
        let key = shown(table, &self.columns, values);
        self.violated(catalog, table, "insert or update", table)
            .with_detail(format!("{key} is not present in table \"{other}\"."))
    }

    /// Returns the error of a key with NULL beside other values, under MATCH FULL (23503).
    pub fn mixed(&self, catalog: &Catalog, table: &Table) -> Error {
        self.violated(catalog, table, "insert or update", table)
            .with_detail("MATCH FULL does not allow mixing of null and nonnull key values.")
    }

    /// Returns the error of a referenced row that cannot go (23503). Without `key`, its values in the order of
    /// [`Self::columns`], it does not show them.
    pub fn still_referenced(
        &self,
        catalog: &Catalog,
        table: &Table,
        referenced: &Table,
        key: Option<&[Value]>,
    ) -> Error {
        let key = shown(referenced, &self.referenced, key);
        let mut error = self.violated(catalog, table, "update or delete", referenced);
        error.message.push_str(&format!(" on table \"{}\"", table.name));
        error.with_detail(format!("{key} is still referenced from table \"{}\".", table.name))
    }

    fn violated(&self, catalog: &Catalog, table: &Table, verb: &str, changed: &Table) -> Error {
        let (name, changed) = (&self.name, &changed.name);
        let message =
            format!("{verb} on table \"{changed}\" violates foreign key constraint \"{name}\"");
        let schema = catalog.schema(table.schema).map_or("", |schema| schema.name.as_str());
        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .of_table(schema, &table.name)
            .of_constraint(name)
    }
}

/// Returns columns and values of a key as an error shows them.
fn shown(table: &Table, columns: &[ColumnNumber], values: Option<&[Value]>) -> String {
    let Some(values) = values else { return "Key".to_owned() };
    let names = columns.iter().filter_map(|number| table.place(*number));
    let names: Vec<_> = names.map(|place| table.columns[place].name.as_str()).collect();
    let values: Vec<_> = values.iter().map(Value::to_string).collect();
    format!("Key ({})=({})", names.join(", "), values.join(", "))
}

/// Returns true if values of one type are found among values of the other.
pub(crate) fn are_comparable(one: &DataType, two: &DataType) -> bool {
    let kind = |data_type: &DataType| match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => DataType::Int8,
        DataType::Text | DataType::Varchar(_) | DataType::Name => DataType::Text,
        DataType::Char(_) => DataType::Char(1),
        DataType::Numeric(_) => DataType::Numeric(None),
        other => other.clone(),
    };
    kind(one) == kind(two)
}

/// Returns the equal value of a comparable type; nothing for NULL, or if that type has none.
fn converted(value: &Value, data_type: &DataType) -> Option<Value> {
    let number = match value {
        Value::Null => return None,
        Value::Int2(number) => i64::from(*number),
        Value::Int4(number) => i64::from(*number),
        Value::Int8(number) => *number,
        other => return Some(other.clone()),
    };
    match data_type {
        DataType::Int2 => number.try_into().ok().map(Value::Int2),
        DataType::Int4 => number.try_into().ok().map(Value::Int4),
        _ => Some(Value::Int8(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_found_in_columns_of_other_widths() {
        let wide = Value::Int8(70_000);
        assert_eq!(converted(&wide, &DataType::Int4), Some(Value::Int4(70_000)));
        assert_eq!(converted(&wide, &DataType::Int2), None);
        assert_eq!(converted(&Value::Int2(-7), &DataType::Int8), Some(Value::Int8(-7)));
        assert_eq!(converted(&Value::Null, &DataType::Int8), None);
        assert_eq!(
            converted(&Value::text("a"), &DataType::Varchar(Some(3))),
            Some(Value::text("a"))
        );
    }

    #[test]
    fn types_are_comparable_by_their_kind() {
        use DataType::*;
        for (one, two) in [(Int2, Int8), (Varchar(Some(3)), Text), (Char(2), Char(5)), (Uuid, Uuid)]
        {
            assert!(are_comparable(&one, &two), "{one} and {two}");
        }
        for (one, two) in [(Int4, Text), (Int4, Numeric(None)), (Char(2), Text), (Float4, Float8)] {
            assert!(!are_comparable(&one, &two), "{one} and {two}");
        }
    }
}
