//! Text in codes of a byte that stand for frequent strings of up to eight bytes: "FSST: Fast Random Access
//! String Compression", Boncz, Neumann, Leis, VLDB 2020. Each value is coded by itself, so some rows can be
//! decoded without the others.
//!
//! The table is trained and applied by the crate `fsst`; what is on disk is decoded here, since it may be
//! anything.

use super::{Encoding, Input, Output, decode_numbers, encode_numbers};
use crate::Error;
use crate::column_type::Width;
use crate::values::{Column, Text, Values};
use arrow_buffer::Buffer;
use fsst::Compressor;

/// Code before a byte that stands for itself.
const ESCAPE: u8 = 255;
const SYMBOL_BYTES_MAX: usize = 8;

pub(super) struct Fsst;

impl Encoding for Fsst {
    fn encode(&self, values: &Values<'_>, to: &mut Output) -> Option<()> {
        let Values::Text(texts) = values else { return None };
        let decoded: usize = texts.iter().map(|text| text.len()).sum();
        if decoded == 0 {
            return None;
        }
        let compressor = Compressor::train(texts);
        let (mut coded, mut ends) = (Vec::new(), Vec::new());
        compressor
            .compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(texts, &mut coded, &mut ends);
        let starts = [0].into_iter().chain(ends.iter().copied());
        let lengths = ends.iter().zip(starts).map(|(end, start)| (end - start) as u32).collect();
        let before = to.len();
        put_symbols(&compressor, to);
        to.fixed += to.len() - before;
        to.put_len(decoded);
        to.put_len(coded.len());
        encode_numbers(lengths, to)?;
        to.bytes.extend_from_slice(&coded);
        Some(())
    }

    fn decode(&self, width: Width, count: usize, from: &mut Input<'_>) -> Result<Column, Error> {
        let node = Node::read(width, count, from)?;
        let mut decoder = Decoder::new(&node);
        let mut at = 0;
        for length in node.lengths.iter() {
            let end = at + length.cast_unsigned() as usize;
            decoder.push(&node.coded[at..end])?;
            at = end;
        }
        decoder.finish(&node)
    }

    fn decode_rows(
        &self,
        width: Width,
        count: usize,
        from: &mut Input<'_>,
        rows: &[u32],
    ) -> Result<Column, Error> {
        let node = Node::read(width, count, from)?;
        let mut decoder = Decoder::new(&node);
        let (mut at, mut next) = (0, 0);
        for row in rows {
            let row = *row as usize;
            let skipped = &node.lengths[next..row];
            at += skipped.iter().map(|length| length.cast_unsigned() as usize).sum::<usize>();
            let end = at + node.lengths[row].cast_unsigned() as usize;
            decoder.push(&node.coded[at..end])?;
            (at, next) = (end, row + 1);
        }
        decoder.finish(&node)
    }
}

fn put_symbols(compressor: &Compressor, to: &mut Output) {
    let lengths = compressor.symbol_lengths();
    to.put_u8(lengths.len() as u8);
    to.bytes.extend_from_slice(lengths);
    for (symbol, length) in compressor.symbol_table().iter().zip(lengths) {
        to.bytes.extend_from_slice(&symbol.to_u64().to_le_bytes()[..usize::from(*length)]);
    }
}

/// A node as it was read. The sum of `lengths` is the length of `coded`.
struct Node<'a> {
    utf8: bool,
    symbols: Symbols,
    decoded_len: usize,
    lengths: arrow_buffer::ScalarBuffer<i32>,
    coded: &'a [u8],
    /// Place of the coded bytes, for errors.
    at: usize,
}

impl<'a> Node<'a> {
    fn read(width: Width, count: usize, from: &mut Input<'a>) -> Result<Self, Error> {
        let Width::Text { utf8 } = width else {
            return Err(from.damage("symbols of values that are no text"));
        };
        let symbols = Symbols::read(from)?;
        let damage = from.damage("decoded length of text");
        let decoded_len = from.u32()? as usize;
        if decoded_len > from.text_bytes_max() {
            return Err(damage);
        }
        let coded_len = from.u32()? as usize;
        let damage = from.damage("lengths of coded values");
        let lengths = decode_numbers(count, from)?;
        let sum: u64 = lengths.iter().map(|length| u64::from(length.cast_unsigned())).sum();
        if sum != coded_len as u64 {
            return Err(damage);
        }
        let at = from.at();
        let coded = from.bytes(coded_len)?;
        Ok(Self { utf8, symbols, decoded_len, lengths, coded, at })
    }
}

/// The symbol of each code, and its length; 0 for codes that have none.
struct Symbols {
    bytes: [[u8; SYMBOL_BYTES_MAX]; 256],
    lengths: [u8; 256],
}

impl Symbols {
    fn read(from: &mut Input<'_>) -> Result<Self, Error> {
        let mut symbols = Self { bytes: [[0; SYMBOL_BYTES_MAX]; 256], lengths: [0; 256] };
        let count = from.u8()?;
        let lengths = from.bytes(count.into())?;
        for (code, length) in lengths.iter().enumerate() {
            let damage = from.damage("length of a symbol");
            let bytes = from.bytes((*length).into())?;
            let to = symbols.bytes[code].get_mut(..bytes.len()).filter(|to| !to.is_empty());
            to.ok_or(damage)?.copy_from_slice(bytes);
            symbols.lengths[code] = *length;
        }
        Ok(symbols)
    }
}

/// Decodes values one after the other.
struct Decoder<'a> {
    node: &'a Node<'a>,
    /// The decoded bytes, and behind them room for a whole symbol, whatever its length.
    out: Vec<u8>,
    len: usize,
    ends: Vec<u32>,
}

impl<'a> Decoder<'a> {
    fn new(node: &'a Node<'a>) -> Self {
        let out = vec![0; node.decoded_len + SYMBOL_BYTES_MAX];
        Self { node, out, len: 0, ends: Vec::with_capacity(node.lengths.len()) }
    }

    /// Decodes one value behind the others.
    fn push(&mut self, coded: &[u8]) -> Result<(), Error> {
        let damage = |what| Err(Error::corrupt(what, self.node.at));
        let mut rest = coded.iter();
        while let Some(&code) = rest.next() {
            let Some(room) = self.out.get_mut(self.len..self.len + SYMBOL_BYTES_MAX) else {
                return damage("text is longer than it says");
            };
            if code == ESCAPE {
                let Some(byte) = rest.next() else {
                    return damage("a coded value ends behind an escape");
                };
                room[0] = *byte;
                self.len += 1;
                continue;
            }
            let length = self.node.symbols.lengths[usize::from(code)];
            if length == 0 {
                return damage("a code without a symbol");
            }
            room.copy_from_slice(&self.node.symbols.bytes[usize::from(code)]);
            self.len += usize::from(length);
        }
        if self.len > self.node.decoded_len {
            return damage("text is longer than it says");
        }
        self.ends.push(self.len as u32);
        Ok(())
    }

    /// Returns what was decoded. All values together must have the length that the node says.
    fn finish(mut self, node: &Node<'_>) -> Result<Column, Error> {
        if self.ends.len() == node.lengths.len() && self.len != node.decoded_len {
            return Err(Error::corrupt("text is shorter than it says", node.at));
        }
        self.out.truncate(self.len);
        let ends = self.ends.into_iter();
        Ok(Column::Text(Text::of(Buffer::from(self.out), ends, node.utf8, node.at)?))
    }
}
