//! OIDs, names and modifiers of types, as PostgreSQL numbers them.
//!
//! 1. Every type of the catalog has one OID, and its array type another; both are PostgreSQL's.

use relational::{DataType, Error, Oid, SqlState};

/// Type, OID, OID of its array type, internal name, length in bytes (-1 if it varies).
const TYPES: &[(DataType, Oid, Oid, &str, i16)] = &[
    (DataType::Bool, 16, 1000, "bool", 1),
    (DataType::Bytea, 17, 1001, "bytea", -1),
    (DataType::Name, 19, 1003, "name", 64),
    (DataType::Int8, 20, 1016, "int8", 8),
    (DataType::Int2, 21, 1005, "int2", 2),
    (DataType::Int4, 23, 1007, "int4", 4),
    (DataType::Text, 25, 1009, "text", -1),
    (DataType::Oid, 26, 1028, "oid", 4),
    (DataType::Json, 114, 199, "json", -1),
    (DataType::Float4, 700, 1021, "float4", 4),
    (DataType::Float8, 701, 1022, "float8", 8),
    (DataType::Unknown, 705, 705, "unknown", -2),
    (DataType::Char(1), 1042, 1014, "bpchar", -1),
    (DataType::Varchar(None), 1043, 1015, "varchar", -1),
    (DataType::Date, 1082, 1182, "date", 4),
    (DataType::Time, 1083, 1183, "time", 8),
    (DataType::Timestamp, 1114, 1115, "timestamp", 8),
    (DataType::TimestampTz, 1184, 1185, "timestamptz", 8),
    (DataType::Interval, 1186, 1187, "interval", 16),
    (DataType::Numeric(None), 1700, 1231, "numeric", -1),
    (DataType::Uuid, 2950, 2951, "uuid", 16),
    (DataType::Jsonb, 3802, 3807, "jsonb", -1),
];

/// Names besides the internal ones, without modifiers.
const ALIASES: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("smallint", "int2"),
    ("smallserial", "int2"),
    ("integer", "int4"),
    ("int", "int4"),
    ("serial", "int4"),
    ("bigint", "int8"),
    ("bigserial", "int8"),
    ("real", "float4"),
    ("float", "float8"),
    ("double precision", "float8"),
    ("double", "float8"),
    ("decimal", "numeric"),
    ("dec", "numeric"),
    ("character varying", "varchar"),
    ("char varying", "varchar"),
    ("character", "bpchar"),
    ("char", "bpchar"),
    ("string", "text"),
    ("timestamp without time zone", "timestamp"),
    ("timestamp with time zone", "timestamptz"),
    ("time without time zone", "time"),
    ("regclass", "oid"),
    ("regtype", "oid"),
    ("regproc", "oid"),
    ("regnamespace", "oid"),
    ("regrole", "oid"),
    ("xid", "int4"),
    ("cid", "int4"),
    ("\"char\"", "text"),
    ("pg_node_tree", "text"),
];

/// Returns the kind of a type without its modifiers.
fn bare(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Varchar(_) => DataType::Varchar(None),
        DataType::Char(_) => DataType::Char(1),
        DataType::Numeric(_) => DataType::Numeric(None),
        other => other.clone(),
    }
}

/// Returns the OID of a type. Arrays of arrays have the OID of their innermost array.
pub fn type_oid(data_type: &DataType) -> Oid {
    if let DataType::Array(element) = data_type {
        return array_oid(element);
    }
    let bare = bare(data_type);
    TYPES.iter().find(|row| row.0 == bare).map_or(705, |row| row.1)
}

/// Returns the OID of the array type over a type.
pub fn array_oid(element: &DataType) -> Oid {
    if let DataType::Array(inner) = element {
        return array_oid(inner);
    }
    let bare = bare(element);
    TYPES.iter().find(|row| row.0 == bare).map_or(705, |row| row.2)
}

/// Returns the OID of the elements of an array type, 0 for other types.
pub fn element_oid(data_type: &DataType) -> Oid {
    data_type.element().map_or(0, type_oid)
}

/// Returns the type of an OID, without modifiers. OID 0 is unknown, as clients mean it.
pub fn type_from_oid(oid: Oid) -> Option<DataType> {
    match oid {
        0 => return Some(DataType::Unknown),
        // "char", regproc, xid, cid, regclass, regtype: by the type that holds their values.
        18 => return Some(DataType::Text),
        24 | 2202 | 2203 | 2205 | 2206 | 4089 | 4096 => return Some(DataType::Oid),
        28 | 29 => return Some(DataType::Int4),
        _ => {}
    }
    if let Some(row) = TYPES.iter().find(|row| row.1 == oid) {
        return Some(row.0.clone());
    }
    let row = TYPES.iter().find(|row| row.2 == oid)?;
    Some(DataType::Array(Box::new(row.0.clone())))
}

/// Returns the length of the type's binary form in bytes, -1 if it varies.
pub fn type_len(data_type: &DataType) -> i16 {
    let bare = bare(data_type);
    TYPES.iter().find(|row| row.0 == bare).map_or(-1, |row| row.4)
}

/// Returns the modifier that describes length or precision to clients, -1 without such a modifier.
pub fn type_modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => *length as i32 + 4,
        DataType::Numeric(Some((precision, scale))) => {
            ((i32::from(*precision) << 16) | (i32::from(*scale) & 0x7ff)) + 4
        }
        DataType::Array(element) => type_modifier(element),
        _ => -1,
    }
}

