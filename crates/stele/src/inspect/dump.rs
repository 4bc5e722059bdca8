//! `stele dump`.

use crate::config::ConfigError;
use anyhow::{Context, Result};
use base::env::RealFileSystem;
use clap::Args;
use engine::dump::{DumpOptions, dump_dir, dump_file};
use engine::{Error, RowRange, TreeId};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// File of a data directory (CURRENT, MANIFEST-N, N.log, N.changes, N.glog,
    /// N.sst), or a data directory. For a
    /// directory, its trees, runs and files are printed.
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// Print only this tree; for a directory, a manifest or a log.
    #[arg(long, value_name = "NUMBER")]
    tree: Option<u32>,
    /// Print only rows from this key on; for an SSTable or a log. Escaped as in the output (\x00).
    #[arg(long, value_name = "KEY", value_parser = unescape)]
    from: Option<Key>,
    /// Print only rows before this key.
    #[arg(long, value_name = "KEY", value_parser = unescape)]
    to: Option<Key>,
    /// Omit entries: print only properties, index and blocks of an SSTable.
    #[arg(long)]
    no_entries: bool,
    /// Maximum bytes printed of each value.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    value_bytes: usize,
}

/// A row key, unescaped.
#[derive(Debug, Clone)]
struct Key(Vec<u8>);

impl DumpArgs {
    fn options(&self) -> DumpOptions {
        let start = self.from.clone().map(|key| key.0).unwrap_or_default();
        let rows = RowRange { start, end: self.to.clone().map(|key| key.0) };
        let tree = self.tree.map(TreeId);
        DumpOptions { tree, rows, entries: !self.no_entries, value_bytes_max: self.value_bytes }
    }
}

/// Shows a file as text, up to the first damage.
pub(crate) fn dump(args: &DumpArgs) -> Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let options = args.options();
    let shown = if args.file.is_dir() {
        dump_dir(&RealFileSystem, &args.file, &options, &mut out)
    } else {
        dump_file(&RealFileSystem, &args.file, &options, &mut out)
    };
    let flushed = out.flush();
    match shown {
        // The reader of a pipe (`head`) has seen enough.
        Err(Error::Io { op: "write", source, .. }) if source.kind() == ErrorKind::BrokenPipe => {}
        Err(Error::InvalidArgument(what)) => return Err(ConfigError(what).into()),
        Err(error) => return Err(error).context("the dump is incomplete"),
        Ok(()) => match flushed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// The bytes that `text` stands for: what `escape_ascii` made it of, and any other text as it is.
fn unescape(text: &str) -> Result<Key, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => hex(*high, *low).map(|byte| (byte, after)),
            (b'\\', [b't', after @ ..]) => Some((b'\t', after)),
            (b'\\', [b'r', after @ ..]) => Some((b'\r', after)),
            (b'\\', [b'n', after @ ..]) => Some((b'\n', after)),
            (b'\\', [plain @ (b'\\' | b'\'' | b'"'), after @ ..]) => Some((*plain, after)),
            (b'\\', _) => None,
            (plain, after) => Some((*plain, after)),
        };
        let (byte, after) = escaped.ok_or(r"an escape that is none of \xNN \t \r \n \\ \' \x22")?;
        bytes.push(byte);
        rest = after;
    }
    Ok(Key(bytes))
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_given_as_it_is_printed() {
        let all: Vec<u8> = (0..=255).collect();
        let printed = all.escape_ascii().to_string();
        assert_eq!(unescape(&printed).map(|key| key.0), Ok(all));
        assert_eq!(unescape("schlüssel").map(|key| key.0), Ok("schlüssel".into()));
        for text in [r"\", r"\q", r"\x", r"\x1", r"\xg0"] {
            assert!(unescape(text).is_err(), "{text}");
        }
    }
}
