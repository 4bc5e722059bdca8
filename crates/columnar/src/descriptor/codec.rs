//! Bytes of a segment descriptor.

use super::{Bound, Bounds, ColumnDescriptor, DistinctSketch, PageDescriptor, SegmentDescriptor};
use crate::encoding::TREE_TAGS_MAX;
use crate::page::unknown_version;
use crate::{
    COLUMNS_MAX, ColumnType, Compression, EncodingKind, Error, HEADER_BYTES, ROWS_MAX,
    body_bytes_max,
};
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};

const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
const MIN: u8 = 1;
const MAX: u8 = 2;
const MIN_CUT: u8 = 4;
const MAX_CUT: u8 = 8;
/// Fewest bytes of a column, and of a page: what a count of them may make allocate.
const COLUMN_BYTES_MIN: usize = 5;
const PAGE_BYTES_MIN: usize = 7;

impl SegmentDescriptor {
    /// Returns the descriptor as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, 0, 0, 0];
        out.put_u32(self.rows);
        out.put_u16(u16::try_from(self.columns.len()).unwrap_or(u16::MAX));
        out.put_u16(0);
        for column in &self.columns {
            put_column(column, &mut out);
        }
        let checksum = crc32c(&[&out]);
        out.put_u32(checksum);
        out
    }

    /// Returns the descriptor that some bytes are. It takes at most some twenty times their length of memory,
    /// and 1 KiB a column.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] if they break the format, [`Error::Version`] for a later one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Some(&version) = bytes.first()
            && version != VERSION
        {
            return Err(unknown_version(version));
        }
        let Some((checked, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(Error::corrupt("descriptor ends inside its checksum", bytes.len()));
        };
        if crc32c(&[checked]) != u32::from_le_bytes(*checksum) {
            return Err(Error::corrupt("checksum of the descriptor", checked.len()));
        }
        let mut reader = Reader { items: ByteReader::new(checked), len: checked.len() };
        let descriptor = reader.segment()?;
        let at = reader.at();
        reader.items.finish().map_err(|e| Error::item(e, at))?;
        Ok(descriptor)
    }
}

fn put_column(column: &ColumnDescriptor, to: &mut Vec<u8>) {
    to.put_varint(column.number.into());
    to.push(column.column_type as u8);
    to.put_varint(column.pages.len() as u64);
    let mut sketch = Vec::new();
    column.distinct.encode(&mut sketch);
    to.put_string(&sketch);
    for page in &column.pages {
        to.put_varint(page.rows.into());
        to.put_varint(page.nulls.into());
        to.put_varint(page.stored_bytes.into());
        to.push(page.compression as u8);
        let tags: Vec<u8> = page.tree.iter().map(|kind| *kind as u8).collect();
        to.put_string(&tags);
        put_bounds(&page.bounds, column.column_type, to);
    }
}

