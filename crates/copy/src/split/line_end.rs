//! Finds how the first line ends.

use crate::block::LineEnd;

/// Reads the first record byte by byte until its end.
pub(super) struct FirstLine {
    at: usize,
    /// Quote and escape of CSV; text escapes by a backslash.
    quoting: Option<(u8, u8)>,
    is_inside: bool,
    is_escaped: bool,
}

impl FirstLine {
    pub(super) fn new(quoting: Option<(u8, u8)>) -> Self {
        Self { at: 0, quoting, is_inside: false, is_escaped: false }
    }

    /// Returns the line end once it is there; data grows between calls and keeps its front.
    pub(super) fn find(&mut self, data: &[u8], is_last: bool) -> Option<LineEnd> {
        while let Some(&byte) = data.get(self.at) {
            if self.is_data(byte) {
                self.at += 1;
                continue;
            }
            if byte == b'\n' {
                return Some(LineEnd::Lf);
            }
            return match data.get(self.at + 1) {
                Some(b'\n') => Some(LineEnd::CrLf),
                Some(_) => Some(LineEnd::Cr),
                None => is_last.then_some(LineEnd::Cr),
            };
        }
        is_last.then_some(LineEnd::Lf)
    }

    /// Returns whether a byte ends no line, and takes notice of it.
    fn is_data(&mut self, byte: u8) -> bool {
        let is_line_end = matches!(byte, b'\n' | b'\r');
        let Some((quote, escape)) = self.quoting else {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            self.is_escaped = byte == b'\\' && !is_escaped;
            return is_escaped || !is_line_end;
        };
        if self.is_inside && byte == escape && escape != quote {
            self.is_escaped = !self.is_escaped;
            // An escape that is not one of a quote is data.
            return true;
        }
        if byte == quote && !self.is_escaped {
            self.is_inside = !self.is_inside;
        }
        self.is_escaped = false;
        self.is_inside || !is_line_end
    }
}
