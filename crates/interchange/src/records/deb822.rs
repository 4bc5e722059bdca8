//! Stanzas of `Field: value` lines, blank lines between them (deb822(5)).
//!
//! A line that starts with a space or a tab continues the value above it: it is kept with its
//! newline, less that one space. Lines that start with `#` are comments.

use super::{Item, Lines, Record, Records, too_long};
use crate::lines::{Line, RECORD_BYTES_MAX};
use bytes::Bytes;
use std::collections::HashSet;
use std::io;

/// Reads stanzas.
pub(super) struct Stanzas;

impl Records for Stanzas {
    fn next(&mut self, lines: &mut Lines) -> io::Result<Option<Item>> {
        let Some(first) = lines.next_filled()? else { return Ok(None) };
        let (line, mut end, mut text) = (first.number, first.end, Vec::new());
        let mut stanza = Ok(Stanza::default());
        let mut next = Some(first);
        while let Some(line) = next.filter(|line| !line.is_blank()) {
            end = line.end;
            let long = text.len() + line.text.len() >= RECORD_BYTES_MAX;
            if long {
                stanza = stanza.and_then(|_| Err(too_long()));
            } else {
                text.extend_from_slice(&line.text);
                text.push(b'\n');
            }
            stanza = stanza.and_then(|stanza| stanza.with(&line));
            next = lines.next_line()?;
        }
        Ok(Some(Item { line, end, text, content: stanza.map(Stanza::record) }))
    }
}

/// A stanza that is being read.
#[derive(Default)]
struct Stanza {
    fields: Vec<(Bytes, Vec<u8>)>,
    names: HashSet<Bytes>,
}

impl Stanza {
    /// The stanza with one more line.
    fn with(mut self, line: &Line) -> Result<Self, String> {
        let text = line.trimmed();
        match text.first() {
            Some(b'#') => {}
            Some(b' ' | b'\t') => {
                let Some((_, value)) = self.fields.last_mut() else {
                    return Err(format!(
                        "line {} continues a field, but no field precedes it",
                        line.number
                    ));
                };
                value.push(b'\n');
                value.extend_from_slice(&text[1..]);
            }
            _ => {
                let colon = text.iter().position(|&byte| byte == b':').filter(|&at| at > 0);
                let Some(colon) = colon else {
                    return Err(format!("line {} has no \"Field:\"", line.number));
                };
                let name = Bytes::copy_from_slice(&text[..colon]);
                if !self.names.insert(name.clone()) {
                    let name = String::from_utf8_lossy(&name);
                    return Err(format!("line {} repeats field {name}", line.number));
                }
                self.fields.push((name, text[colon + 1..].trim_ascii().to_vec()));
            }
        }
        Ok(self)
    }

    fn record(self) -> Record {
        let fields = self.fields.into_iter().map(|(name, value)| (name, value.into())).collect();
        Record { fields }
    }
}
