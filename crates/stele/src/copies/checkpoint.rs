//! `stele checkpoint` and `stele clone`.

use super::args::{CheckpointArgs, CloneArgs};
use super::server::Server;
use crate::config::ConfigError;
use crate::serve::checkpoint::Wanted;
use anyhow::{Context, Result};
use base::env::Env;
use engine::Error;
use engine::checkpoint::{Contents, Copied, checkpoint_dir, contents};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Makes a checkpoint of a store, running or not.
pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<ExitCode> {
    let into = std::path::absolute(&args.into)?;
    match Server::of(&args.source, &args.connect)? {
        Some(server) => {
            let wanted = Wanted::Into(into.clone());
            super::run(async move { server.checkpoint(&wanted).await })?;
        }
        None => copy(Path::new(&args.source), &into, Copied::SameStore)?,
    }
    say("checkpoint", &into)
}

/// Makes a store of its own of one that nobody has open.
pub(crate) fn clone(args: &CloneArgs) -> Result<ExitCode> {
    copy(&args.dir, &args.into, Copied::OtherStore)?;
    say("clone", &args.into)
}

/// Copies a data directory that nobody has open. What is refused is so before anything is touched.
pub(super) fn copy(dir: &Path, into: &Path, copied: Copied) -> Result<()> {
    match checkpoint_dir(&Env::real(1), dir, into, copied) {
        Err(error @ Error::Unusable { .. }) => Err(ConfigError(format!(
            "{error}; for a running server, pass its HTTP address, e.g. http://127.0.0.1:8087"
        ))
        .into()),
        copied => copied.with_context(|| format!("could not copy {}", dir.display())),
    }
}

fn say(what: &str, dir: &Path) -> Result<ExitCode> {
    let Contents { point, files, .. } = contents(&Env::real(1).fs, dir)?;
    let total = files.iter().map(|file| file.bytes).sum();
    writeln!(
        std::io::stdout(),
        "{what} {}: up to sequence number {}, {} files, {}",
        dir.display(),
        point.sequence,
        files.len(),
        super::bytes(total)
    )?;
    Ok(ExitCode::SUCCESS)
}
