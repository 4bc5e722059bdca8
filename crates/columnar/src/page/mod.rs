//! Pages: some values of one column, with a header that says all that is needed to read them.
//! docs/format/column_segment.md has the bytes.
//!
//! 1. The checksum is compared before anything else but the version is believed, and every length before it
//!    is used.
//! 2. A page is never longer than its plain form, so what the writer cuts by plain length is within the
//!    limits.

mod choose;
mod compress;
mod header;
mod read;
mod write;

pub use compress::Compression;
pub use read::Page;
pub use write::{EncodedPage, encode_page};

pub(crate) use header::{unknown_version, with_checksum};
pub(crate) use write::{encode_prepared, plain_page_bytes};

use crate::EncodingKind;

/// Options for writing a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageOptions {
    /// The way its encoding is chosen.
    pub choice: Choice,
    /// Compression of the encoded page, if that saves at least an eighth of it.
    pub compression: Compression,
}

/// The way the encoding of a page is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The shortest one that suits, as tried on runs of values from all over the page.
    #[default]
    Sampled,
    /// Only encodings that cost next to nothing (constant, frame of reference, plain), and no
    /// compression: for rows that will be rewritten soon.
    Deferred,
    /// This encoding where it suits and is no longer than plain, else plain.
    Forced(EncodingKind),
}