fn put_bounds(bounds: &Bounds, column_type: ColumnType, to: &mut Vec<u8>) {
    let flags = [
        (bounds.min.is_some(), MIN),
        (bounds.max.is_some(), MAX),
        (bounds.min_cut, MIN_CUT),
        (bounds.max_cut, MAX_CUT),
    ];
    to.push(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
    for bound in bounds.min.iter().chain(&bounds.max) {
        let mut bytes = Vec::new();
        bound.put(column_type, &mut bytes);
        to.put_string(&bytes);
    }
}

struct Reader<'a> {
    items: ByteReader<'a>,
    len: usize,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.len - self.items.rest().len()
    }

    /// Reads an item; an error names where it begins.
    fn item<T>(
        &mut self,
        read: impl FnOnce(&mut ByteReader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let at = self.at();
        read(&mut self.items).map_err(|e| Error::item(e, at))
    }

    /// Reads a number that is in a range.
    fn number(
        &mut self,
        range: std::ops::RangeInclusive<usize>,
        what: &'static str,
    ) -> Result<usize, Error> {
        let at = self.at();
        let number = self.item(|items| items.varint(what))?;
        let number = usize::try_from(number).ok().filter(|number| range.contains(number));
        number.ok_or(Error::corrupt(what, at))
    }

    fn segment(&mut self) -> Result<SegmentDescriptor, Error> {
        let reserved = self.item(|items| items.u32("header"))?;
        let rows = self.item(|items| items.u32("rows"))?;
        let columns = usize::from(self.item(|items| items.u16("columns"))?);
        let zero = self.item(|items| items.u16("header"))?;
        if reserved != u32::from(VERSION) || zero != 0 {
            return Err(Error::corrupt("reserved bytes of the descriptor", 1));
        }
        if !(1..=ROWS_MAX).contains(&(rows as usize)) {
            return Err(Error::corrupt("rows of the segment", 4));
        }
        if columns > COLUMNS_MAX {
            return Err(Error::corrupt("number of columns", 8));
        }
        let capacity = columns.min(self.items.rest().len() / COLUMN_BYTES_MIN);
        let mut segment = SegmentDescriptor { rows, columns: Vec::with_capacity(capacity) };
        for _ in 0..columns {
            let at = self.at();
            let column = self.column(rows)?;
            if segment.columns.last().is_some_and(|last| last.number >= column.number) {
                return Err(Error::corrupt("numbers of columns do not ascend", at));
            }
            segment.columns.push(column);
        }
        Ok(segment)
    }

    fn column(&mut self, rows: u32) -> Result<ColumnDescriptor, Error> {
        let number = self.number(0..=u32::MAX as usize, "number of a column")? as u32;
        let at = self.at();
        let column_type = ColumnType::from_byte(self.item(|items| items.u8("type"))?)
            .ok_or(Error::corrupt("type of a column", at))?;
        let pages = self.number(1..=ROWS_MAX, "number of pages")?;
        let at = self.at();
        let sketch = self.item(|items| items.string("sketch"))?;
        let distinct = DistinctSketch::decode(sketch).map_err(|what| Error::corrupt(what, at))?;
        let capacity = pages.min(self.items.rest().len() / PAGE_BYTES_MIN);
        let mut column =
            ColumnDescriptor { number, column_type, distinct, pages: Vec::with_capacity(capacity) };
        let mut left = rows as usize;
        for _ in 0..pages {
            let page = self.page(column_type, left)?;
            left -= page.rows as usize;
            column.pages.push(page);
        }
        if left != 0 {
            return Err(Error::corrupt("pages with fewer rows than the segment", self.at()));
        }
        Ok(column)
    }

    /// Reads a page with at most `rows_max` rows.
    fn page(&mut self, column_type: ColumnType, rows_max: usize) -> Result<PageDescriptor, Error> {
        let rows = self.number(1..=rows_max, "rows of a page")?;
        let nulls = self.number(0..=rows, "nulls of a page")?;
        let max = HEADER_BYTES + body_bytes_max(rows);
        let stored_bytes = self.number(HEADER_BYTES + 1..=max, "length of a page")? as u32;
        let at = self.at();
        let compression = Compression::from_byte(self.item(|items| items.u8("compression"))?)
            .ok_or(Error::corrupt("compression of a page", at))?;
        let at = self.at();
        let tags = self.item(|items| items.string("encoding tree"))?;
        if !(1..=TREE_TAGS_MAX).contains(&tags.len()) {
            return Err(Error::corrupt("number of tags of an encoding tree", at));
        }
        let tree: Option<_> = tags.iter().map(|tag| EncodingKind::from_byte(*tag)).collect();
        let tree = tree.ok_or(Error::corrupt("tag of an encoding tree", at))?;
        let at = self.at();
        let bounds = self.bounds(column_type)?;
        if bounds.min.is_none() != (nulls == rows) {
            return Err(Error::corrupt("bounds of a page", at));
        }
        let (rows, nulls) = (rows as u32, nulls as u32);
        Ok(PageDescriptor { rows, nulls, stored_bytes, compression, tree, bounds })
    }

    fn bounds(&mut self, column_type: ColumnType) -> Result<Bounds, Error> {
        let at = self.at();
        let flags = self.item(|items| items.u8("bounds"))?;
        let text = matches!(column_type, ColumnType::Utf8 | ColumnType::Binary);
        let cut = (flags & MIN_CUT != 0, flags & MAX_CUT != 0);
        let is = (flags & MIN != 0, flags & MAX != 0);
        let of_text_only = cut.0 || cut.1 || is.0 != is.1;
        if flags > 15 || of_text_only && !text || cut.0 && !is.0 || cut.1 && !is.1 || is.1 && !is.0
        {
            return Err(Error::corrupt("flags of bounds", at));
        }
        let mut bound = |there: bool| {
            let at = self.at();
            if !there {
                return Ok(None);
            }
            let bytes = self.item(|items| items.string("bound"))?;
            let bound = Bound::get(column_type, bytes);
            bound.map(Some).ok_or(Error::corrupt("bound of another length than its type", at))
        };
        let (min, max) = (bound(is.0)?, bound(is.1)?);
        Ok(Bounds { min, max, min_cut: cut.0, max_cut: cut.1 })
    }
}
