//! The fields of an encoded message, without its type.

use bytes::BufMut;

/// A field as it lies in its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    /// The field with its key.
    pub(crate) whole: &'a [u8],
    /// Content of a length-delimited field.
    pub(crate) content: Option<&'a [u8]>,
}

/// The fields of a message in their order. Ends at the first byte that is not protobuf: the decoder
/// reports it.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the fields of `message`.
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let mut rest = self.rest;
        let key = varint(&mut rest)?;
        let number = u32::try_from(key >> 3).ok()?;
        let mut content = None;
        if key & 7 == START_GROUP {
            skip_group(&mut rest)?;
        } else {
            content = skip(key & 7, &mut rest)?;
        }
        let whole = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Some(Field { number, whole, content })
    }
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED32: u64 = 5;

/// Steps over what follows the key of a field outside of groups. Returns the content of a
/// length-delimited one, and `None` if the bytes are not protobuf.
fn skip<'a>(wire_type: u64, rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match wire_type {
        VARINT => varint(rest).map(|_| None),
        FIXED64 => take(rest, 8).map(|_| None),
        LENGTH_DELIMITED => {
            let len = usize::try_from(varint(rest)?).ok()?;
            take(rest, len).map(Some)
        }
        FIXED32 => take(rest, 4).map(|_| None),
        _ => None,
    }
}

/// Steps over a group and those inside it.
fn skip_group(rest: &mut &[u8]) -> Option<()> {
    let mut open = 1_usize;
    while open > 0 {
        match varint(rest)? & 7 {
            START_GROUP => open += 1,
            END_GROUP => open -= 1,
            wire_type => drop(skip(wire_type, rest)?),
        }
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

#[inline]
fn varint(rest: &mut &[u8]) -> Option<u64> {
    match rest.split_first()? {
        (&byte, after) if byte < 0x80 => {
            *rest = after;
            Some(u64::from(byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(number);
        }
    }
    None
}

/// Appends `content` as the length-delimited field `number`.
pub(crate) fn put_delimited(number: u32, content: &[u8], out: &mut Vec<u8>) {
    put_varint(out, u64::from(number) << 3 | LENGTH_DELIMITED);
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Appends a number in as many bytes as it needs.
pub(crate) fn put_varint(out: &mut impl BufMut, mut n: u64) {
    while n >= 0x80 {
        out.put_u8(n as u8 | 0x80);
        n >>= 7;
    }
    out.put_u8(n as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(message: &[u8]) -> Vec<u32> {
        Fields::of(message).map(|field| field.number).collect()
    }

    #[test]
    fn fields_of_every_wire_type_are_stepped_over() {
        let varint = [0x08, 0x96, 0x01];
        let fixed64 = [0x11, 1, 2, 3, 4, 5, 6, 7, 8];
        let bytes = [0x1a, 2, b'a', b'b'];
        let group = [0x23, 0x2b, 0x08, 1, 0x2c, 0x24];
        let fixed32 = [0x35, 1, 2, 3, 4];
        let message = [&varint[..], &fixed64, &bytes, &group, &fixed32].concat();
        assert_eq!(numbers(&message), [1, 2, 3, 4, 6]);
        let wholes: Vec<_> = Fields::of(&message).flat_map(|field| field.whole.to_vec()).collect();
        assert_eq!(wholes, message);
        let contents: Vec<_> = Fields::of(&message).filter_map(|field| field.content).collect();
        assert_eq!(contents, [b"ab"]);
    }

    #[test]
    fn bytes_that_are_not_protobuf_end_the_fields() {
        for broken in [
            &[0x08][..],      // a key without its varint
            &[0x1a, 5, b'a'], // a length beyond the end
            &[0x0c],          // the end of no group
            &[0x0b, 0x08, 1], // a group without end
            &[0x0e],          // wire type 6
            &[0x80; 11],      // a varint of eleven bytes
            &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(numbers(&[&[0x08, 1], broken].concat()), [1], "{broken:?}");
        }
    }
}
