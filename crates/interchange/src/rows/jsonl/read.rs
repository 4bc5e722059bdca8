//! Reads JSON lines.

use super::{LINE_BYTES_MAX, LINE_CELLS_MAX};
use crate::error::{Error, Result};
use crate::lines::Lines;
use crate::rows::encoding::Encoding;
use crate::rows::limits::{self, RecordCells};
use crate::rows::{Cell, Row, RowReader};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Reads rows from JSON lines that an export wrote.
pub(in crate::rows) struct Reader {
    lines: Lines,
    offset: u64,
    /// Cells of the last line that are not given yet.
    rest: Option<(Bytes, std::vec::IntoIter<Cell>)>,
}

impl Reader {
    pub(in crate::rows) fn new(input: Box<dyn Read + Send>) -> Self {
        let lines = Lines::with_limit(Box::new(BufReader::new(input)), LINE_BYTES_MAX);
        Self { lines, offset: 0, rest: None }
    }
}

impl RowReader for Reader {
    fn next(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some((key, rest)) = &mut self.rest {
                let mut cells = RecordCells::new();
                while !cells.is_full()
                    && let Some(cell) = rest.next()
                {
                    cells.push(cell);
                }
                if !cells.is_empty() {
                    return Ok(Some(cells.take(key)));
                }
            }
            let Some(line) = self.lines.next_filled()? else { return Ok(None) };
            self.offset = line.end.offset;
            if line.cut {
                let reason = format!("the line is longer than {LINE_BYTES_MAX} bytes");
                return Err(Error::at_line(line.number, reason));
            }
            let row = row(&line.text).map_err(|why| Error::at_line(line.number, why))?;
            self.rest = Some((row.key, row.cells.into_iter()));
        }
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}

/// A row in JSON. One of the names of the key is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    key: Option<Text<{ Encoding::Escaped as u8 }>>,
    key_base64: Option<Text<{ Encoding::Base64 as u8 }>>,
    cells: Cells,
    /// The reason why a table refused the row, which is not asked for.
    #[serde(rename = "rejected")]
    _rejected: Option<IgnoredAny>,
}

/// A cell in JSON. One of the names of qualifier and value is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonCell<'a> {
    #[serde(borrow)]
    family: Cow<'a, str>,
    qualifier: Option<Text<{ Encoding::Escaped as u8 }>>,
    qualifier_base64: Option<Text<{ Encoding::Base64 as u8 }>>,
    timestamp: i64,
    value: Option<Text<{ Encoding::Escaped as u8 }>>,
    value_base64: Option<Text<{ Encoding::Base64 as u8 }>>,
}

/// Bytes that are text in an encoding, given by its number.
struct Text<const ENCODING: u8>(Bytes);

impl<'de, const ENCODING: u8> Deserialize<'de> for Text<ENCODING> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_str(TextVisitor)
    }
}

struct TextVisitor<const ENCODING: u8>;

impl<const ENCODING: u8> Visitor<'_> for TextVisitor<ENCODING> {
    type Value = Text<ENCODING>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        let encoding = match ENCODING {
            0 => Encoding::Escaped,
            _ => Encoding::Base64,
        };
        let bytes = encoding.decode(text.as_bytes()).map_err(E::custom)?;
        Ok(Text(bytes.into()))
    }
}

const _: () = assert!(Encoding::Escaped as u8 == 0 && Encoding::Base64 as u8 == 1);

/// The cells of a line, each checked and decoded as it comes.
struct Cells(Vec<Cell>);

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_seq(CellsVisitor)
    }
}

struct CellsVisitor;

impl<'de> Visitor<'de> for CellsVisitor {
    type Value = Cells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of cells")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> std::result::Result<Cells, A::Error> {
        let (mut cells, mut family) = (Vec::new(), Arc::from(""));
        while let Some(found) = from.next_element::<JsonCell<'de>>()? {
            if cells.len() == LINE_CELLS_MAX {
                let why = format!("the line has more than {LINE_CELLS_MAX} cells; make it several");
                return Err(de::Error::custom(why));
            }
            cells.push(cell(found, &mut family).map_err(de::Error::custom)?);
        }
        Ok(Cells(cells))
    }
}

/// Returns the cell in `found`. `family` is the family of the cell before it.
fn cell(found: JsonCell<'_>, family: &mut Arc<str>) -> std::result::Result<Cell, String> {
    limits::check("family", found.family.len(), limits::FAMILY_BYTES_MAX)?;
    if **family != *found.family {
        *family = found.family.as_ref().into();
    }
    let qualifier = one_of("qualifier", found.qualifier, found.qualifier_base64)?;
    limits::check("qualifier", qualifier.len(), limits::QUALIFIER_BYTES_MAX)?;
    let value = one_of("value", found.value, found.value_base64)?;
    limits::check("value", value.len(), limits::VALUE_BYTES_MAX)?;
    let (family, timestamp_micros) = (Arc::clone(family), found.timestamp);
    Ok(Cell { family, qualifier, timestamp_micros, value })
}

fn row(line: &[u8]) -> std::result::Result<Row, String> {
    let row: JsonRow = serde_json::from_slice(line)
        .map_err(|error| format!("this is no row of a JSON export: {error}"))?;
    let key = one_of("key", row.key, row.key_base64)?;
    limits::check("key", key.len(), limits::KEY_BYTES_MAX)?;
    match row.cells {
        Cells(cells) if cells.is_empty() => Err("the row has no cell".to_owned()),
        Cells(cells) => Ok(Row { key, cells }),
    }
}

/// Returns the bytes under the one of two names that is there.
fn one_of<const A: u8, const B: u8>(
    what: &str,
    escaped: Option<Text<A>>,
    base64: Option<Text<B>>,
) -> std::result::Result<Bytes, String> {
    match (escaped, base64) {
        (Some(Text(bytes)), None) | (None, Some(Text(bytes))) => Ok(bytes),
        (None, None) => Err(format!("neither \"{what}\" nor \"{what}_base64\" is there")),
        (Some(_), Some(_)) => Err(format!("both \"{what}\" and \"{what}_base64\" are there")),
    }
}
