//! From a record to the mutations of one row.
//!
//! 1. The key fields, joined by the separator, are the row key; they are not stored again unless
//!    they are mapped to a column by name.
//! 2. Every other field becomes one cell, `family:field name` unless mapped elsewhere. An empty
//!    value makes no cell.
//! 3. All cells of one import carry one timestamp. Importing a record again therefore replaces
//!    its cells with themselves, which is what makes stopping and going on safe.

use bytes::Bytes;
use engine::Timestamp;
use interchange::records::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use table::mutate::WriteTime;
use table::{RowMutation, RowMutations};

/// `FIELD=FAMILY:QUALIFIER` of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnRule {
    field: String,
    family: String,
    qualifier: String,
}

impl FromStr for ColumnRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, column) = text.split_once('=').ok_or("write FIELD=FAMILY:QUALIFIER")?;
        let (family, qualifier) = column.split_once(':').ok_or("write FIELD=FAMILY:QUALIFIER")?;
        if field.is_empty() || family.is_empty() {
            return Err("neither the field nor the family may be empty".into());
        }
        Ok(Self { field: field.into(), family: family.into(), qualifier: qualifier.into() })
    }
}

/// Maps the fields of a record to a row key and cells.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) separator: String,
    pub(crate) family: String,
    columns: BTreeMap<Bytes, (String, Bytes)>,
    skipped: BTreeSet<Bytes>,
}

impl Mapping {
    pub(crate) fn new(
        keys: &[String],
        separator: &str,
        family: &str,
        columns: &[ColumnRule],
        skipped: &[String],
    ) -> Self {
        let bytes = |text: &String| Bytes::from(text.clone());
        let columns = columns
            .iter()
            .map(|rule| (bytes(&rule.field), (rule.family.clone(), bytes(&rule.qualifier))));
        Self {
            keys: keys.iter().map(bytes).collect(),
            separator: separator.to_owned(),
            family: family.to_owned(),
            columns: columns.collect(),
            skipped: skipped.iter().map(bytes).collect(),
        }
    }

    /// Every family that cells may go to.
    pub(crate) fn families(&self) -> BTreeSet<&str> {
        let mapped = self.columns.values().map(|(family, _)| family.as_str());
        mapped.chain([self.family.as_str()]).collect()
    }

    /// The row of `record`, or why there is none.
    pub(crate) fn row(&self, record: Record, at: Timestamp) -> Result<RowMutations, String> {
        let row = self.row_key(&record)?;
        let mut mutations = Vec::with_capacity(record.fields.len());
        for (name, value) in record.fields {
            if value.is_empty() || self.skipped.contains(&name) {
                continue;
            }
            let (family, qualifier) = match self.columns.get(&name) {
                Some((family, qualifier)) => (family.clone(), qualifier.clone()),
                None if self.keys.contains(&name) => continue,
                None => (self.family.clone(), name),
            };
            let timestamp = WriteTime::At(at);
            mutations.push(RowMutation::SetCell { family, qualifier, timestamp, value });
        }
        if mutations.is_empty() {
            return Err("only the key has a value; a row needs at least one cell".into());
        }
        if mutations.len() > table::limits::MUTATIONS_MAX {
            let max = table::limits::MUTATIONS_MAX;
            return Err(format!("{} fields exceed the limit of {max}", mutations.len()));
        }
        Ok(RowMutations { row, mutations })
    }

    fn row_key(&self, record: &Record) -> Result<Bytes, String> {
        let mut key = Vec::new();
        for (index, name) in self.keys.iter().enumerate() {
            let value = record.fields.iter().find(|(field, _)| field == name);
            let value = value.map(|(_, value)| value).filter(|value| !value.is_empty());
            let Some(value) = value else {
                return Err(format!("key field {} is missing", String::from_utf8_lossy(name)));
            };
            if index > 0 {
                key.extend_from_slice(self.separator.as_bytes());
            }
            key.extend_from_slice(value);
        }
        Ok(key.into())
    }
}
