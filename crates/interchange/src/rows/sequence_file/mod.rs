//! Rows as Hadoop SequenceFiles of HBase results, as the exports of HBase and of Google write them:
//! each record has a row key (`ImmutableBytesWritable`) and the cells of the row (`Result`). Long
//! rows are several records with one key.
//!
//! A file is `"SEQ" 6 | class of keys | class of values | compressed | in blocks | [codec] |
//! metadata | sync`, then records `length | length of the key | key | value`. A record may follow
//! an escape, `-1 | sync`. Integers are big-endian. A value is a delimited protobuf message.

mod cells;
mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::Writer;

const MAGIC: &[u8; 3] = b"SEQ";
const VERSION: u8 = 6;
const KEY_CLASS: &str = "org.apache.hadoop.hbase.io.ImmutableBytesWritable";
const VALUE_CLASS: &str = "org.apache.hadoop.hbase.client.Result";
const SYNC_BYTES: usize = 16;
/// The length that stands before a sync marker instead of a record.
const SYNC_ESCAPE: i32 = -1;
