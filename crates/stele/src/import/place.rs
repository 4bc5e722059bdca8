//! Where an import begins: at the checkpoint of an earlier run, if that is of the same input, mapping
//! and table, else at the beginning.

use super::args::ImportArgs;
use super::checkpoint::{Checkpoint, CheckpointFile};
use super::target::{Target, persist};
use anyhow::{Result, bail};
use engine::Timestamp;
use table::TableIdentity;

/// Checkpoint of an earlier run of the same job.
pub(super) struct Earlier {
    found: Option<Checkpoint>,
    job: String,
}

impl Earlier {
    /// Reads `file`. Refused if it is of another job, unless `--restart` says to forget it.
    pub(super) fn load(
        args: &ImportArgs,
        file: Option<&CheckpointFile>,
        job: String,
    ) -> Result<Self> {
        let Some(file) = file else { return Ok(Self { found: None, job }) };
        if args.restart {
            // Of one that cannot be read, or is another's, there is nothing to keep.
            let found = file.load().ok().flatten().filter(|found| found.job == job);
            return Ok(Self { found, job });
        }
        let found = file.load()?;
        if let Some(found) = found.as_ref().filter(|found| found.job != job) {
            bail!(
                "checkpoint {} belongs to another import ({}; this is {job}); finish that \
                 import, pass --restart to discard it, or pass --checkpoint to use another file",
                file.path().display(),
                found.job
            );
        }
        Ok(Self { found, job })
    }

    /// The checkpoint to begin with, for the table of that identity.
    pub(super) fn place(self, args: &ImportArgs, identity: &str) -> Result<Checkpoint> {
        let (wanted, target) = (args.source.wanted_micros(), TableIdentity::lasting(identity));
        let fresh = Checkpoint {
            job: self.job,
            target: target.to_owned(),
            timestamp_micros: args.source.timestamp_micros()?,
            ..Checkpoint::default()
        };
        let Some(found) = self.found else { return Ok(fresh) };
        if args.restart {
            // The rows that it wrote are there still, and are to be the same cells.
            let same_table = found.target.is_empty() || found.target == target;
            let timestamp_micros = wanted.unwrap_or(if same_table {
                found.timestamp_micros
            } else {
                fresh.timestamp_micros
            });
            return Ok(Checkpoint { timestamp_micros, ..fresh });
        }
        if found.target != target {
            bail!(
                "the interrupted import wrote to table {}; this table is {target}: it was \
                 recreated or is in another store, and lacks those rows; pass --restart to \
                 import all rows, or --checkpoint to use another file",
                match found.target.as_str() {
                    "" => "of an unknown store (the checkpoint is from an older version)",
                    target => target,
                }
            );
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found.timestamp_micros) {
            bail!(
                "the interrupted import uses timestamp {}, not {wanted}; omit --timestamp to \
                 resume it, or pass --restart to write all rows at the new timestamp",
                found.timestamp_micros
            );
        }
        Ok(found)
    }
}

/// Refuses to go on where rows that `checkpoint` counts are gone, unless `--assume-written` says to.
pub(super) async fn look(
    args: &ImportArgs,
    checkpoint: &Checkpoint,
    target: &dyn Target,
) -> Result<()> {
    if args.assume_written {
        return Ok(());
    }
    let from = Timestamp(checkpoint.timestamp_micros);
    for witness in &checkpoint.witnesses {
        let column = (witness.family.as_str(), witness.qualifier.as_slice());
        if !persist(|| target.has(&witness.row, column, from)).await? {
            bail!(
                "row \"{:.80}\" was written before the import was interrupted, but its cell \
                 {}:{:.80} is missing: rows or families were deleted, the store was restored, or \
                 garbage collection removed cells of timestamp {}. Pass --restart to import all \
                 rows again; existing rows do not change. Or pass --assume-written to resume \
                 without writing earlier rows again",
                witness.row.escape_ascii(),
                witness.family,
                witness.qualifier.escape_ascii(),
                checkpoint.timestamp_micros,
            );
        }
    }
    Ok(())
}
