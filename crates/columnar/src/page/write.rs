//! Writing a page.

use super::header::{Header, bitmap_bytes};
use super::{Choice, Compression, PageOptions, choose};
use crate::descriptor::{Bounds, bounds_of};
use crate::encoding::{Output, TREE_TAGS_MAX, put_bits};
use crate::values::{Prepared, Values, prepare};
use crate::{Error, HEADER_BYTES, PageDescriptor, ROWS_MAX, body_bytes_max};
use arrow_array::Array;

/// A page, and what the descriptor of its segment says of it.
#[derive(Debug, Clone)]
pub struct EncodedPage {
    /// The page with its header.
    pub bytes: Vec<u8>,
    /// Its description, for the segment descriptor.
    pub descriptor: PageDescriptor,
}

/// Returns an array as one page.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a type that segments do not have, and for values that do not fit in
/// one page: none, more than [`ROWS_MAX`], or too long together.
pub fn encode_page(array: &dyn Array, options: &PageOptions) -> Result<EncodedPage, Error> {
    if array.is_empty() || array.len() > ROWS_MAX {
        let rows = array.len();
        return Err(Error::InvalidArgument(format!("{rows} rows; a page has 1 to {ROWS_MAX}")));
    }
    let prepared = prepare(array)?;
    let (plain, max) = (plain_page_bytes(&prepared.values), body_bytes_max(array.len()));
    if plain > max {
        return Err(Error::InvalidArgument(format!(
            "{plain} bytes of values; the body of a page has at most {max}"
        )));
    }
    Ok(encode_prepared(&prepared, options))
}

/// Returns the most bytes that the body of a page with these values has.
pub(crate) fn plain_page_bytes(values: &Values<'_>) -> usize {
    // As if there were a null bitmap; one row never has it.
    let bitmap = if values.len() == 1 { 0 } else { values.len().div_ceil(8).next_multiple_of(64) };
    bitmap + values.plain_bytes()
}

/// Returns values that fit in a page as one.
pub(crate) fn encode_prepared(prepared: &Prepared<'_>, options: &PageOptions) -> EncodedPage {
    let (rows, nulls) = (prepared.values.len(), prepared.null_count());
    let node = choose::encode(&prepared.values, options);
    let (body, tree) = body(prepared, node);
    assert!(body.len() <= body_bytes_max(rows), "a body is no longer than its plain form");
    let compression = match options.choice {
        Choice::Deferred => Compression::None,
        _ => options.compression,
    };
    let compressed = compression.compress(&body);
    let (compression, stored) = match &compressed {
        Some(compressed) => (compression, compressed),
        None => (Compression::None, &body),
    };
    let header = Header {
        column_type: prepared.column_type,
        compression,
        rows,
        nulls,
        body_bytes: body.len(),
        stored_bytes: stored.len(),
        tree,
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + stored.len());
    bytes.extend(header.encode(stored));
    bytes.extend_from_slice(stored);
    let descriptor = PageDescriptor {
        rows: rows as u32,
        nulls: nulls as u32,
        stored_bytes: bytes.len() as u32,
        compression,
        tree: tree_of(&tree),
        bounds: if nulls == rows { Bounds::default() } else { bounds_of(prepared) },
    };
    EncodedPage { bytes, descriptor }
}

/// Returns null bitmap and node, and the tree.
fn body(prepared: &Prepared<'_>, node: Output) -> (Vec<u8>, [u8; TREE_TAGS_MAX]) {
    let mut tree = [0; TREE_TAGS_MAX];
    tree[..node.tree().len()].copy_from_slice(node.tree());
    let bitmap = bitmap_bytes(prepared.values.len(), prepared.null_count());
    let (Some(nulls), 1..) = (&prepared.nulls, bitmap) else { return (node.bytes, tree) };
    let mut body = Vec::with_capacity(bitmap + node.len());
    put_bits(nulls.inner(), &mut body);
    body.resize(bitmap, 0);
    body.extend_from_slice(&node.bytes);
    (body, tree)
}

fn tree_of(tags: &[u8]) -> Vec<crate::EncodingKind> {
    tags.iter().map_while(|tag| crate::EncodingKind::from_byte(*tag)).collect()
}
