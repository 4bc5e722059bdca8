//! Reports in files. Files come from other machines, so that nothing in them is believed: text is
//! escaped where it is shown, and numbers may be anything that JSON allows.

use super::{Report, SCHEMA};
use crate::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest report that is read.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// The part of a report that tells its schema.
#[derive(serde::Deserialize)]
struct Versioned {
    schema: u32,
}

impl Report {
    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> Result<String, Error> {
        let mut json =
            serde_json::to_string(self).map_err(|error| Error::Program(error.to_string()))?;
        json.push('\n');
        Ok(json)
    }

    /// Reads a report from JSON; `name` is its name in errors.
    pub(crate) fn parse(json: &[u8], name: &str) -> Result<Self, Error> {
        let invalid = |error| Error::Report(format!("{name} is no report of a load test: {error}"));
        let Versioned { schema } = serde_json::from_slice(json).map_err(invalid)?;
        if schema != SCHEMA {
            return Err(Error::Report(format!(
                "{name} has schema {schema}, and this program reads schema {SCHEMA}"
            )));
        }
        serde_json::from_slice(json).map_err(invalid)
    }

    /// Reads a report from a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let mut json = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(REPORT_BYTES_MAX + 1).read_to_end(&mut json).map_err(failed)?;
        if json.len() as u64 > REPORT_BYTES_MAX {
            return Err(Error::Report(format!(
                "{} is larger than {REPORT_BYTES_MAX} bytes",
                path.display()
            )));
        }
        Self::parse(&json, &path.display().to_string())
    }

    /// Writes the report to the wanted files.
    pub(crate) fn save(&self, json: Option<&Path>, html: Option<&Path>) -> Result<(), Error> {
        let write = |path: &Path, text: String| {
            std::fs::write(path, text)
                .map_err(|source| Error::File { path: path.to_owned(), source })
        };
        json.map_or(Ok(()), |path| write(path, self.json()?))?;
        html.map_or(Ok(()), |path| write(path, self.html()))
    }
}
