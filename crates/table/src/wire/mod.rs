//! Calls of rows from one node of a cluster to another, and their answers, as bytes
//! (docs/format/node_calls.md).
//!
//! 1. Bytes come from another node, perhaps of another version: whatever they are, decoding ends with a
//!    value or a [`WireError`], never with a panic.
//! 2. A frame has at most [`ITEMS_MAX`] items of lists, filters nest at most [`NESTING_MAX`] deep, and a
//!    count allocates nothing ahead of its items. So memory is bounded by the length of the frame,
//!    which its carrier bounds.
//! 3. What was decoded is no more than well formed. The store that carries a call out checks limits
//!    and meaning, as it does for calls of its own front.
//! 4. Long byte strings of a decoded value share the memory of its frame.

mod answer;
mod call;
mod filter;
mod rows;
mod serve;
#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use call::Call;
pub use rows::EncodedPieces;
pub use serve::Answers;

use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use std::fmt;

/// First byte of every frame.
const VERSION: u8 = 1;
/// Most items of all lists of a frame together.
const ITEMS_MAX: usize = 1 << 20;
/// Deepest nesting of a filter that is decoded. More than a store allows, so that the store says so.
const NESTING_MAX: usize = 128;

/// The reason why a frame could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// The frame ends early, or has a malformed integer or bytes left over.
    Decode(DecodeError),
    /// The frame is of a newer version.
    Version(u8),
    /// A byte that names nothing, or a value outside its type.
    Invalid(&'static str),
    /// A limit of the format is broken.
    TooMuch(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "call of a node: {error}"),
            Self::Version(version) => write!(
                f,
                "call of a node: version {version}, but this Stele reads versions up to {VERSION}; \
                 upgrade it"
            ),
            Self::Invalid(what) => write!(f, "call of a node: invalid {what}"),
            Self::TooMuch(what) => write!(f, "call of a node: {what}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<DecodeError> for WireError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

type Result<T> = std::result::Result<T, WireError>;

/// A value with one encoding.
trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);

    fn read(frame: &mut Frame<'_>) -> Result<Self>;
}

/// A frame while it is decoded.
struct Frame<'a> {
    bytes: &'a Bytes,
    reader: ByteReader<'a>,
    /// Items of lists that may still come.
    items_left: usize,
    /// Filters around the one that is decoded.
    depth: usize,
}

impl Frame<'_> {
    fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.reader.u8(what)?)
    }

    fn i64(&mut self, what: &'static str) -> Result<i64> {
        Ok(self.reader.i64(what)?)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(self.reader.varint(what)?)
    }

    /// A byte string in the memory of the frame.
    fn string(&mut self, what: &'static str) -> Result<Bytes> {
        Ok(self.bytes.slice_ref(self.reader.string(what)?))
    }

    fn text(&mut self, what: &'static str) -> Result<&str> {
        std::str::from_utf8(self.reader.string(what)?).map_err(|_| WireError::Invalid(what))
    }

    /// Counts one item of a list.
    fn item(&mut self) -> Result<()> {
        let left = self.items_left.checked_sub(1);
        self.items_left = left.ok_or(WireError::TooMuch("its lists are too long"))?;
        Ok(())
    }
}

/// Returns the frame of one value.
fn encode(value: &impl Wire) -> Vec<u8> {
    let mut out = vec![VERSION];
    value.put(&mut out);
    out
}

/// Returns the value of a frame.
fn decode<T: Wire>(bytes: &Bytes) -> Result<T> {
    let reader = ByteReader::new(bytes);
    let mut frame = Frame { bytes, reader, items_left: ITEMS_MAX, depth: 0 };
    match frame.u8("version")? {
        VERSION => {}
        0 => return Err(WireError::Invalid("version")),
        newer => return Err(WireError::Version(newer)),
    }
    let value = T::read(&mut frame)?;
    frame.reader.finish()?;
    Ok(value)
}

/// Body of the fuzz target: any bytes are refused without a panic, or are a value whose encoding stays
/// as it is.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    fn stays<T: Wire>(bytes: &Bytes) {
        if let Ok(value) = decode::<T>(bytes) {
            let encoded = encode(&value);
            let again = decode::<T>(&Bytes::from(encoded.clone()));
            assert_eq!(again.map(|value| encode(&value)), Ok(encoded));
        }
    }
    let bytes = Bytes::copy_from_slice(data);
    stays::<Call>(&bytes);
    stays::<Answer>(&bytes);
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_string(self);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        frame.string("byte string")
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_bytes());
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(frame.text("text")?.to_owned())
    }
}

impl Wire for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_i64(*self);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        frame.i64("integer")
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(*self);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        frame.u64("integer")
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let mut items = Self::new();
        for _ in 0..frame.u64("count")? {
            frame.item()?;
            items.push(T::read(frame)?);
        }
        Ok(items)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        match frame.u8("option")? {
            0 => Ok(None),
            1 => Ok(Some(T::read(frame)?)),
            _ => Err(WireError::Invalid("option")),
        }
    }
}
