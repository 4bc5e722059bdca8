//! Rows of binary data, whose lengths the splitter has checked.

use super::Parser;
use crate::block::Block;
use crate::error::{Error, Result, State};

impl Parser {
    /// Parses rows from the front of a block.
    pub(super) fn parse_binary(&mut self, block: &mut Block, rows_max: usize) -> Result<()> {
        while !block.is_empty() && self.rows < rows_max {
            let line = block.first_line() + block.rows_done;
            let data = block.data();
            block.at = self.parse_row(data, block.at).map_err(|error| error.at_line(line))?;
            block.rows_done += 1;
            self.rows += 1;
        }
        Ok(())
    }

    /// Parses the row at a place. Returns the place behind it.
    fn parse_row(&mut self, data: &[u8], at: usize) -> Result<usize> {
        // A splitter of other columns cut the block.
        let short = || Error::new(State::INTERNAL_ERROR, "a row has other fields than its block");
        let count = data.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(short)?;
        if usize::from(u16::from_be_bytes(*count)) != self.columns.len() {
            return Err(short());
        }
        let mut at = at + 2;
        for column in &mut self.columns {
            let len = data.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(short)?;
            let len = i32::from_be_bytes(*len);
            at += 4;
            if len == -1 {
                column.push_null(self.rows);
                continue;
            }
            let len = usize::try_from(len).map_err(|_| short())?;
            let value = data.get(at..).and_then(|rest| rest.get(..len)).ok_or_else(short)?;
            column
                .push_binary(value, &*self.forms)
                .map_err(|error| error.in_column(&column.column.name, None))?;
            at += len;
        }
        Ok(at)
    }
}
