//! The shape of messages: what must hold of a body before `pgwire` decodes it.
//!
//! The decoder takes counts and lengths at their word, and panics where the body is shorter. A body that
//! passes [`check`] decodes without a panic, and ends where its fields end.

use std::fmt;

/// Reason for which a message is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Misshapen {
    /// The fields do not fill the body.
    Layout,
    /// No client sends a message of this type.
    Type(u8),
    /// A statement is not UTF-8; the bytes are the first that are not.
    Encoding(Vec<u8>),
}

impl fmt::Display for Misshapen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout => f.write_str("invalid message format"),
            Self::Type(kind) => write!(f, "invalid frontend message type {kind}"),
            Self::Encoding(bytes) => {
                f.write_str("invalid byte sequence for encoding \"UTF8\":")?;
                bytes.iter().try_for_each(|byte| write!(f, " 0x{byte:02x}"))
            }
        }
    }
}

/// Checks the body of a message of type `kind`, without type and length.
pub(crate) fn check(kind: u8, body: &[u8]) -> Result<(), Misshapen> {
    let mut fields = Fields(body);
    match kind {
        b'Q' => utf8(fields.text()?)?,
        b'P' => {
            fields.text()?;
            utf8(fields.text()?)?;
            fields.counted(4)?;
        }
        b'B' => bind(&mut fields)?,
        b'D' | b'C' => {
            fields.take(1)?;
            fields.text()?;
        }
        b'E' => {
            fields.text()?;
            fields.take(4)?;
        }
        b'f' => {
            fields.text()?;
        }
        b'H' | b'S' | b'X' | b'c' => {}
        b'p' | b'd' => return Ok(()),
        other => return Err(Misshapen::Type(other)),
    }
    if fields.0.is_empty() { Ok(()) } else { Err(Misshapen::Layout) }
}

/// Checks the first answer of a client to the offer of SASL mechanisms.
pub(crate) fn check_sasl_initial(body: &[u8]) -> Result<(), Misshapen> {
    let mut fields = Fields(body);
    fields.text()?;
    fields.value()?;
    if fields.0.is_empty() { Ok(()) } else { Err(Misshapen::Layout) }
}

fn bind(fields: &mut Fields<'_>) -> Result<(), Misshapen> {
    fields.text()?;
    fields.text()?;
    fields.counted(2)?;
    for _ in 0..fields.u16()? {
        fields.value()?;
    }
    fields.counted(2)
}

fn utf8(text: &[u8]) -> Result<(), Misshapen> {
    let Err(error) = std::str::from_utf8(text) else { return Ok(()) };
    let from = error.valid_up_to();
    let to = text.len().min(from + error.error_len().unwrap_or(3));
    Err(Misshapen::Encoding(text[from..to].to_vec()))
}

/// Fields that are still to come.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Misshapen> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Misshapen::Layout)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a text and the zero after it.
    fn text(&mut self) -> Result<&'a [u8], Misshapen> {
        let len = self.0.iter().position(|&byte| byte == 0).ok_or(Misshapen::Layout)?;
        let text = self.take(len)?;
        self.take(1)?;
        Ok(text)
    }

    fn u16(&mut self) -> Result<usize, Misshapen> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Takes a count and as many fields of `width` bytes.
    fn counted(&mut self, width: usize) -> Result<(), Misshapen> {
        let count = self.u16()?;
        self.take(count * width).map(drop)
    }

    /// Takes a value with its length, which is -1 for NULL.
    fn value(&mut self) -> Result<(), Misshapen> {
        let bytes = self.take(4)?;
        match i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) {
            -1 => Ok(()),
            len => self.take(usize::try_from(len).map_err(|_| Misshapen::Layout)?).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

    fn bodies() -> Vec<(u8, Vec<u8>)> {
        let mut bind = b"portal\0statement\0\0\x01\0\x01\0\x02\0\0\0\x03abc".to_vec();
        bind.extend(b"\xff\xff\xff\xff\0\x01\0\0");
        vec![
            (b'Q', b"SELECT 1\0".to_vec()),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17".to_vec()),
            (b'B', bind),
            (b'D', b"Ss\0".to_vec()),
            (b'C', b"P\0".to_vec()),
            (b'E', b"\0\0\0\0\x05".to_vec()),
            (b'f', b"gone\0".to_vec()),
            (b'S', Vec::new()),
        ]
    }

    fn decode(kind: u8, body: &[u8]) -> bool {
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        let mut frame = BytesMut::new();
        frame.put_u8(kind);
        frame.put_u32(u32::try_from(body.len() + 4).unwrap());
        frame.put_slice(body);
        matches!(PgWireFrontendMessage::decode(&mut frame, &context), Ok(Some(_)))
    }

    #[test]
    fn whole_messages_pass_and_cut_ones_do_not() {
        for (kind, body) in bodies() {
            assert_eq!(check(kind, &body), Ok(()), "{}", char::from(kind));
            assert!(decode(kind, &body), "{}", char::from(kind));
            for len in 0..body.len() {
                assert_eq!(check(kind, &body[..len]), Err(Misshapen::Layout), "{kind} at {len}");
            }
        }
    }

    #[test]
    fn a_flipped_byte_never_makes_the_decoder_panic() {
        for (kind, body) in bodies() {
            for at in 0..body.len() {
                for flip in [0x01, 0x80, 0xff] {
                    let mut body = body.clone();
                    body[at] ^= flip;
                    if check(kind, &body).is_ok() {
                        decode(kind, &body);
                    }
                }
            }
        }
    }

    #[test]
    fn a_statement_must_be_utf8() {
        assert_eq!(check(b'Q', b"SELECT '\xff'\0"), Err(Misshapen::Encoding(vec![0xff])));
        let error = check(b'P', b"\0SELECT '\xe2\x82'\0\0\0").unwrap_err();
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xe2 0x82");
        assert_eq!(check(b'?', b""), Err(Misshapen::Type(b'?')));
    }
}
