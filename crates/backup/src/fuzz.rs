//! Bodies of the fuzz targets for what is read from a destination: any bytes are read or refused
//! without a panic, and what was accepted has one encoding. The targets are in `/fuzz`; ordinary
//! tests call the bodies as well.

use crate::frame::{self, Begun, Kind};
use crate::names::BackupId;
use crate::object::{FOOTER_LEN, Trailer, object_len};
use crate::record::Record;

/// A small object: the first byte chooses which, and whether the rest is all of it or its payload.
pub fn small_object(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let kind = match choice & 8 {
        0 => [Kind::Store, Kind::Intent, Kind::Record, Kind::Removal][usize::from(choice & 3)],
        _ => Kind::GivenUp,
    };
    let framed = if choice & 4 == 0 { data.to_vec() } else { frame::encode(kind, data) };
    let again = match kind {
        Kind::Store => frame::decode_store(&framed).ok().map(frame::encode_store),
        Kind::Record => Record::decode(&framed).ok().and_then(|record| {
            // Text that was no UTF-8 is shown as well as can be.
            (!record.version.contains('\u{fffd}')).then(|| record.encode())
        }),
        Kind::Intent | Kind::Removal | Kind::GivenUp => Begun::decode(kind, &framed)
            .ok()
            .and_then(|begun| (!begun.place.contains('\u{fffd}')).then(|| begun.encode(kind))),
    };
    assert!(again.is_none_or(|again| again == framed), "what was read has one encoding");
}

/// The trailer of an object: eight bytes of length, then the trailer.
pub fn trailer(data: &[u8]) {
    let Some((length, data)) = data.split_first_chunk::<8>() else { return };
    let bytes = u64::from_le_bytes(*length) & ((1 << 40) - 1);
    assert!(object_len(bytes) > bytes);
    if let Ok(read) = Trailer::decode(data, bytes) {
        assert_eq!(read.encode(), data, "a trailer has one encoding");
        assert_eq!(data.len(), 8 * read.sums.len() + FOOTER_LEN);
    }
}

/// The text of an id.
pub fn id(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(id) = text.parse::<BackupId>() {
        assert_eq!(id.as_str(), text);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }
}

#[cfg(test)]
mod tests;
