//! The bytes that clients keep and send back: prepared queries, and tokens to resume a result with.
//!
//! The server keeps nothing of either. Both are a version, a checksum and a message:
//!
//! ```text
//! version u8 | crc32c of the rest u32, little-endian | encoded message
//! ```
//!
//! Invariants:
//! 1. Nothing in them is believed: a query is parsed and analyzed again, and reads only what its client
//!    may read.
//! 2. Bytes of another version come from another server. A prepared query of one has expired, and
//!    clients prepare it again.

use crate::api::data;
use base::checksum::{Xxh3, crc32c};
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;

/// Longest prepared query that is taken.
pub(super) const PREPARED_BYTES_MAX: usize = 256 << 10;
/// Longest token: a row key and little else.
const TOKEN_BYTES_MAX: usize = 8 << 10;
const VERSION: u8 = 1;
const CHECKED_FROM: usize = 5;

/// A query that was prepared.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Prepared {
    /// The instance that it is for.
    #[prost(string, tag = "1")]
    pub(super) instance: String,
    #[prost(string, tag = "2")]
    pub(super) query: String,
    /// Types of the parameters, by their names.
    #[prost(btree_map = "string, message", tag = "3")]
    pub(super) types: BTreeMap<String, data::Type>,
    /// Stands for the columns of the result and the families they come from.
    #[prost(fixed64, tag = "4")]
    pub(super) schema: u64,
    /// Time at which it expires, in seconds since the Unix epoch.
    #[prost(int64, tag = "5")]
    pub(super) valid_until: i64,
}

/// Progress of an execution, in a token.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Progress {
    /// Stands for the query and its parameters.
    #[prost(fixed64, tag = "1")]
    binding: u64,
    /// The key of the last row that was passed.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) after: Bytes,
    /// Rows passed that fulfil the condition.
    #[prost(uint64, tag = "3")]
    pub(super) matched: u64,
    /// The result was sent to its end.
    #[prost(bool, tag = "4")]
    pub(super) ended: bool,
}

/// The reason why bytes of a client cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// They were made by another version of the server.
    OtherVersion,
    /// They were made by no server.
    Malformed,
}

impl Prepared {
    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    pub(super) fn open(bytes: &[u8]) -> Result<Self, Unusable> {
        open(bytes, PREPARED_BYTES_MAX)
    }

    /// Returns what stands for this query with these parameters.
    pub(super) fn binding(&self, parameters: &BTreeMap<String, data::Value>) -> u64 {
        let mut hash = Xxh3::default();
        let mut take = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        take(&Self { valid_until: 0, ..self.clone() }.encode_to_vec());
        for (name, value) in parameters {
            take(name.as_bytes());
            // Clients may leave the type out.
            take(&data::Value { r#type: None, ..value.clone() }.encode_to_vec());
        }
        hash.digest()
    }
}

impl Progress {
    /// Returns the progress of an execution that begins.
    pub(super) fn start(binding: u64) -> Self {
        Self { binding, ..Self::default() }
    }

    pub(super) fn seal(&self) -> Bytes {
        seal(self)
    }

    /// Returns the progress that a token of the same execution tells.
    pub(super) fn open(bytes: &[u8], binding: u64) -> Option<Self> {
        open(bytes, TOKEN_BYTES_MAX).ok().filter(|progress: &Self| progress.binding == binding)
    }
}

fn seal(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut out = Vec::with_capacity(CHECKED_FROM + message.len());
    out.push(VERSION);
    out.extend_from_slice(&crc32c(&[&message]).to_le_bytes());
    out.extend_from_slice(&message);
    out.into()
}

fn open<M: Message + Default>(bytes: &[u8], bytes_max: usize) -> Result<M, Unusable> {
    let (version, rest) = bytes.split_first().ok_or(Unusable::Malformed)?;
    if bytes.len() > bytes_max {
        return Err(Unusable::Malformed);
    }
    if *version != VERSION {
        return Err(Unusable::OtherVersion);
    }
    let (checksum, message) = rest.split_first_chunk().ok_or(Unusable::Malformed)?;
    if u32::from_le_bytes(*checksum) != crc32c(&[message]) {
        return Err(Unusable::Malformed);
    }
    M::decode(message).map_err(|_| Unusable::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_bytes_are_refused() {
        let prepared = Prepared { query: "SELECT 1".into(), schema: 7, ..Default::default() };
        let sealed = prepared.seal();
        assert_eq!(Prepared::open(&sealed), Ok(prepared));
        for at in 0..sealed.len() {
            let mut damaged = sealed.to_vec();
            damaged[at] ^= 1;
            let want = if at == 0 { Unusable::OtherVersion } else { Unusable::Malformed };
            assert_eq!(Prepared::open(&damaged), Err(want), "byte {at}");
            assert_eq!(Prepared::open(&sealed[..at]), Err(Unusable::Malformed), "length {at}");
        }
    }

    #[test]
    fn tokens_belong_to_one_query_with_its_parameters() {
        let value = |number| {
            let kind = Some(data::value::Kind::IntValue(number));
            BTreeMap::from([("p".to_owned(), data::Value { kind, ..Default::default() })])
        };
        let prepared = Prepared { query: "SELECT @p".into(), ..Default::default() };
        let binding = prepared.binding(&value(1));
        let later = Prepared { valid_until: 9, ..prepared.clone() };
        assert_eq!(later.binding(&value(1)), binding);
        assert_ne!(prepared.binding(&value(2)), binding);
        let token = Progress { matched: 3, ..Progress::start(binding) }.seal();
        assert_eq!(Progress::open(&token, binding).unwrap().matched, 3);
        assert_eq!(Progress::open(&token, binding + 1), None);
        assert_eq!(Progress::open(b"", binding), None);
    }
}
