//! `stele checkpoint`, `clone`, `backup` and `restore`: wiring of the engine's checkpoints and the
//! crate `backup` to the command line. What they promise is in docs/backup.md.

mod args;
mod checkpoint;
mod create;
mod data_dir;
mod manage;
pub(crate) mod place;
mod progress;
mod restore;
mod server;

pub(crate) use args::{BackupArgs, CheckpointArgs, CloneArgs, RestoreArgs};
pub(crate) use checkpoint::{checkpoint, clone};
pub(crate) use restore::restore;

use crate::config::ConfigError;
use anyhow::{Context, Result};
use args::BackupCommand;
use backup::BackupId;
use base::env::{Clock, Env, SystemClock};
use indicatif::HumanBytes;
use std::process::ExitCode;

/// Runs `backup` and what is below it.
pub(crate) fn backup(args: &BackupArgs) -> Result<ExitCode> {
    match (&args.what, &args.create) {
        (Some(BackupCommand::List(args)), _) => manage::list(args),
        (Some(BackupCommand::Verify(args)), _) => manage::verify(args),
        (Some(BackupCommand::Delete(args)), _) => manage::delete(args),
        (None, Some(create)) => create::create(create, &args.connect, &args.store),
        (None, None) => {
            Err(ConfigError("pass a source, and a destination with --to".into()).into())
        }
    }
}

/// Runs `work` to its end on threads of its own.
fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start threads")?;
    runtime.block_on(work)
}

/// Converts an error of the backup crate; a refusal becomes exit status 2.
fn failure(error: backup::Error) -> anyhow::Error {
    match error {
        backup::Error::Refused(what) => ConfigError(what).into(),
        other => other.into(),
    }
}

/// An id for something that is begun now.
fn new_id(env: &Env) -> Result<(BackupId, i64)> {
    let micros = SystemClock.now_micros();
    let random = env.fs.unique().context("could not draw a random number")?;
    Ok((BackupId::new(micros, random as u32), micros))
}

/// Describes this process and machine, for other commands.
fn here(what: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}, process {}, {what}", host.trim(), std::process::id())
}

/// A time as it is shown.
fn time(micros: i64) -> String {
    let id = BackupId::new(micros, 0);
    let text = id.as_str();
    let (date, clock) = (&text[..8], &text[9..15]);
    let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
    format!("{year}-{month}-{day} {}:{}:{} UTC", &clock[..2], &clock[2..4], &clock[4..])
}

fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_people_write_them() {
        assert_eq!(time(1_700_000_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