/// Returns the name that `format_type` prints, with modifiers.
pub fn type_name(data_type: &DataType) -> String {
    data_type.to_string()
}

/// Returns the internal name, like `int4` or `_text`.
pub fn type_short_name(data_type: &DataType) -> String {
    if let DataType::Array(element) = data_type {
        return format!("_{}", type_short_name(element).trim_start_matches('_'));
    }
    let bare = bare(data_type);
    TYPES.iter().find(|row| row.0 == bare).map_or("unknown", |row| row.3).to_owned()
}

/// Returns the type of a name in SQL, with modifiers and `[]`; nothing if there is no such type.
/// `timestamp(3)` is read as its type, whose precision [`time_precision`] tells.
pub fn parse_type(name: &str) -> Option<DataType> {
    let lower = name.trim().to_lowercase();
    let lower = ["pg_catalog.", "\"pg_catalog\"."]
        .iter()
        .find_map(|schema| lower.strip_prefix(schema))
        .unwrap_or(&lower);
    let lower = match lower.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(name) if !name.contains('"') => name,
        _ => lower,
    };
    if let Some(element) = lower.strip_suffix(']') {
        let (element, length) = element.rsplit_once('[')?;
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        return match parse_type(element)? {
            DataType::Array(inner) => Some(DataType::Array(inner)),
            other => Some(DataType::Array(Box::new(other))),
        };
    }
    if let Some(element) = lower.strip_suffix(" array") {
        return Some(DataType::Array(Box::new(parse_type(element)?)));
    }
    if let Some(rest) = lower.strip_prefix('_')
        && let Some(element) = parse_type(rest)
    {
        return Some(DataType::Array(Box::new(element)));
    }
    let (base, arguments) = split_arguments(lower)?;
    let quoted = base.trim_matches('"');
    let base = if TYPES.iter().any(|row| row.3 == quoted) { quoted } else { base.as_str() };
    let short = ALIASES.iter().find(|(alias, _)| *alias == base).map_or(base, |(_, name)| name);
    let found = TYPES.iter().find(|row| row.3 == short)?.0.clone();
    with_arguments(found, base, &arguments)
}

/// Returns the error of a name that no type has, or one that is not supported.
pub fn unknown_type(name: &str) -> Error {
    let name = name.to_lowercase().replace('"', "");
    if name.starts_with("interval ") {
        return Error::unsupported(format!("the fields of {name} are not supported"));
    }
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

/// Returns the digits of a second that a type such as `timestamp(3)` or `interval(0)[]` rounds to; nothing for
/// other types.
pub fn time_precision(name: &str) -> Option<u8> {
    let innermost = match parse_type(name)? {
        DataType::Array(element) => *element,
        other => other,
    };
    let has_digits = matches!(
        innermost,
        DataType::Time | DataType::Timestamp | DataType::TimestampTz | DataType::Interval
    );
    let (_, digits) = split_arguments(name).filter(|_| has_digits)?;
    digits.first().map(|digits| (*digits).clamp(0, 6) as u8)
}

/// Returns the modifier of a column whose type rounds to so many digits of a second.
pub fn modifier_of_precision(data_type: &DataType, precision: u8) -> i32 {
    // An interval also tells which fields it has: all.
    let fields = if *data_type == DataType::Interval { 0x7fff << 16 } else { 0 };
    fields | i32::from(precision)
}

/// Splits `numeric(10,2)` and `timestamp(3) with time zone` into the name and the numbers.
fn split_arguments(name: &str) -> Option<(String, Vec<i64>)> {
    let Some(open) = name.find('(') else { return Some((name.trim().to_owned(), Vec::new())) };
    let close = name[open..].find(')')? + open;
    let numbers: Option<Vec<i64>> =
        name[open + 1..close].split(',').map(|part| part.trim().parse().ok()).collect();
    let base = format!("{}{}", name[..open].trim(), &name[close + 1..]);
    Some((base.trim().to_owned(), numbers?))
}

/// Returns the type with its modifiers; nothing if they are out of range.
fn with_arguments(found: DataType, base: &str, arguments: &[i64]) -> Option<DataType> {
    Some(match (found, arguments) {
        (DataType::Varchar(_), [length]) if (1..=10_485_760).contains(length) => {
            DataType::Varchar(Some(*length as u32))
        }
        (DataType::Char(_), [length]) if (1..=10_485_760).contains(length) => {
            DataType::Char(*length as u32)
        }
        (DataType::Char(_), []) if base == "bpchar" => DataType::Varchar(None),
        (DataType::Numeric(_), [precision]) if (1..=1000).contains(precision) => {
            DataType::Numeric(Some((*precision as u16, 0)))
        }
        (DataType::Numeric(_), [precision, scale])
            if (1..=1000).contains(precision) && (-1000..=1000).contains(scale) =>
        {
            DataType::Numeric(Some((*precision as u16, *scale as i16)))
        }
        (DataType::Varchar(_) | DataType::Char(_) | DataType::Numeric(_), [_, ..]) => return None,
        (DataType::Float8, [bits]) if base == "float" => match bits {
            1..=24 => DataType::Float4,
            25..=53 => DataType::Float8,
            _ => return None,
        },
        (other, _) => other,
    })
}
