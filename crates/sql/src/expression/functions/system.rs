//! Functions about the session and the server, sequences, and random identifiers.

use std::time::Duration;

use base::env::{Clock, SystemClock};
use relational::{DataType, Error, Result, Value};

use super::{Call, Definition, array, text};
use crate::values::{encode_binary, type_from_oid, type_len, type_name};

pub(super) const TABLE: &[Definition] = &[
    ("version", "-> text stable", |call| text(version_text(&call.context.version))),
    ("current_database", "-> name stable", |call| text(&call.context.database)),
    ("current_catalog", "-> name stable", |call| text(&call.context.database)),
    ("current_user", "-> name stable", |call| text(&call.context.user)),
    ("current_role", "-> name stable", |call| text(&call.context.user)),
    ("session_user", "-> name stable", |call| text(&call.context.session_user)),
    ("user", "-> name stable", |call| text(&call.context.user)),
    ("current_schema", "-> name stable", |call| {
        let found = schemas(call).into_iter().next();
        found.map_or(Ok(Value::Null), text)
    }),
    ("current_schemas", "bool -> name[] stable", |call| {
        let implicit = call.bool(0).then(|| "pg_catalog".to_owned());
        let all = implicit.into_iter().chain(schemas(call));
        array(&DataType::Name, all.map(Value::text).collect())
    }),
    ("current_setting", "text -> text stable", |call| setting(call, false)),
    ("current_setting", "text,bool -> text stable", |call| setting(call, call.bool(1))),
    ("set_config", "text,text,bool -> text volatile", |call| match &call.context.set {
        Some(set) => set(call.text(0), call.text(1), call.bool(2)).and_then(text),
        None => Err(Error::unsupported("set_config() is not supported in this place")),
    }),
    ("pg_backend_pid", "-> int4 stable", |call| Ok(Value::Int4(call.context.backend))),
    ("pg_is_in_recovery", "-> bool stable", |_| Ok(Value::Bool(false))),
    ("inet_server_addr", "-> text", |_| Ok(Value::Null)),
    ("inet_server_port", "-> int4", |_| Ok(Value::Null)),
    ("inet_client_addr", "-> text", |_| Ok(Value::Null)),
    ("inet_client_port", "-> int4", |_| Ok(Value::Null)),
    ("pg_client_encoding", "-> name", |_| text("UTF8")),
    ("getdatabaseencoding", "-> name", |_| text("UTF8")),
    ("pg_typeof", "any -> text null", |call| {
        text(type_name(call.types.first().unwrap_or(&DataType::Unknown)))
    }),
    ("format_type", "oid,int4 -> text null", |call| {
        if call.value(0).is_null() {
            return Ok(Value::Null);
        }
        let modifier = if call.value(1).is_null() { -1 } else { call.int(1) as i32 };
        text(format_type(call.int(0) as u32, modifier))
    }),
    ("pg_sleep", "float8 -> text volatile", sleep),
    ("gen_random_uuid", "-> uuid volatile", random_uuid),
    ("uuid_generate_v4", "-> uuid volatile", random_uuid),
    ("pg_column_size", "any -> int4", |call| {
        let settings = &call.context.settings;
        let mut bytes = Vec::new();
        encode_binary(call.value(0), &call.types[0], settings, &mut bytes);
        // A length stands before values whose length varies.
        let head = match (type_len(&call.types[0]) > 0, bytes.len()) {
            (true, _) => 0,
            (false, 0..=126) => 1,
            (false, _) => 4,
        };
        Ok(Value::Int4((bytes.len() + head) as i32))
    }),
    ("nextval", "text -> int8 volatile", |call| {
        call.context.sequences()?.next(call.text(0)).map(Value::Int8)
    }),
    ("currval", "text -> int8 volatile", |call| {
        call.context.sequences()?.current(call.text(0)).map(Value::Int8)
    }),
    ("lastval", "-> int8 volatile", |call| call.context.sequences()?.last().map(Value::Int8)),
    ("setval", "text,int8 -> int8 volatile", |call| {
        call.context.sequences()?.set(call.text(0), call.int(1), true).map(Value::Int8)
    }),
    ("setval", "text,int8,bool -> int8 volatile", |call| {
        call.context.sequences()?.set(call.text(0), call.int(1), call.bool(2)).map(Value::Int8)
    }),
];

