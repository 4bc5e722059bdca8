//! The record of a table in the system tree; see docs/format/schema.md.

use crate::gc::GcRule;
use crate::limits;
use crate::schema::{Aggregate, FamilySchema, TableName, TableSchema, Tablet, ValueType};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::{FamilyId, TreeId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The version written.
const VERSION: u8 = 1;
const FLAG_DELETION_PROTECTION: u8 = 1;

/// Why a record could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordError {
    Decode(DecodeError),
    Version(u8),
    Invalid(&'static str),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "table record: {error}"),
            Self::Version(version) => write!(
                f,
                "table record of version {version}, but this Stele reads versions up to \
                 {VERSION}; use a newer Stele"
            ),
            Self::Invalid(what) => write!(f, "table record: invalid {what}"),
        }
    }
}

impl From<DecodeError> for RecordError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// The record of `schema`.
pub(crate) fn encode(schema: &TableSchema) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.put_string(schema.name.as_str().as_bytes());
    out.push(if schema.deletion_protection { FLAG_DELETION_PROTECTION } else { 0 });
    out.put_i64(schema.created_micros);
    out.put_u16(schema.next_family);
    out.put_varint(schema.families.len() as u64);
    for family in schema.families.values() {
        out.put_u16(family.id.0);
        out.put_string(family.name.as_bytes());
        out.push(match family.value_type {
            ValueType::Raw => 1,
            ValueType::Aggregate(Aggregate::SumInt64) => 2,
            ValueType::Aggregate(Aggregate::MinInt64) => 3,
            ValueType::Aggregate(Aggregate::MaxInt64) => 4,
        });
        encode_rule(&family.gc, &mut out);
    }
    out.put_varint(schema.tablets.len() as u64);
    for tablet in &schema.tablets {
        out.put_string(&tablet.start);
        out.put_u32(tablet.tree.0);
    }
    out
}

