//! Rows of an export: the parts that its list has, or a single file.
//!
//! 1. A directory is read only if its export is complete, and a part only if its length and checksum
//!    are as the export recorded them.
//! 2. A file that cannot be read to its end stops the import with the file and the place.
//! 3. The work for a row depends neither on the number of files nor on the rows before it.

use super::checkpoint::Place;
use super::input::InputRow;
use super::rejects::Reject;
use crate::config::ConfigError;
use crate::export::manifest::{self, Manifest};
use crate::export::part_list::{self, Expected};
use admin::table::TimestampGranularity;
use anyhow::{Context, Result, bail};
use base::checksum::Xxh3;
use engine::{Timestamp, TimestampRange};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use interchange::rows::{Cell, Format, Row, RowReader, Source, reader};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use table::mutate::WriteTime;
use table::{RowMutation, RowMutations};

const BUFFER_BYTES: usize = 1 << 20;

/// The files of an export, read one after the other.
pub(super) struct Exported {
    format: Format,
    /// Schema of the table that was exported; `None` if the export does not have it.
    schema: Option<admin::Table>,
    is_directory: bool,
    aggregates: Aggregates,
    files: Vec<ExportFile>,
    /// The file that is being read, and the bytes of all files before it.
    at: usize,
    before: u64,
    reader: Option<Box<dyn RowReader>>,
    /// Records of it that are read, and their checksum.
    record: u64,
    sum: Xxh3,
}

/// A file of an export.
struct ExportFile {
    /// Path of the file; `None` for standard input.
    path: Option<PathBuf>,
    /// Its length, 0 if it has none.
    bytes: u64,
    /// Its content as the export recorded it.
    part: Option<Expected>,
}

impl Exported {
    /// Returns the rows of the file at `path`; `None` for standard input.
    pub(super) fn file(format: Format, path: Option<PathBuf>) -> Result<Self> {
        let bytes = match &path {
            Some(path) => std::fs::metadata(path).with_context(|| could_not_read(path))?.len(),
            None => 0,
        };
        Ok(Self::of(format, None, vec![ExportFile { path, bytes, part: None }]))
    }

    /// Returns the rows of the export in `dir`.
    pub(super) fn directory(dir: &Path) -> Result<Self> {
        let name = dir.display();
        let Some(manifest) = Manifest::read(dir)? else {
            let text = format!("{name} is no export: it has no file {}", manifest::FILE);
            return Err(ConfigError(text).into());
        };
        manifest.check_complete(dir)?;
        let file = |(path, part): (PathBuf, Expected)| ExportFile {
            path: Some(path),
            bytes: part.bytes,
            part: Some(part),
        };
        let files = part_list::read(dir, &manifest)?.into_iter().map(file).collect();
        let exported = Self::of(manifest.format()?, manifest.schema()?, files);
        Ok(Self { is_directory: true, ..exported })
    }

    fn of(format: Format, schema: Option<admin::Table>, files: Vec<ExportFile>) -> Self {
        let aggregates = Aggregates::of(&schema.clone().unwrap_or_default());
        let (at, before, record, sum, is_directory) = (0, 0, 0, Xxh3::default(), false);
        let reader = None;
        Self { format, schema, is_directory, aggregates, files, at, before, reader, record, sum }
    }

    /// Returns the schema of the table that was exported, as far as the export has it.
    pub(super) fn schema(&self) -> admin::Table {
        self.schema.clone().unwrap_or_default()
    }

    /// Returns whether it is a directory, which tells the schema if the source did.
    pub(super) fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Refuses to create the table of a directory that does not tell its schema: sums would become plain
    /// cells. A single file never tells it.
    pub(super) fn check_schema(&self) -> Result<(), ConfigError> {
        if !self.is_directory || self.schema.is_some() {
            return Ok(());
        }
        let text = "--create-table: the export does not tell the schema of its table, so sums would become \
                    plain cells; create the table as it was, and import without the option";
        Err(ConfigError(text.to_owned()))
    }

