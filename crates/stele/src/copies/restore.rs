//! `stele restore`.

use super::args::RestoreArgs;
use super::progress;
use anyhow::{Context, Result};
use backup::{Backup, Error, Meter, Missing};
use base::env::Env;
use engine::check::check_dir;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Restores a backup into a new directory.
pub(crate) fn restore(args: &RestoreArgs) -> Result<ExitCode> {
    let into = std::path::absolute(&args.to)?;
    let Backup { id, record } = super::run(async {
        let from = args.store.open(&args.from, Missing::Refuse)?;
        let backup = backup::find(&from, args.backup.as_ref()).await.map_err(super::failure)?;
        let (env, verify) = (Env::real(1), args.verify);
        let meter = Meter::new(args.bytes_per_second.map(|size| size.0), progress::watch());
        let last = move |dir: &Path| if verify { check(dir) } else { Ok(()) };
        let restored = backup::restore(&from, &backup, &env.fs, &into, &meter, last).await;
        match restored {
            Ok(_) => Ok(backup),
            Err(error @ Error::Refused(_)) => Err(super::failure(error)),
            Err(error) => Err(error).with_context(|| {
                let id = &backup.id;
                format!("the restore of backup {id} is incomplete; rerun the command to resume it")
            }),
        }
    })?;
    writeln!(
        std::io::stdout(),
        "restored backup {id} to {}: store {} at {}, up to sequence number {}; {} in {} files",
        args.to.display(),
        record.store,
        super::time(record.taken_micros),
        record.point.sequence,
        super::bytes(record.bytes()),
        record.files.len(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the whole directory, as `stele check` does.
fn check(dir: &Path) -> backup::Result<()> {
    let report = check_dir(&Env::real(1), dir, &mut |_| ())?;
    match report.findings.into_iter().next() {
        None => Ok(()),
        Some(finding) => {
            let (file, offset) = (finding.file, finding.offset);
            Err(engine::Error::Corruption(engine::Corruption { file, offset, what: finding.what })
                .into())
        }
    }
}
