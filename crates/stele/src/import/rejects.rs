//! The file of lines that could not be imported: one JSON object a line, with the line's number,
//! the reason and its text, so that the lines can be mended and imported from there.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes of a bad line that are kept.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A line that was not imported.
#[derive(Debug, Serialize)]
pub(crate) struct Reject {
    /// Its number in the input.
    pub(crate) line: u64,
    /// Why.
    pub(crate) reason: String,
    /// Its text, bytes that are not UTF-8 replaced.
    text: String,
}

impl Reject {
    pub(crate) fn new(line: u64, reason: String, text: &[u8]) -> Self {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        Self { line, reason, text: String::from_utf8_lossy(text).into_owned() }
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
        let mut line = serde_json::to_vec(reject)?;
        line.push(b'\n');
        let context = || format!("cannot write the rejects file {}", self.path.display());
        if self.file.is_none() {
            self.file = Some(File::create(&self.path).with_context(context)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&line).with_context(context)?;
        }
        self.len += line.len() as u64;
        Ok(())
    }
}
