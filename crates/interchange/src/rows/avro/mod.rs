//! Rows as Avro object container files with the schema that Google's exports of Bigtable have: a
//! record of a key and an array of cells. Long rows are several records with one key.
//!
//! A file is `magic | metadata | sync`, then blocks `records | bytes | data | sync`. Integers are
//! zigzag varints; strings and bytes have their length in front.

mod read;
mod schema;
mod write;

pub(super) use read::Reader;
pub(super) use write::Writer;

const MAGIC: &[u8; 4] = b"Obj\x01";
const SYNC_BYTES: usize = 16;
const SCHEMA_KEY: &str = "avro.schema";
const CODEC_KEY: &str = "avro.codec";
