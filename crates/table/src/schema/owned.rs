//! The record by which a front other than Bigtable's owns trees: a table record of version 3, see
//! docs/format/schema.md.
//!
//! A Stele that does not know version 3 refuses the store, so it never takes such a tree for one that no
//! table owns.

use super::record::RecordError;
use base::codec::{ByteReader, PutBytes};
use engine::TreeId;

/// First byte of the record.
pub(crate) const OWNED_VERSION: u8 = 3;
/// Begins the names of tables of the relational layer; the number of the table follows.
pub const SQL_PREFIX: &str = "sql/";
/// Tag of the relational layer as owner.
const SQL: u8 = 1;

/// Trees that a table of another layer owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTrees {
    /// Name of the table: [`SQL_PREFIX`] and the number of the table. No front lists it.
    pub name: String,
    /// Trees of the table. At least one.
    pub trees: Vec<TreeId>,
}

impl OwnedTrees {
    /// Returns the trees of the table with this number of the relational catalog.
    pub fn of_sql(oid: u32, trees: Vec<TreeId>) -> Self {
        Self { name: format!("{SQL_PREFIX}{oid}"), trees }
    }

    /// Returns true if the record is one of owned trees.
    pub(crate) fn is_record(record: &[u8]) -> bool {
        record.first() == Some(&OWNED_VERSION)
    }

    /// Returns the bytes of the record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![OWNED_VERSION, SQL];
        out.put_string(self.name.as_bytes());
        out.put_varint(self.trees.len() as u64);
        self.trees.iter().for_each(|tree| out.put_u32(tree.0));
        out
    }

    /// Returns the owner and the trees in `record`.
    pub(crate) fn decode(record: &[u8]) -> Result<Self, RecordError> {
        let mut reader = ByteReader::new(record);
        let version = reader.u8("version")?;
        if version != OWNED_VERSION {
            return Err(RecordError::Version(version));
        }
        if reader.u8("owner")? != SQL {
            return Err(RecordError::Invalid("owner"));
        }
        let name = std::str::from_utf8(reader.string("table name")?);
        let name = name.map_err(|_| RecordError::Invalid("table name"))?;
        let number = name.strip_prefix(SQL_PREFIX).and_then(|number| number.parse::<u32>().ok());
        if number.is_none_or(|number| format!("{SQL_PREFIX}{number}") != name) {
            return Err(RecordError::Invalid("table name"));
        }
        let mut trees = Vec::new();
        for _ in 0..reader.varint("tree count")? {
            trees.push(TreeId(reader.u32("tree")?));
        }
        reader.finish()?;
        if trees.is_empty() || !trees.iter().all(|tree| *tree >= TreeId::FIRST_OF_TABLES) {
            return Err(RecordError::Invalid("tree"));
        }
        Ok(Self { name: name.to_owned(), trees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned() -> OwnedTrees {
        OwnedTrees::of_sql(16_400, vec![TreeId(16), TreeId(300)])
    }

    #[test]
    fn version_3_is_frozen() {
        let golden = "03 01 09 73716c2f3136343030 02 10000000 2c010000";
        let bytes: String = owned().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, golden.replace(' ', ""));
        assert_eq!(OwnedTrees::decode(&owned().encode()), Ok(owned()));
    }

    #[test]
    fn damaged_records_are_refused_or_harmless() {
        let record = owned().encode();
        for len in 0..record.len() {
            assert!(OwnedTrees::decode(&record[..len]).is_err(), "cut to {len}");
        }
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut record = record.clone();
                record[at] ^= 1 << bit;
                if let Ok(owned) = OwnedTrees::decode(&record) {
                    assert_eq!(owned.encode(), record, "byte {at}");
                }
            }
        }
    }
}