fn encode_rule(rule: &GcRule, out: &mut Vec<u8>) {
    let (tag, rules) = match rule {
        GcRule::KeepAll => return out.push(1),
        GcRule::MaxVersions(max) => {
            out.push(2);
            return out.put_u32(*max);
        }
        GcRule::MaxAge(age) => {
            out.push(3);
            return out.put_u64(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        }
        GcRule::Union(rules) => (4, rules),
        GcRule::Intersection(rules) => (5, rules),
    };
    out.push(tag);
    out.put_varint(rules.len() as u64);
    rules.iter().for_each(|rule| encode_rule(rule, out));
}

/// The table in `record`, every invariant of [`TableSchema`] checked.
pub(crate) fn decode(record: &[u8]) -> Result<TableSchema, RecordError> {
    let mut reader = ByteReader::new(record);
    let version = reader.u8("version")?;
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let name = text(&mut reader, "table name")?;
    let name = TableName::new(name).map_err(|_| RecordError::Invalid("table name"))?;
    let flags = reader.u8("flags")?;
    if flags & !FLAG_DELETION_PROTECTION != 0 {
        return Err(RecordError::Invalid("flags"));
    }
    let created_micros = reader.i64("creation time")?;
    let next_family = reader.u16("next family")?;
    let mut families: BTreeMap<_, FamilySchema> = BTreeMap::new();
    let mut ids = Vec::new();
    for _ in 0..reader.varint("family count")? {
        let family = decode_family(&mut reader)?;
        ids.push(family.id);
        let in_range = family.id != FamilyId::ROW && family.id.0 < next_family;
        let in_order = families.last_key_value().is_none_or(|(last, _)| *last < family.name);
        if !in_range || !in_order {
            return Err(RecordError::Invalid("family"));
        }
        families.insert(family.name.clone(), family);
    }
    ids.sort_unstable();
    if !ids.is_sorted_by(|a, b| a < b) {
        return Err(RecordError::Invalid("family id"));
    }
    let tablets = decode_tablets(&mut reader)?;
    reader.finish()?;
    Ok(TableSchema {
        name,
        families,
        next_family,
        tablets,
        deletion_protection: flags & FLAG_DELETION_PROTECTION != 0,
        created_micros,
    })
}

fn text<'a>(reader: &mut ByteReader<'a>, what: &'static str) -> Result<&'a str, RecordError> {
    std::str::from_utf8(reader.string(what)?).map_err(|_| RecordError::Invalid(what))
}

fn decode_family(reader: &mut ByteReader<'_>) -> Result<FamilySchema, RecordError> {
    let id = FamilyId(reader.u16("family id")?);
    let name = text(reader, "family name")?;
    limits::check_family_name("", name).map_err(|_| RecordError::Invalid("family name"))?;
    let value_type = match reader.u8("value type")? {
        1 => ValueType::Raw,
        2 => ValueType::Aggregate(Aggregate::SumInt64),
        3 => ValueType::Aggregate(Aggregate::MinInt64),
        4 => ValueType::Aggregate(Aggregate::MaxInt64),
        _ => return Err(RecordError::Invalid("value type")),
    };
    let gc = decode_rule(reader, 1)?;
    gc.validate().map_err(|_| RecordError::Invalid("GC rule"))?;
    Ok(FamilySchema { id, name: name.into(), gc, value_type })
}

fn decode_rule(reader: &mut ByteReader<'_>, depth: usize) -> Result<GcRule, RecordError> {
    if depth > limits::GC_DEPTH_MAX {
        return Err(RecordError::Invalid("GC rule nesting"));
    }
    let tag = reader.u8("GC rule")?;
    Ok(match tag {
        1 => GcRule::KeepAll,
        2 => GcRule::MaxVersions(reader.u32("versions")?),
        3 => GcRule::MaxAge(Duration::from_micros(reader.u64("age")?)),
        4 | 5 => {
            let mut rules = Vec::new();
            for _ in 0..reader.varint("rule count")? {
                rules.push(decode_rule(reader, depth + 1)?);
            }
            if tag == 4 { GcRule::Union(rules) } else { GcRule::Intersection(rules) }
        }
        _ => return Err(RecordError::Invalid("GC rule")),
    })
}

fn decode_tablets(reader: &mut ByteReader<'_>) -> Result<Vec<Tablet>, RecordError> {
    let mut tablets: Vec<Tablet> = Vec::new();
    for _ in 0..reader.varint("tablet count")? {
        let start = Bytes::copy_from_slice(reader.string("tablet start")?);
        let in_order = match tablets.last() {
            None => start.is_empty(),
            Some(last) => last.start < start,
        };
        if !in_order {
            return Err(RecordError::Invalid("tablet start"));
        }
        tablets.push(Tablet { start, tree: TreeId(reader.u32("tree")?) });
    }
    if tablets.is_empty() {
        return Err(RecordError::Invalid("tablet count"));
    }
    Ok(tablets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableSchema {
        let family = |id: u16, name: &str, value_type, gc| {
            let name: std::sync::Arc<str> = name.into();
            (name.clone(), FamilySchema { id: FamilyId(id), name, gc, value_type })
        };
        let nested = GcRule::Union(vec![
            GcRule::MaxVersions(3),
            GcRule::Intersection(vec![GcRule::MaxAge(Duration::from_secs(1)), GcRule::KeepAll]),
        ]);
        TableSchema {
            name: TableName::new("p/i/t").unwrap(),
            families: BTreeMap::from([
                family(1, "raw", ValueType::Raw, nested),
                family(3, "sum", ValueType::Aggregate(Aggregate::SumInt64), GcRule::KeepAll),
            ]),
            next_family: 4,
            tablets: vec![
                Tablet { start: Bytes::new(), tree: TreeId(16) },
                Tablet { start: "m".into(), tree: TreeId(17) },
            ],
            deletion_protection: true,
            created_micros: 7,
        }
    }

    #[test]
    fn records_round_trip() {
        assert_eq!(decode(&encode(&table())), Ok(table()));
    }

    #[test]
    fn version_1_is_frozen() {
        let golden = "01 05702f692f74 01 0700000000000000 0400 02 \
                      0100 03726177 01 04 02 02 03000000 05 02 03 40420f0000000000 01 \
                      0300 0373756d 02 01 \
                      02 00 10000000 016d 11000000";
        let bytes: String = encode(&table()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, golden.replace(' ', ""));
    }

    #[test]
    fn damaged_records_are_refused_or_harmless() {
        let record = encode(&table());
        for len in 0..record.len() {
            assert!(decode(&record[..len]).is_err(), "cut to {len}");
        }
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut record = record.clone();
                record[at] ^= 1 << bit;
                if let Ok(table) = decode(&record) {
                    assert_eq!(encode(&table), record, "byte {at}");
                }
            }
        }
        assert_eq!(decode(&[2]), Err(RecordError::Version(2)));
    }
}
