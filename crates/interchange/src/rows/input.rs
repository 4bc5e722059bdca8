//! Bytes of a file that nobody vouches for, read forward with their offset.

use crate::error::{Error, Result};
use std::io::{BufReader, ErrorKind, Read};

const BUFFER_BYTES: usize = 1 << 20;
/// Bytes that are allocated at a time, whatever length a file claims.
const STEP_BYTES: usize = 1 << 20;

/// Reads forward, and counts the bytes.
pub(super) struct Input {
    file: BufReader<Box<dyn Read + Send>>,
    offset: u64,
}

impl Input {
    pub(super) fn new(file: Box<dyn Read + Send>) -> Self {
        Self { file: BufReader::with_capacity(BUFFER_BYTES, file), offset: 0 }
    }

    /// Returns the offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next byte, or `None` at the end of the file.
    pub(super) fn next_byte(&mut self) -> Result<Option<u8>> {
        let mut byte = [0];
        loop {
            match self.file.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.offset += 1;
        Ok(Some(byte[0]))
    }

    /// Returns the next byte, which is part of `what`.
    pub(super) fn byte(&mut self, what: &str) -> Result<u8> {
        let offset = self.offset;
        self.next_byte()?.ok_or_else(|| ends_inside(offset, what))
    }

    /// Returns the next `N` bytes, which are `what`.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte(what)?;
        }
        Ok(bytes)
    }

    /// Returns the next `len` bytes, which are `what`, at most `max`.
    pub(super) fn bytes(&mut self, len: u64, max: usize, what: &str) -> Result<Vec<u8>> {
        let start = self.offset;
        if len > max as u64 {
            return Err(Error::at_offset(
                start,
                format!("{what} of {len} bytes; the limit is {max}"),
            ));
        }
        let mut bytes = Vec::new();
        let mut rest = len as usize;
        while rest > 0 {
            let step = rest.min(STEP_BYTES);
            let read = (&mut self.file).take(step as u64).read_to_end(&mut bytes)?;
            self.offset += read as u64;
            if read < step {
                return Err(ends_inside(self.offset, what));
            }
            rest -= step;
        }
        Ok(bytes)
    }
}

fn ends_inside(offset: u64, what: &str) -> Error {
    Error::at_offset(offset, format!("the file ends inside {what}; it is truncated"))
}
