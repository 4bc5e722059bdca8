//! `export.parts`: the finished parts of an export, a line for each (`docs/format/export.md`).
//!
//! 1. A line is appended and on disk before the next part begins. So the work for a part does not grow
//!    with the number of parts.
//! 2. A last line that is torn does not count, and goes when the export resumes: its part is written
//!    again. Any other line that is wrong makes the list malformed.
//! 3. The first line has the id of the export. A list of another id is of an export that was discarded,
//!    and counts as empty.
//! 4. `export.json` has the sums and the checksum of the list of a complete export.

use super::manifest::{FORMATS, Malformed, Manifest};
use super::part::UNFINISHED;
use crate::state_file::sync_dir_of;
use anyhow::{Context, Result, bail};
use base::checksum::Xxh3;
use interchange::lines::{Line, Lines};
use interchange::rows::{Encoding, Format};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the list in the directory of an export.
pub(super) const FILE: &str = "export.parts";
/// Longest line: two keys of 64 KiB, of which each byte may take five characters, and numbers.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Most parts of an export.
const PARTS_MAX: u64 = 1_000_000;

/// The first line of the list.
#[derive(Serialize, Deserialize)]
struct Header {
    export: String,
}

/// A part that is whole and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    /// Name of its file in the same directory.
    pub(super) file: String,
    /// Number of rows in the part.
    pub(super) rows: u64,
    /// Number of cells in the part.
    pub(super) cells: u64,
    /// Length of its file in bytes.
    pub(super) bytes: u64,
    /// XXH3-64 of the file, 16 hexadecimal digits.
    pub(super) xxh3: String,
    /// Keys of its first and its last row, escaped.
    pub(super) first_key: String,
    pub(super) last_key: String,
}

/// Sums over the parts of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) parts: u64,
    pub(crate) rows: u64,
    pub(crate) cells: u64,
    pub(crate) bytes: u64,
    /// XXH3-64 of the list, 16 hexadecimal digits.
    pub(crate) list_xxh3: String,
}

impl Totals {
    fn add(&mut self, part: &Part) {
        self.parts += 1;
        self.rows = self.rows.saturating_add(part.rows);
        self.cells = self.cells.saturating_add(part.cells);
        self.bytes = self.bytes.saturating_add(part.bytes);
    }
}

/// A part as an import needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Number of rows in the part.
    pub(crate) rows: u64,
    /// Length of its file in bytes.
    pub(crate) bytes: u64,
    /// XXH3-64 of the whole file.
    pub(crate) xxh3: u64,
}

/// Reads the list of the complete export `manifest` in `dir`. Gives the file and the content of each part.
pub(crate) fn read(dir: &Path, manifest: &Manifest) -> Result<Vec<(PathBuf, Expected)>> {
    let (path, format) = (dir.join(FILE), manifest.format()?);
    let mut parts = Vec::new();
    let read = Reading::of(&path, &manifest.id, format, |part| {
        let xxh3 = u64::from_str_radix(&part.xxh3, 16)
            .map_err(|_| format!("{:.100?} is no checksum", part.xxh3))?;
        parts.push((dir.join(&part.file), Expected { rows: part.rows, bytes: part.bytes, xxh3 }));
        Ok(())
    })?;
    if read.is_none_or(|read| read.totals() != manifest.totals) {
        let text = format!("{} is damaged: it is not the list of the export", path.display());
        return Err(Malformed(text).into());
    }
    Ok(parts)
}

/// Returns the number of recorded parts of the unfinished export `manifest` in `dir`, of which each must have
/// its file with the recorded length.
pub(super) fn check_parts(dir: &Path, manifest: &Manifest) -> Result<u64> {
    let mut wrong = None;
    let read = Reading::of(&dir.join(FILE), &manifest.id, manifest.format()?, |part| {
        let path = dir.join(&part.file);
        if wrong.is_none() {
            wrong = match path.metadata() {
                Err(error) => Some(format!("{}: {error}", path.display())),
                Ok(meta) if meta.len() != part.bytes => Some(format!(
                    "{} has {} bytes instead of {}",
                    path.display(),
                    meta.len(),
                    part.bytes
                )),
                Ok(_) => None,
            };
        }
        Ok(())
    });
    let read = read.context("pass --restart to export all rows, or use another directory")?;
    if let Some(wrong) = wrong {
        bail!(
            "a finished part is damaged: {wrong}; restore it, or pass --restart to export all rows"
        );
    }
    Ok(read.map_or(0, |read| read.totals.parts))
}

/// The list of an export that is being written.
pub(super) struct PartList {
    path: PathBuf,
    file: File,
    format: Format,
    totals: Totals,
    sum: Xxh3,
    last_key: Option<String>,
}

impl PartList {
    /// Opens the list of the export `manifest` in `dir`, without a torn last line. A list that is
    /// missing, or of another export, is replaced by an empty one.
    pub(super) fn open(dir: &Path, manifest: &Manifest) -> Result<Self> {
        let (path, format) = (dir.join(FILE), manifest.format()?);
        let mut last_key = None;
        let read = Reading::of(&path, &manifest.id, format, |part| {
            last_key = Some(part.last_key);
            Ok(())
        });
        let read = read.context("pass --restart to export all rows, or use another directory")?;
        let context = || format!("could not write {}", path.display());
        let Some(Reading { totals, sum, len }) = read else {
            return Self::create(path.clone(), manifest).with_context(context);
        };
        let resumed = || {
            let mut file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(len)?;
            file.seek(SeekFrom::End(0))?;
            file.sync_all()?;
            Ok::<_, std::io::Error>(file)
        };
        let file = resumed().with_context(context)?;
        Ok(Self { path, file, format, totals, sum, last_key })
    }

