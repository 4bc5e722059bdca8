//! `stele backup list`, `verify` and `delete`.

use super::args::{DeleteArgs, ListArgs, VerifyArgs};
use super::progress;
use anyhow::Result;
use backup::{BackupId, Begun, Catalog, Finding, Meter, Missing, Record, Removed, Verified};
use base::env::Env;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;

const DAMAGED: u8 = 1;

pub(super) fn list(args: &ListArgs) -> Result<ExitCode> {
    let catalog = super::run(async {
        let from = args.store.open(&args.from, Missing::Refuse)?;
        backup::list(&from).await.map_err(super::failure)
    })?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", catalog_object(&catalog))?,
        false => show_catalog(&catalog, &mut out)?,
    }
    let damaged = catalog.backups.iter().any(|(_, record)| record.is_err());
    Ok(if damaged { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS })
}

fn show_catalog(catalog: &Catalog, out: &mut dyn Write) -> std::io::Result<()> {
    if let Some(store) = catalog.store {
        writeln!(out, "store {store}")?;
    }
    for (id, record) in &catalog.backups {
        match record {
            Ok(record) => writeln!(out, "{id}  {}", line(record))?,
            Err(error) => writeln!(out, "{id}  damaged: {error}")?,
        }
    }
    for unfinished in &catalog.under_way {
        let begun = unfinished.begun.as_ref();
        let begun = begun.map(|begun| format!("{} by {}", super::time(begun.micros), begun.place));
        let begun = begun.unwrap_or_else(|| "an unknown time".to_owned());
        writeln!(out, "{}  unfinished, started at {begun}", unfinished.id)?;
    }
    if catalog.backups.is_empty() && catalog.under_way.is_empty() {
        writeln!(out, "no backups")?;
    }
    Ok(())
}

fn line(record: &Record) -> String {
    format!(
        "{}  sequence number {}  {} in {} files, {} uploaded",
        super::time(record.taken_micros),
        record.point.sequence,
        super::bytes(record.bytes()),
        record.files.len(),
        super::bytes(record.sent_bytes),
    )
}

fn catalog_object(catalog: &Catalog) -> Value {
    let backup = |(id, record): &(BackupId, backup::Result<Record>)| match record {
        Ok(record) => json!({
            "backup": id.as_str(),
            "taken_micros": record.taken_micros,
            "finished_micros": record.finished_micros,
            "sequence": record.point.sequence,
            "commit_micros": record.point.commit_micros,
            "bytes": record.bytes(),
            "files": record.files.len(),
            "sent_bytes": record.sent_bytes,
            "version": record.version,
        }),
        Err(error) => json!({"backup": id.as_str(), "damaged": error.to_string()}),
    };
    json!({
        "store": catalog.store.map(|store| store.to_string()),
        "backups": catalog.backups.iter().map(backup).collect::<Vec<_>>(),
        "unfinished": catalog.under_way.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
    })
}

pub(super) fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let verified = super::run(async {
        let from = args.store.open(&args.from, Missing::Refuse)?;
        let meter = Meter::new(args.bytes_per_second.map(|size| size.0), progress::watch());
        backup::verify(&from, args.id.as_ref(), &meter).await.map_err(super::failure)
    })?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", verified_object(&verified))?,
        false => show_verified(&verified, &mut out)?,
    }
    let whole = verified.findings.is_empty();
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn ids(backups: &[BackupId]) -> Vec<&str> {
    backups.iter().map(BackupId::as_str).collect()
}

fn show_verified(verified: &Verified, out: &mut dyn Write) -> std::io::Result<()> {
    for Finding { object, offset, what, backups } in &verified.findings {
        let backups = ids(backups).join(", ");
        writeln!(out, "{object} at offset {offset}: {what}\n  affected backups: {backups}")?;
    }
    let verdict = if verified.findings.is_empty() { "whole" } else { "damaged" };
    writeln!(
        out,
        "{verdict}: {} backups; {} objects read, {}",
        verified.backups,
        verified.objects,
        super::bytes(verified.bytes)
    )
}

fn verified_object(verified: &Verified) -> Value {
    let finding = |Finding { object, offset, what, backups }: &Finding| json!({"object": object, "offset": offset, "what": what, "backups": ids(backups)});
    json!({
        "verdict": if verified.findings.is_empty() { "whole" } else { "damaged" },
        "findings": verified.findings.iter().map(finding).collect::<Vec<_>>(),
        "backups": verified.backups,
        "objects": verified.objects,
        "bytes": verified.bytes,
    })
}

pub(super) fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let (own, micros) = super::new_id(&Env::real(1))?;
    let removed = super::run(async {
        let from = args.store.open(&args.from, Missing::Refuse)?;
        let mut going = args.ids.clone();
        if let Some(keep) = args.keep {
            let catalog = backup::list(&from).await.map_err(super::failure)?;
            going.extend(catalog.all_but(keep as usize).map_err(super::failure)?);
        }
        let begun = Begun { micros, place: super::here("a removal") };
        backup::remove(&from, &going, &own, &begun).await.map_err(super::failure)
    })?;
    let Removed { backups, objects, bytes, under_way } = removed;
    let mut out = std::io::stdout().lock();
    backups.iter().try_for_each(|id| writeln!(out, "deleted {id}"))?;
    match under_way.is_empty() {
        true => writeln!(out, "freed {objects} objects with {}", super::bytes(bytes))?,
        false => writeln!(
            out,
            "nothing freed: backup {} is unfinished. Delete again after it completes, or delete \
             it too if it was interrupted",
            ids(&under_way).join(", ")
        )?,
    }
    Ok(ExitCode::SUCCESS)
}
