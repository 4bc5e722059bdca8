//! The record of a table in the system tree; see docs/format/schema.md.

use super::owned::OWNED_VERSION;
use super::types::{Int64Encoding, RowKeySchema, ScalarType, StructEncoding};
use super::{Aggregate, FamilySchema, TableName, TableSchema, Tablet, UniqueInput, ValueType};
use crate::gc::GcRule;
use crate::limits::{self, Granularity};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::{FamilyId, TreeId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The newest version that is read. A record is written in the oldest version that can tell its table.
const VERSION: u8 = 2;
const FLAG_DELETION_PROTECTION: u8 = 1;
/// Tag of a value type that is a scalar, which follows.
const SCALAR: u8 = 5;
/// Tag of a value type that counts unique values; its input follows.
const UNIQUE: u8 = 6;

/// Why a record could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordError {
    Decode(DecodeError),
    Version(u8),
    /// The record is one of another layer's table: `super::OwnedTrees`.
    Owned,
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
            Self::Owned => f.write_str(
                "table record of an SQL table, which only a server that is no node of a cluster has",
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
    let version = version_of(schema);
    let mut out = vec![version];
    out.put_string(schema.name.as_str().as_bytes());
    out.push(if schema.deletion_protection { FLAG_DELETION_PROTECTION } else { 0 });
    out.put_i64(schema.created_micros);
    out.put_u16(schema.next_family);
    if version > 1 {
        out.push(match schema.granularity {
            Granularity::Millis => 1,
            Granularity::Micros => 2,
        });
        encode_row_key_schema(schema.row_key_schema.as_ref(), &mut out);
    }
    out.put_varint(schema.families.len() as u64);
    for family in schema.families.values() {
        out.put_u16(family.id.0);
        out.put_string(family.name.as_bytes());
        match family.value_type {
            ValueType::Raw => out.push(1),
            ValueType::Aggregate(Aggregate::SumInt64) => out.push(2),
            ValueType::Aggregate(Aggregate::MinInt64) => out.push(3),
            ValueType::Aggregate(Aggregate::MaxInt64) => out.push(4),
            ValueType::Aggregate(Aggregate::Unique(input)) => {
                out.extend_from_slice(&[UNIQUE, unique_byte(input)]);
            }
            ValueType::Scalar(scalar) => {
                out.push(SCALAR);
                out.extend_from_slice(&scalar_bytes(scalar));
            }
        }
        encode_rule(&family.gc, &mut out);
    }
    out.put_varint(schema.tablets.len() as u64);
    for tablet in &schema.tablets {
        out.put_string(&tablet.start);
        out.put_u32(tablet.tree.0);
    }
    out
}

/// The first version that can tell `schema`.
fn version_of(schema: &TableSchema) -> u8 {
    let types = || schema.families.values().map(|family| family.value_type);
    let is_new = schema.granularity != Granularity::Millis
        || schema.row_key_schema.is_some()
        || types().any(|value_type| {
            matches!(value_type, ValueType::Scalar(_) | ValueType::Aggregate(Aggregate::Unique(_)))
        });
    if is_new { 2 } else { 1 }
}

fn unique_byte(input: UniqueInput) -> u8 {
    match input {
        UniqueInput::Raw => 1,
        UniqueInput::Bytes => 2,
        UniqueInput::String => 3,
        UniqueInput::Int64 => 4,
    }
}

fn scalar_bytes(scalar: ScalarType) -> [u8; 2] {
    let int64 = |encoding| match encoding {
        Int64Encoding::BigEndianBytes => 1,
        Int64Encoding::OrderedCodeBytes => 2,
    };
    match scalar {
        ScalarType::Bytes => [1, 1],
        ScalarType::String => [2, 1],
        ScalarType::Int64(encoding) => [3, int64(encoding)],
        ScalarType::Timestamp(encoding) => [4, int64(encoding)],
    }
}

fn encode_row_key_schema(schema: Option<&RowKeySchema>, out: &mut Vec<u8>) {
    let Some(schema) = schema else { return out.push(0) };
    match &schema.encoding {
        StructEncoding::Singleton => out.push(1),
        StructEncoding::DelimitedBytes(delimiter) => {
            out.push(2);
            out.put_string(delimiter);
        }
        StructEncoding::OrderedCodeBytes => out.push(3),
    }
    out.put_varint(schema.fields.len() as u64);
    for (name, scalar) in &schema.fields {
        out.put_string(name.as_bytes());
        out.extend_from_slice(&scalar_bytes(*scalar));
    }
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
    if version == OWNED_VERSION {
        return Err(RecordError::Owned);
    }
    if version == 0 || version > VERSION {
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
    let (granularity, row_key_schema) = match version {
        1 => (Granularity::Millis, None),
        _ => (decode_granularity(&mut reader)?, decode_row_key_schema(&mut reader)?),
    };
    let families = decode_families(&mut reader, version, next_family)?;
    let tablets = decode_tablets(&mut reader)?;
    reader.finish()?;
    let names = families.keys().map(|name| &**name);
    let checked = row_key_schema.as_ref().map(|schema: &RowKeySchema| schema.check(names));
    checked.transpose().map_err(|_| RecordError::Invalid("row key schema"))?;
    Ok(TableSchema {
        name,
        families,
        next_family,
        tablets,
        deletion_protection: flags & FLAG_DELETION_PROTECTION != 0,
        created_micros,
        granularity,
        row_key_schema,
    })
}

fn decode_granularity(reader: &mut ByteReader<'_>) -> Result<Granularity, RecordError> {
    match reader.u8("granularity")? {
        1 => Ok(Granularity::Millis),
        2 => Ok(Granularity::Micros),
        _ => Err(RecordError::Invalid("granularity")),
    }
}

fn decode_row_key_schema(reader: &mut ByteReader<'_>) -> Result<Option<RowKeySchema>, RecordError> {
    let encoding = match reader.u8("row key encoding")? {
        0 => return Ok(None),
        1 => StructEncoding::Singleton,
        2 => {
            let delimiter = reader.string("delimiter")?;
            StructEncoding::DelimitedBytes(Bytes::copy_from_slice(delimiter))
        }
        3 => StructEncoding::OrderedCodeBytes,
        _ => return Err(RecordError::Invalid("row key encoding")),
    };
    let mut fields = Vec::new();
    for _ in 0..reader.varint("row key field count")? {
        let name = text(reader, "row key field")?.to_owned();
        fields.push((name, decode_scalar(reader)?));
    }
    Ok(Some(RowKeySchema { fields, encoding }))
}

fn decode_scalar(reader: &mut ByteReader<'_>) -> Result<ScalarType, RecordError> {
    let (kind, encoding) = (reader.u8("type")?, reader.u8("type encoding")?);
    let int64 = match encoding {
        1 => Int64Encoding::BigEndianBytes,
        2 => Int64Encoding::OrderedCodeBytes,
        _ => return Err(RecordError::Invalid("type encoding")),
    };
    match (kind, encoding) {
        (1, 1) => Ok(ScalarType::Bytes),
        (2, 1) => Ok(ScalarType::String),
        (3, _) => Ok(ScalarType::Int64(int64)),
        (4, _) => Ok(ScalarType::Timestamp(int64)),
        _ => Err(RecordError::Invalid("type")),
    }
}

fn decode_unique(reader: &mut ByteReader<'_>) -> Result<UniqueInput, RecordError> {
    match reader.u8("unique input")? {
        1 => Ok(UniqueInput::Raw),
        2 => Ok(UniqueInput::Bytes),
        3 => Ok(UniqueInput::String),
        4 => Ok(UniqueInput::Int64),
        _ => Err(RecordError::Invalid("unique input")),
    }
}

fn decode_families(
    reader: &mut ByteReader<'_>,
    version: u8,
    next_family: u16,
) -> Result<BTreeMap<std::sync::Arc<str>, FamilySchema>, RecordError> {
    let mut families: BTreeMap<_, FamilySchema> = BTreeMap::new();
    let mut ids = Vec::new();
    for _ in 0..reader.varint("family count")? {
        let family = decode_family(reader, version)?;
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
    Ok(families)
}

fn text<'a>(reader: &mut ByteReader<'a>, what: &'static str) -> Result<&'a str, RecordError> {
    std::str::from_utf8(reader.string(what)?).map_err(|_| RecordError::Invalid(what))
}

fn decode_family(reader: &mut ByteReader<'_>, version: u8) -> Result<FamilySchema, RecordError> {
    let id = FamilyId(reader.u16("family id")?);
    let name = text(reader, "family name")?;
    limits::check_family_name("", name).map_err(|_| RecordError::Invalid("family name"))?;
    let value_type = match reader.u8("value type")? {
        1 => ValueType::Raw,
        2 => ValueType::Aggregate(Aggregate::SumInt64),
        3 => ValueType::Aggregate(Aggregate::MinInt64),
        4 => ValueType::Aggregate(Aggregate::MaxInt64),
        UNIQUE if version > 1 => ValueType::Aggregate(Aggregate::Unique(decode_unique(reader)?)),
        SCALAR if version > 1 => ValueType::Scalar(decode_scalar(reader)?),
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
            granularity: Granularity::Millis,
            row_key_schema: None,
        }
    }

    /// A table with all that version 2 can tell.
    fn new_table() -> TableSchema {
        let mut table = table();
        for (name, value_type) in [
            ("raw", ScalarType::Int64(Int64Encoding::OrderedCodeBytes)),
            ("bytes", ScalarType::Bytes),
            ("time", ScalarType::Timestamp(Int64Encoding::BigEndianBytes)),
        ] {
            let id = FamilyId(table.families.get(name).map_or(table.next_family, |old| old.id.0));
            table.next_family = table.next_family.max(id.0 + 1);
            let (name, value_type) = (std::sync::Arc::from(name), ValueType::Scalar(value_type));
            let family = FamilySchema { id, name, gc: GcRule::KeepAll, value_type };
            table.families.insert(family.name.clone(), family);
        }
        table.granularity = Granularity::Micros;
        table.row_key_schema = Some(RowKeySchema {
            fields: vec![
                ("id".into(), ScalarType::String),
                ("n".into(), ScalarType::Int64(Int64Encoding::BigEndianBytes)),
            ],
            encoding: StructEncoding::DelimitedBytes("#".into()),
        });
        table
    }

    #[test]
    fn records_round_trip() {
        assert_eq!(decode(&encode(&table())), Ok(table()));
        let mut table = new_table();
        assert_eq!(decode(&encode(&table)), Ok(table.clone()));
        let keys = table.row_key_schema.as_mut().unwrap();
        keys.encoding = StructEncoding::OrderedCodeBytes;
        assert_eq!(decode(&encode(&table)), Ok(table.clone()));
        for input in [UniqueInput::Raw, UniqueInput::Bytes, UniqueInput::String, UniqueInput::Int64]
        {
            let raw = table.families.get_mut("raw").unwrap();
            raw.value_type = ValueType::Aggregate(Aggregate::Unique(input));
            assert_eq!(decode(&encode(&table)), Ok(table.clone()));
        }
        table.row_key_schema = None;
        assert_eq!(decode(&encode(&table)), Ok(table));
    }

    #[test]
    fn only_tables_with_something_new_are_written_in_version_2() {
        assert_eq!(encode(&table())[0], 1);
        assert_eq!(encode(&new_table())[0], 2);
        assert_eq!(encode(&TableSchema { granularity: Granularity::Micros, ..table() })[0], 2);
        let row_key_schema = new_table().row_key_schema;
        assert_eq!(encode(&TableSchema { row_key_schema, ..table() })[0], 2);
        assert_eq!(encode(&TableSchema { families: new_table().families, ..table() })[0], 2);
    }

    #[test]
    fn version_2_is_frozen() {
        let golden = "02 05702f692f74 01 0700000000000000 0600 02 02 0123 02 026964 0201 \
                      016e 0301 04 \
                      0400 056279746573 05 0101 01 \
                      0100 03726177 05 0302 01 \
                      0300 0373756d 02 01 \
                      0500 0474696d65 05 0401 01 \
                      02 00 10000000 016d 11000000";
        let bytes: String = encode(&new_table()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, golden.replace(' ', ""));
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
        [table(), new_table()].iter().for_each(refused_or_harmless);
        assert_eq!(decode(&[0]), Err(RecordError::Version(0)));
        assert_eq!(decode(&[3]), Err(RecordError::Owned));
        assert_eq!(decode(&[4]), Err(RecordError::Version(4)));
    }

    fn refused_or_harmless(table: &TableSchema) {
        let record = encode(table);
        for len in 0..record.len() {
            assert!(decode(&record[..len]).is_err(), "cut to {len}");
        }
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut record = record.clone();
                record[at] ^= 1 << bit;
                if let Ok(table) = decode(&record) {
                    // A record of version 2 may turn into one that version 1 can tell.
                    let again = decode(&encode(&table));
                    assert_eq!(again, Ok(table), "byte {at}");
                }
            }
        }
    }
}