    fn create(path: PathBuf, manifest: &Manifest) -> Result<Self> {
        let file = File::create(&path)?;
        let (format, totals) = (manifest.format()?, Totals::default());
        let mut list = Self { path, file, format, totals, sum: Xxh3::default(), last_key: None };
        list.append(&Header { export: manifest.id.clone() })?;
        sync_dir_of(&list.path)?;
        Ok(list)
    }

    fn append(&mut self, line: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_all()?;
        self.sum.update(&line);
        Ok(())
    }

    /// Records a part that is on disk.
    pub(super) fn add(&mut self, part: Part) -> Result<()> {
        self.append(&part).with_context(|| format!("could not write {}", self.path.display()))?;
        self.totals.add(&part);
        self.last_key = Some(part.last_key);
        Ok(())
    }

    /// Returns the sums over all parts. The checksum is of the list as it is.
    pub(super) fn totals(&self) -> Totals {
        Totals { list_xxh3: format!("{:016x}", self.sum.digest()), ..self.totals.clone() }
    }

    /// Returns the name of the part after the recorded ones.
    pub(super) fn next_file(&self) -> Result<String> {
        if self.totals.parts >= PARTS_MAX {
            bail!(
                "an export has at most {PARTS_MAX} parts; rerun the command with a larger \
                 --part-size or --part-rows to resume"
            );
        }
        Ok(file_name(self.totals.parts, self.format))
    }

    /// Returns the first key that can follow the recorded parts; `None` if there is no part.
    pub(super) fn next_key(&self) -> Result<Option<Vec<u8>>> {
        let Some(last) = &self.last_key else { return Ok(None) };
        let key = Encoding::Escaped.decode(last.as_bytes());
        let mut key = key.map_err(|why| anyhow::anyhow!("the key of the last part: {why}"))?;
        key.push(0);
        Ok(Some(key))
    }

    /// Returns whether the list has the part in the file `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        let number = part_number(name).filter(|number| *number < self.totals.parts);
        number.is_some_and(|number| file_name(number, self.format) == name)
    }
}

/// The sound lines of a list.
struct Reading {
    totals: Totals,
    sum: Xxh3,
    /// Bytes up to the end of the last sound line.
    len: u64,
}

impl Reading {
    /// Reads the list at `path` of the export `id`, and gives each part to `take`. Returns `None` if there
    /// is no list of that export.
    fn of(
        path: &Path,
        id: &str,
        format: Format,
        mut take: impl FnMut(Part) -> Result<(), String>,
    ) -> Result<Option<Self>> {
        let context = || format!("could not read {}", path.display());
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.with_context(context)?,
        };
        let mut lines = Lines::with_limit(Box::new(BufReader::new(file)), LINE_BYTES_MAX);
        let header = lines.next_line().with_context(context)?;
        let Some(header) = header.filter(|line| header_of(line).is_some_and(|of| of == id)) else {
            return Ok(None);
        };
        let mut read = Self { totals: Totals::default(), sum: Xxh3::default(), len: 0 };
        read.accept(&header);
        let malformed = |line: u64, why: String| {
            Malformed(format!("{} is malformed: line {line}: {why}", path.display()))
        };
        let mut torn = None;
        while let Some(line) = lines.next_line().with_context(context)? {
            if let Some(why) = torn {
                return Err(malformed(line.number - 1, why).into());
            }
            match part_of(&line, read.totals.parts, format) {
                Ok(part) => {
                    read.accept(&line);
                    read.totals.add(&part);
                    take(part).map_err(|why| malformed(line.number, why))?;
                }
                Err(why) => torn = Some(why),
            }
        }
        Ok(Some(read))
    }

    fn accept(&mut self, line: &Line) {
        self.sum.update(&line.text);
        self.sum.update(b"\n");
        self.len = line.end.offset;
    }

    fn totals(&self) -> Totals {
        Totals { list_xxh3: format!("{:016x}", self.sum.digest()), ..self.totals.clone() }
    }
}

/// Returns the id in the first line, if that is whole.
fn header_of(line: &Line) -> Option<String> {
    let header = serde_json::from_slice(&line.text).ok().filter(|_| line.ended);
    header.map(|Header { export }| export)
}

/// Returns the part of a line, which must be part `number`.
fn part_of(line: &Line, number: u64, format: Format) -> Result<Part, String> {
    if line.cut || !line.ended {
        return Err("it has no end, or is too long".to_owned());
    }
    if number >= PARTS_MAX {
        return Err(format!("there are more than {PARTS_MAX} parts"));
    }
    let part: Part = serde_json::from_slice(&line.text).map_err(|error| error.to_string())?;
    if part.file != file_name(number, format) {
        return Err(format!("part {number} has the name {:.100?}", part.file));
    }
    Ok(part)
}

/// Returns a key as the list has it.
pub(super) fn escaped(key: &[u8]) -> String {
    let mut text = String::new();
    Encoding::Escaped.encode(key, &mut text);
    text
}

fn file_name(number: u64, format: Format) -> String {
    let ending = FORMATS.iter().find(|(known, ..)| *known == format).map_or("", |known| known.2);
    format!("part-{number:05}.{ending}")
}

/// Returns the number of the part that has the file `name`, finished or not, of any format.
pub(super) fn part_number(name: &str) -> Option<u64> {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    let (number, ending) = name.strip_prefix("part-")?.split_once('.')?;
    let is_number = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = FORMATS.iter().any(|known| known.2 == ending);
    number.parse().ok().filter(|_| is_number && is_known)
}
