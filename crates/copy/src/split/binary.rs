//! Ends of rows of binary data.
//!
//! signature 11 bytes | flags i32 | length of the extension i32 | extension | rows | -1 i16
//! row: count of fields i16 | fields; field: length i32, -1 for NULL | bytes

use super::{Cut, Cutter};
use crate::error::{Error, State};

/// First bytes of the data.
pub(crate) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
const FLAG_OIDS: i32 = 1 << 16;

pub(super) struct BinaryCutter {
    columns: usize,
    record_bytes_max: usize,
    has_header: bool,
    /// Length of the header, while it is before the first row.
    head: usize,
    /// End of the last whole row.
    row_end: usize,
    /// Place of the next field of the row behind it, and the number of its fields to come.
    next: usize,
    fields: Option<usize>,
    rows: u64,
}

/// The reason for which a walk over rows ends.
enum Stop {
    More,
    End,
    Wrong(Error),
}

impl BinaryCutter {
    pub(super) fn new(columns: usize, record_bytes_max: usize) -> Self {
        Self {
            columns,
            record_bytes_max,
            has_header: true,
            head: 0,
            row_end: 0,
            next: 0,
            fields: None,
            rows: 0,
        }
    }

    /// Returns the length of the header once it is there.
    fn header(&self, data: &[u8]) -> Result<usize, Stop> {
        let wrong = |message: &str| Stop::Wrong(Error::format(message));
        let len = data.len().min(SIGNATURE.len());
        if data[..len] != SIGNATURE[..len] {
            return Err(wrong("COPY file signature not recognized"));
        }
        let flags = i32_at(data, SIGNATURE.len()).ok_or(Stop::More)?;
        if flags & FLAG_OIDS != 0 {
            return Err(wrong("invalid COPY file header (WITH OIDS)"));
        }
        if flags >> 16 != 0 {
            return Err(wrong("unrecognized critical flags in COPY file header"));
        }
        let extension = i32_at(data, SIGNATURE.len() + 4).ok_or(Stop::More)?;
        let extension = usize::try_from(extension);
        match extension.map(|len| len + SIGNATURE.len() + 8) {
            Ok(len) if len <= data.len() => Ok(len),
            Ok(len) if len <= self.record_bytes_max => Err(Stop::More),
            Ok(_) => Err(self.too_long()),
            Err(_) => Err(wrong("invalid COPY file header (wrong length)")),
        }
    }

    fn too_long(&self) -> Stop {
        let message = format!("a record has more than {} bytes", self.record_bytes_max);
        Stop::Wrong(Error::new(State::PROGRAM_LIMIT_EXCEEDED, message))
    }

    /// Walks over rows to the end of the data.
    fn walk(&mut self, data: &[u8]) -> Stop {
        loop {
            let fields = match self.fields {
                Some(fields) => fields,
                None => match self.row(data) {
                    Ok(fields) => fields,
                    Err(stop) => return stop,
                },
            };
            for left in (0..fields).rev() {
                let Some(len) = i32_at(data, self.next) else { return Stop::More };
                let len = match len {
                    -1 => 0,
                    len => match usize::try_from(len) {
                        Ok(len) => len,
                        Err(_) => return Stop::Wrong(Error::format("invalid field size")),
                    },
                };
                let end = self.next + 4 + len;
                if end - self.row_end > self.record_bytes_max {
                    return self.too_long();
                }
                if end > data.len() {
                    return Stop::More;
                }
                (self.next, self.fields) = (end, Some(left));
            }
            (self.row_end, self.fields) = (self.next, None);
            self.rows += 1;
        }
    }

    /// Reads the count of fields of a row.
    fn row(&mut self, data: &[u8]) -> Result<usize, Stop> {
        let count = data.get(self.row_end..).and_then(|rest| rest.first_chunk());
        let count = i16::from_be_bytes(*count.ok_or(Stop::More)?);
        if count == -1 {
            return Err(Stop::End);
        }
        match usize::try_from(count) {
            Ok(fields) if fields == self.columns => {
                (self.next, self.fields) = (self.row_end + 2, Some(fields));
                Ok(fields)
            }
            _ => {
                let message = format!("row field count is {count}, expected {}", self.columns);
                Err(Stop::Wrong(Error::format(message)))
            }
        }
    }
}

fn i32_at(data: &[u8], at: usize) -> Option<i32> {
    data.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

impl Cutter for BinaryCutter {
    fn cut(&mut self, data: &[u8], is_last: bool) -> Cut {
        if self.has_header {
            match self.header(data) {
                Ok(len) => {
                    self.has_header = false;
                    (self.head, self.row_end, self.next) = (len, len, len);
                }
                Err(Stop::Wrong(error)) => return Cut::Wrong(0, error),
                Err(_) if is_last => {
                    return Cut::Wrong(0, Error::format("unexpected EOF in COPY data"));
                }
                Err(_) => return Cut::More,
            }
        }
        match self.walk(data) {
            Stop::End => Cut::End(self.row_end, self.row_end + 2),
            Stop::Wrong(error) => Cut::Wrong(self.row_end, error),
            Stop::More if is_last && self.row_end < data.len() => {
                Cut::Wrong(self.row_end, Error::format("unexpected EOF in COPY data"))
            }
            Stop::More if is_last || self.rows > 0 => Cut::At(self.row_end),
            Stop::More => Cut::More,
        }
    }

    fn shift(&mut self, len: usize) {
        self.row_end -= len;
        self.next -= len.min(self.next);
        (self.rows, self.head) = (0, 0);
    }

    fn head(&self) -> usize {
        self.head
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }
}
