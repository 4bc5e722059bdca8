//! The fields of a message of protobuf, read where they lie.
//!
//! Invariants:
//! 1. A message may be cut. A field of bytes whose end is missing has the bytes that are there; it is
//!    the last field.
//! 2. Bytes that are not protobuf end the message. No length in them makes anything grow.

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A number. A signed or floating one has the same bits.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes {
        /// The bytes that the cut message has.
        there: &'a [u8],
        /// Number of bytes in the whole message.
        len: usize,
    },
}

/// The fields of a message in their order, by number.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<Content<'a>> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (there, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(Content::Bytes { there, len })
    }

    fn field(&mut self) -> Option<(u32, Content<'a>)> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Content::Number(self.varint()?),
            1 => {
                let (number, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Content::Number(u64::from_le_bytes(*number))
            }
            2 => self.bytes()?,
            5 => {
                let (number, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Content::Number(u32::from_le_bytes(*number).into())
            }
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, content))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Content<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_wherever_a_message_is_cut() {
        // 1: varint 300, 2: "abc", 3: fixed64 1, 4: fixed32 2.
        let message = [
            &[0x08, 0xac, 0x02, 0x12, 3][..],
            b"abc",
            &[0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 2, 0, 0, 0],
        ]
        .concat();
        let all = [
            (1, Content::Number(300)),
            (2, Content::Bytes { there: b"abc", len: 3 }),
            (3, Content::Number(1)),
            (4, Content::Number(2)),
        ];
        assert_eq!(Fields::of(&message).collect::<Vec<_>>(), all);
        for (len, whole) in
            [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (8, 2), (16, 2), (17, 3), (21, 3)]
        {
            let fields: Vec<_> = Fields::of(&message[..len]).collect();
            assert_eq!(fields, all[..whole], "{len}");
        }
        let cut: Vec<_> = Fields::of(&message[..6]).collect();
        assert_eq!(cut[1], (2, Content::Bytes { there: b"a", len: 3 }));
    }

    #[test]
    fn bytes_that_are_no_message_end_it() {
        let long = [&[0x12][..], &[0xff; 9], &[1]].concat();
        for bytes in [&[0x0b][..], &[0x0c], &[0x0f], &[0x80; 20], &[0xff; 11]] {
            assert_eq!(Fields::of(bytes).count(), 0, "{bytes:?}");
        }
        let fields: Vec<_> = Fields::of(&long).collect();
        assert_eq!(fields, [(2, Content::Bytes { there: b"", len: usize::MAX })]);
        let key = [&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01][..], &[0]].concat();
        assert_eq!(Fields::of(&key).count(), 0, "a number of a field beyond u32");
    }
}
