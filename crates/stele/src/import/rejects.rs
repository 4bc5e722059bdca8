//! The file of what could not be imported, as one JSON object a line, so that it can be mended and
//! imported from there.
//!
//! 1. A line of a text has its number, the reason and its text.
//! 2. A row of an export is there with all its cells, as JSON lines of an export have it, and with the
//!    reason. `import --format export-jsonl` reads the file.

use anyhow::{Context, Result, bail};
use interchange::rows::{Cell, Row, rejected_lines};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes of a bad line that are kept.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A line, or a row of an export, that was not imported.
#[derive(Debug)]
pub(crate) struct Reject {
    /// Number of the line or of the record in the input.
    pub(crate) line: u64,
    /// Reason why it was not imported.
    pub(crate) reason: String,
    content: Content,
}

/// The input that was rejected.
#[derive(Debug)]
enum Content {
    /// A line, of which bytes that are not UTF-8 are replaced.
    Text(String),
    Row(Row),
}

/// A rejected line as the file has it.
#[derive(Serialize)]
struct RejectedLine<'a> {
    line: u64,
    reason: &'a str,
    text: &'a str,
}

impl Reject {
    pub(crate) fn new(line: u64, reason: String, text: &[u8]) -> Self {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        let content = Content::Text(String::from_utf8_lossy(text).into_owned());
        Self { line, reason, content }
    }

    /// Returns the reject of a row of an export, record `line` of its file.
    pub(crate) fn row(line: u64, reason: String, row: Row) -> Self {
        Self { line, reason, content: Content::Row(row) }
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Text(text) => text.len(),
            Content::Row(row) => row.key.len() + row.cells.iter().map(Cell::bytes).sum::<usize>(),
        }
    }

    /// Returns what the file has of it, newlines included.
    fn encoded(&self) -> Result<Vec<u8>> {
        let (line, reason) = (self.line, self.reason.as_str());
        Ok(match &self.content {
            Content::Row(row) => rejected_lines(row, &format!("record {line}: {reason}"))?,
            Content::Text(text) => {
                let mut bytes = serde_json::to_vec(&RejectedLine { line, reason, text })?;
                bytes.push(b'\n');
                bytes
            }
        })
    }
}

/// The rejects of one import. The file is made when the first line is rejected.
#[derive(Debug)]
pub(crate) struct Rejects {
    path: PathBuf,
    file: Option<File>,
    len: u64,
}

impl Rejects {
    /// Goes on after the first `len` bytes of what an earlier part of the import wrote to `path`;
    /// with 0, anew.
    pub(crate) fn resume(path: &Path, len: u64) -> Result<Self> {
        let mut rejects = Self { path: path.to_owned(), file: None, len };
        if len > 0 {
            let mut file = OpenOptions::new()
                .write(true)
                .open(path)
                .with_context(|| format!("could not reopen the rejects file {}", path.display()))?;
            let there = file.metadata()?.len();
            if there < len {
                bail!(
                    "the rejects file {} has {there} bytes, but the import wrote {len}; pass \
                     --restart to import from the beginning",
                    path.display()
                );
            }
            file.set_len(len)?;
            file.seek(SeekFrom::End(0))?;
            rejects.file = Some(file);
        }
        Ok(rejects)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Puts what was written on disk, before anything says that it is there.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.as_ref().map_or(Ok(()), File::sync_all);
        synced.with_context(|| format!("cannot write the rejects file {}", self.path.display()))
    }

    pub(crate) fn write(&mut self, reject: &Reject) -> Result<()> {
        let lines = reject.encoded()?;
        let context = || format!("cannot write the rejects file {}", self.path.display());
        if self.file.is_none() {
            self.file = Some(File::create(&self.path).with_context(context)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&lines).with_context(context)?;
        }
        self.len += lines.len() as u64;
        Ok(())
    }
}