    /// Makes the rows fit for a table with this schema, whatever the export tells.
    pub(super) fn fit(&mut self, table: &admin::Table) {
        let Aggregates { families, step } = Aggregates::of(table);
        self.aggregates.families.extend(families);
        self.aggregates.step = step;
    }

    /// Returns the bytes of all files, if they are known.
    pub(super) fn bytes(&self) -> Option<u64> {
        let known = self.files.iter().all(|file| file.path.is_some());
        known.then(|| self.files.iter().map(|file| file.bytes).sum())
    }

    /// Describes the content of the files, as far as the export tells it.
    pub(super) fn describe(&self) -> String {
        let mut sum = Xxh3::default();
        let parts = self.files.iter().filter_map(|file| file.part.as_ref());
        parts.for_each(|part| sum.update(&part.xxh3.to_le_bytes()));
        format!("{:?} export, {} files, {:016x}", self.format, self.files.len(), sum.digest())
    }

    /// Skips the first `count` files.
    pub(super) fn skip_files(&mut self, count: usize) -> Result<()> {
        if count >= self.files.len() {
            bail!("the input has fewer files than when the import began; pass --restart");
        }
        self.at = count;
        self.before = self.files[..count].iter().map(|file| file.bytes).sum();
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<InputRow>> {
        while let Some(file) = self.files.get(self.at) {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    (self.record, self.sum) = (0, Xxh3::default());
                    self.reader.insert(file.open(self.format)?)
                }
            };
            let row = reader.next().with_context(|| file.could_not_read())?;
            let offset = reader.offset();
            if let Some(row) = row {
                return Ok(Some(self.input_row(row, offset)));
            }
            if file.part.as_ref().is_some_and(|part| part.rows > self.record) {
                bail!("{}: rows are missing", file.could_not_read());
            }
            self.before += file.bytes;
            self.reader = None;
            self.at += 1;
        }
        Ok(None)
    }

    fn input_row(&mut self, row: Row, offset: u64) -> InputRow {
        self.record += 1;
        hash(&row, &mut self.sum);
        let (record, sum) = (self.record, self.sum.digest());
        let end = Place { offset: self.before + offset, sum, file: self.at, record };
        let content = match unwritable(&row) {
            None => Ok(self.aggregates.mutations(row)),
            Some(why) => Err(Reject::row(record, why, row)),
        };
        InputRow { line: record, end, text: Vec::new(), content }
    }
}

impl ExportFile {
    fn could_not_read(&self) -> String {
        self.path.as_deref().map_or("could not read the input".to_owned(), could_not_read)
    }

    fn open(&self, format: Format) -> Result<Box<dyn RowReader>> {
        let Some(path) = &self.path else {
            return Ok(reader(format, Source::Stream(Box::new(std::io::stdin())))?);
        };
        if let Some(part) = &self.part {
            check(path, part)?;
        }
        let file = File::open(path).with_context(|| could_not_read(path))?;
        reader(format, Source::File(file)).with_context(|| could_not_read(path))
    }
}

fn could_not_read(path: &Path) -> String {
    format!("could not read {}", path.display())
}

/// Refuses a part that is not what the export wrote.
fn check(path: &Path, part: &Expected) -> Result<()> {
    let mut file = File::open(path).with_context(|| could_not_read(path))?;
    let (mut sum, mut bytes, mut buffer) = (Xxh3::default(), 0, vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                sum.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| could_not_read(path)),
        }
    }
    if bytes != part.bytes {
        bail!("{} is damaged: it has {bytes} bytes instead of {}", path.display(), part.bytes);
    }
    if sum.digest() != part.xxh3 {
        bail!("{} is damaged: its checksum is not that of the export", path.display());
    }
    Ok(())
}

fn hash(row: &Row, sum: &mut Xxh3) {
    let mut add = |bytes: &[u8]| {
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    };
    add(&row.key);
    for cell in &row.cells {
        add(cell.family.as_bytes());
        add(&cell.qualifier);
        add(&cell.timestamp_micros.to_le_bytes());
        add(&cell.value);
    }
}

