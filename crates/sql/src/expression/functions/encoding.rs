//! Text in other encodings than UTF-8: `convert_to`, `convert_from` and `convert`.

use relational::{Bytes, Error, Result, SqlState, Value};

use super::{Definition, invalid, text};
use crate::values::utf8;

pub(super) const TABLE: &[Definition] = &[
    ("convert_to", "text,text -> bytea", |call| {
        let encoding = Encoding::of(call.text(1), "destination")?;
        encoding.encode(call.text(0)).map(Value::Bytea)
    }),
    ("convert_from", "bytea,text -> text", |call| {
        text(Encoding::of(call.text(1), "source")?.decode(call.bytes(0))?)
    }),
];

#[derive(Clone, Copy)]
enum Encoding {
    Utf8,
    /// Bytes as they are, which have to be UTF-8 here.
    Ascii,
    Latin1,
}

/// Encodings that PostgreSQL knows and this server does not convert.
const OTHERS: &[&str] = &[
    "big5",
    "euccn",
    "eucjisx0213",
    "eucjp",
    "euckr",
    "euctw",
    "gb18030",
    "gbk",
    "iso88592",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "johab",
    "koi8",
    "koi8r",
    "koi8u",
    "latin10",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "mskanji",
    "shiftjis",
    "sjis",
    "uhc",
    "win",
    "win1250",
    "win1251",
    "win1252",
    "win1253",
    "win1254",
    "win1255",
    "win1256",
    "win1257",
    "win1258",
    "win866",
    "win874",
    "windows1252",
];

impl Encoding {
    /// Returns the encoding of a name. 22023 for one that does not exist, 0A000 for one that is not converted.
    fn of(name: &str, side: &str) -> Result<Self> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => Ok(Self::Utf8),
            "sqlascii" => Ok(Self::Ascii),
            "latin1" | "iso88591" => Ok(Self::Latin1),
            other if OTHERS.contains(&other) => {
                Err(Error::unsupported(format!("the encoding \"{name}\" is not supported")))
            }
            _ => Err(invalid(format!("invalid {side} encoding name \"{name}\""))),
        }
    }

    fn encode(self, text: &str) -> Result<Bytes> {
        match self {
            Self::Utf8 | Self::Ascii => Ok(Bytes::copy_from_slice(text.as_bytes())),
            Self::Latin1 => {
                text.chars().map(|c| u8::try_from(c).map_err(|_| untranslatable(c))).collect()
            }
        }
    }

    fn decode(self, bytes: &[u8]) -> Result<String> {
        match self {
            Self::Latin1 if !bytes.contains(&0) => {
                Ok(bytes.iter().copied().map(char::from).collect())
            }
            _ => utf8(bytes).map(str::to_owned),
        }
    }
}

fn untranslatable(symbol: char) -> Error {
    let mut bytes = [0; 4];
    let bytes = symbol.encode_utf8(&mut bytes).bytes();
    let bytes = bytes.map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ");
    let message = format!(
        "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\""
    );
    Error::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
}
