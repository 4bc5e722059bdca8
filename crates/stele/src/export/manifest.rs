//! `export.json`: what an export is of, and whether it is complete (`docs/format/export.md`). Its length
//! does not depend on the number of parts, which are in a [list](super::part_list) of their own.

use super::part_list::Totals;
use crate::state_file::{self, StateFile};
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use interchange::rows::Format;
use prost::Message;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

/// Name of the file in the directory of an export.
pub(crate) const FILE: &str = "export.json";
/// Version of `export.json` that this program writes.
const VERSION: u32 = 1;

/// Contents of `export.json`, the record of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Version of this file, of the list of parts, and of the layout of CSV and JSON lines.
    version: u32,
    /// Random name of the export, which its list of parts has too.
    pub(super) id: String,
    /// Table, source and selection in words; an export with others is another export.
    pub(super) job: String,
    /// Identity of the table, independent of its name; empty if the source does not tell it.
    pub(super) source: String,
    /// Schema of the table, in Base64: the message `google.bigtable.admin.v2.Table` of
    /// [`bigtable::schema_message`]. As it is when the export is complete, with the families that it had
    /// when the export began. Absent if the source does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    /// Format of the parts, by its name.
    format: String,
    /// True if the parts are the whole export.
    pub(crate) complete: bool,
    /// Sums over all parts; zeros while the export is incomplete.
    #[serde(default)]
    pub(super) totals: Totals,
}

/// Names of formats here, and the endings of their files.
pub(super) const FORMATS: [(Format, &str, &str); 5] = [
    (Format::Avro, "avro", "avro"),
    (Format::Parquet, "parquet", "parquet"),
    (Format::SequenceFile, "sequence-file", "seq"),
    (Format::Csv, "csv", "csv"),
    (Format::Jsonl, "jsonl", "jsonl"),
];

impl Manifest {
    /// Returns the manifest of an export that begins.
    pub(super) fn new(
        id: String,
        job: String,
        source: String,
        schema: Option<&admin::Table>,
        format: Format,
    ) -> Self {
        let schema = schema.map(encoded);
        let name = FORMATS.iter().find(|(known, ..)| *known == format).map_or("", |known| known.1);
        let (format, totals) = (name.to_owned(), Totals::default());
        Self { version: VERSION, id, job, source, schema, format, complete: false, totals }
    }

    /// Reads the file of the export in `dir`; `None` if it is absent, an error with
    /// [`Malformed`] in its chain if it is not what an export writes.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let malformed = |why: String| Malformed(format!("{} is malformed: {why}", path.display()));
        let manifest: Option<Self> = match state_file::read(&path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
            {
                return Err(malformed(error.to_string()).into());
            }
            read => read.with_context(|| format!("could not read {}", path.display()))?,
        };
        if let Some(manifest) = &manifest {
            manifest.check().map_err(malformed)?;
        }
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} is not known; {VERSION} is", self.version));
        }
        self.known_format().map(|_| ()).ok_or_else(|| format!("no format {:?}", self.format))
    }

    fn known_format(&self) -> Option<Format> {
        FORMATS.iter().find(|(_, name, _)| *name == self.format).map(|known| known.0)
    }

    pub(crate) fn format(&self) -> Result<Format> {
        self.known_format().with_context(|| format!("format {:?} is not known", self.format))
    }

    /// Returns the schema of the table, if the export has it.
    pub(crate) fn schema(&self) -> Result<Option<admin::Table>> {
        let Some(text) = &self.schema else { return Ok(None) };
        let read = || anyhow::Ok(admin::Table::decode(&STANDARD.decode(text)?[..])?);
        read().map(Some).map_err(|why| Malformed(format!("the schema in {FILE}: {why}")).into())
    }

    /// Takes a later schema of the table, if the source tells one. Families that it has no more stay: rows
    /// may have cells of them.
    pub(super) fn add_schema(&mut self, later: Option<admin::Table>) -> Result<()> {
        let Some(mut later) = later else { return Ok(()) };
        for (name, family) in self.schema()?.unwrap_or_default().column_families {
            later.column_families.entry(name).or_insert(family);
        }
        self.schema = Some(encoded(&later));
        Ok(())
    }

    pub(super) fn save(&self, file: &StateFile) -> Result<()> {
        file.save(self).with_context(|| format!("could not write {}", file.path().display()))
    }

    /// Refuses an export that is not complete.
    pub(crate) fn check_complete(&self, dir: &Path) -> Result<()> {
        if self.complete {
            return Ok(());
        }
        bail!(
            "the export in {} is incomplete; rerun the export to resume it, or import its parts one \
             by one",
            dir.display()
        )
    }
}

fn encoded(schema: &admin::Table) -> String {
    STANDARD.encode(schema.encode_to_vec())
}

/// Why a file of an export cannot be used. Another try reads the same.
#[derive(Debug)]
pub(super) struct Malformed(pub(super) String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}