/// Returns the reason why no table can have the row, if there is one.
fn unwritable(row: &Row) -> Option<String> {
    // A negative time would be taken for a request to use the time of the server.
    let cell = row.cells.iter().find(|cell| cell.timestamp_micros < 0)?;
    Some(format!("a cell has the negative timestamp {}", cell.timestamp_micros))
}

/// Families of the exported table, and of the one that the rows go to, whose cells add up.
struct Aggregates {
    families: BTreeSet<String>,
    /// Microseconds between two timestamps of the table.
    step: i64,
}

impl Aggregates {
    fn of(schema: &admin::Table) -> Self {
        let adds_up = |family: &admin::ColumnFamily| {
            let kind = family.value_type.as_ref().and_then(|it| it.kind.as_ref());
            matches!(kind, Some(admin::r#type::Kind::AggregateType(_)))
        };
        let families = schema.column_families.iter().filter(|(_, family)| adds_up(family));
        let is_millis = schema.granularity <= TimestampGranularity::Millis as i32;
        let step = if is_millis { 1000 } else { 1 };
        Self { families: families.map(|(name, _)| name.clone()).collect(), step }
    }

    /// Returns the mutations that make the row. A cell of an aggregate family replaces the one that is
    /// there, so that an import that is repeated adds nothing twice.
    fn mutations(&self, row: Row) -> RowMutations {
        let mut mutations = Vec::with_capacity(row.cells.len());
        for cell in row.cells {
            let (family, qualifier) = (cell.family.as_ref().to_owned(), cell.qualifier);
            let at = Timestamp(cell.timestamp_micros);
            let timestamp = WriteTime::At(at);
            if !self.families.contains(&family) {
                let value = cell.value;
                mutations.push(RowMutation::SetCell { family, qualifier, timestamp, value });
                continue;
            }
            let end = at.0.checked_add(self.step).map(Timestamp);
            mutations.push(RowMutation::DeleteFromColumn {
                family: family.clone(),
                qualifier: qualifier.clone(),
                range: TimestampRange { start: at, end },
            });
            let state = cell.value;
            mutations.push(RowMutation::MergeToCell { family, qualifier, timestamp, state });
        }
        RowMutations { row: row.key, mutations }
    }
}

/// Returns the row that [`Aggregates::mutations`] made `row` of.
pub(super) fn row_of(row: &RowMutations) -> Row {
    let cells = row.mutations.iter().filter_map(|mutation| match mutation {
        RowMutation::SetCell { family, qualifier, timestamp: WriteTime::At(at), value } => {
            Some(Cell {
                family: family.as_str().into(),
                qualifier: qualifier.clone(),
                timestamp_micros: at.0,
                value: value.clone(),
            })
        }
        RowMutation::MergeToCell { family, qualifier, timestamp: WriteTime::At(at), state } => {
            Some(Cell {
                family: family.as_str().into(),
                qualifier: qualifier.clone(),
                timestamp_micros: at.0,
                value: state.clone(),
            })
        }
        _ => None,
    });
    Row { key: row.row.clone(), cells: cells.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_row_is_the_row_of_the_file() {
        let cell = |at: i64| Cell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp_micros: at,
            value: "v".into(),
        };
        let row = Row { key: "k".into(), cells: vec![cell(2000), cell(0)] };
        let mut schema = admin::Table::default();
        assert_eq!(row_of(&Aggregates::of(&schema).mutations(row.clone())), row);
        let aggregate = admin::r#type::Kind::AggregateType(Default::default());
        let value_type = Some(admin::Type { kind: Some(aggregate) });
        let family = admin::ColumnFamily { value_type, ..Default::default() };
        schema.column_families.insert("f".to_owned(), family);
        let merged = Aggregates::of(&schema).mutations(row.clone());
        assert_eq!(merged.mutations.len(), 4);
        assert_eq!(row_of(&merged), row);
        assert_eq!(unwritable(&row), None);
        let row = Row { key: "k".into(), cells: vec![cell(0), cell(-1)] };
        assert_eq!(unwritable(&row).unwrap(), "a cell has the negative timestamp -1");
    }
}