fn random_uuid(_call: &Call<'_>) -> Result<Value> {
    let mut bytes = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| Error::internal("the system gives no random numbers"))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Value::Uuid(bytes))
}

/// Longest time until a sleep sees that its statement is to end.
const NAP: Duration = Duration::from_millis(10);

/// Sleeps for some seconds, on a thread that other tasks do not need.
fn sleep(call: &Call<'_>) -> Result<Value> {
    let seconds = match call.float(0) {
        nothing if nothing.is_nan() => 0.0,
        seconds => seconds.clamp(0.0, 1e8),
    };
    let end = SystemClock.monotonic() + Duration::from_secs_f64(seconds);
    let nap = || {
        loop {
            call.context.check_interrupts()?;
            match end.checked_sub(SystemClock.monotonic()) {
                None | Some(Duration::ZERO) => return text(""),
                Some(left) => std::thread::sleep(left.min(NAP)),
            }
        }
    };
    crate::threads::aside(nap)
}

/// Returns the text of `version()`.
pub(crate) fn version_text(version: &str) -> String {
    format!("PostgreSQL 15.0 (Stele {version})")
}

/// Returns the schemas of the search path that exist.
fn schemas(call: &Call<'_>) -> Vec<String> {
    let known = |name: &&String| match &call.context.catalog {
        Some(catalog) => catalog.schema_named(name).is_some(),
        None => true,
    };
    call.context.settings.search_path.iter().filter(known).cloned().collect()
}

fn setting(call: &Call<'_>, missing_ok: bool) -> Result<Value> {
    let name = call.text(0);
    match call.context.show.as_ref().and_then(|show| show(name)) {
        Some(value) => text(value),
        None if missing_ok => Ok(Value::Null),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(Error::new(relational::SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Returns the name of a type by its OID, with what its modifier says.
pub(crate) fn format_type(oid: u32, modifier: i32) -> String {
    let digits = modifier & 0xffff;
    let name = match oid {
        1083 => format!("time({digits}) without time zone"),
        1114 => format!("timestamp({digits}) without time zone"),
        1184 => format!("timestamp({digits}) with time zone"),
        1186 if digits != 0xffff => format!("interval({digits})"),
        _ => String::new(),
    };
    if modifier >= 0 && !name.is_empty() {
        return name;
    }
    let special = match oid {
        0 => "-",
        18 => "\"char\"",
        24 => "regproc",
        28 => "xid",
        29 => "cid",
        2205 => "regclass",
        2206 => "regtype",
        4089 => "regnamespace",
        4096 => "regrole",
        2287 => "record[]",
        2249 => "record",
        2276 => "\"any\"",
        2277 => "anyarray",
        2278 => "void",
        2283 => "anyelement",
        194 => "pg_node_tree",
        30 => "oidvector",
        22 => "int2vector",
        _ => "",
    };
    if !special.is_empty() {
        return special.to_owned();
    }
    let with = |data_type: &DataType| match (data_type, modifier) {
        (DataType::Varchar(_), 5..) => DataType::Varchar(Some((modifier - 4) as u32)),
        (DataType::Char(_), 5..) => DataType::Char((modifier - 4) as u32),
        (DataType::Numeric(_), 4..) => {
            let bits = modifier - 4;
            DataType::Numeric(Some(((bits >> 16) as u16, (bits & 0x7ff) as i16)))
        }
        _ => data_type.clone(),
    };
    match type_from_oid(oid) {
        Some(DataType::Array(element)) => format!("{}[]", shown(&with(&element), modifier)),
        Some(found) => shown(&with(&found), modifier),
        None => "???".to_owned(),
    }
}

fn shown(data_type: &DataType, modifier: i32) -> String {
    match data_type {
        DataType::Char(_) if modifier < 0 => "character".to_owned(),
        other => type_name(other),
    }
}

/// Returns the MD5 digest of bytes (RFC 1321). It names things; it protects nothing.
pub(super) fn md5(message: &[u8]) -> [u8; 16] {
    const SHIFTS: [u32; 16] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(
        padded.len().next_multiple_of(64) + if padded.len() % 64 > 56 { 64 } else { 0 } - 8,
        0,
    );
    padded.extend_from_slice(&(message.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mix, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mix).wrapping_add(constant).wrapping_add(words[word]);
            let rotated = sum.rotate_left(SHIFTS[step / 16 * 4 + step % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(add);
        }
    }
    let mut out = [0; 16];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}
