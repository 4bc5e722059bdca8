//! `stele backup`: a checkpoint, what of it is new to the destination, and then the checkpoint goes.
//!
//! An interrupted backup leaves its checkpoint, and the next call goes on with it: the same point, and
//! nothing is sent twice.

use super::args::{CreateArgs, StoreArgs};
use super::data_dir::DataDir;
use super::place::{self, Left, Note, Place, left_over};
use super::server::Server;
use super::{checkpoint, progress};
use crate::config::ConfigError;
use crate::connect::ConnectArgs;
use crate::serve::checkpoint::Wanted;
use anyhow::{Context, Result};
use backup::{BackupId, Created, Destination, Meter, Missing, Source};
use base::env::{Clock, Env, SystemClock};
use engine::checkpoint::{Copied, contents, store_id};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// A store to back up.
enum Store {
    Open(Server),
    Closed,
}

pub(super) fn create(
    args: &CreateArgs,
    connect: &ConnectArgs,
    destination: &StoreArgs,
) -> Result<ExitCode> {
    let created = super::run(async {
        let (store, data_dir) = find(&args.source, connect).await?;
        let to = destination.open(&args.to, Missing::Create)?;
        let env = Env::real(1);
        let place = match resumed(args, &env, &to, &data_dir).await? {
            Some(place) => place,
            None => begin(&env, &store, &data_dir, &to).await?,
        };
        if args.check {
            place.check(&env).context("the checkpoint is damaged; nothing was uploaded")?;
        }
        let sent = send(args, &env, &to, &place).await;
        let created = sent.with_context(|| {
            format!("backup {} is incomplete; rerun the command to resume it", place.id)
        })?;
        // The backup is made. A checkpoint that stays is gone on with, which does nothing, and goes then.
        if let Err(error) = place.remove() {
            say(&format!("{error:#}"));
        }
        anyhow::Ok(created)
    })?;
    show(args, &created)?;
    Ok(ExitCode::SUCCESS)
}

/// The store that `source` names, and its directory.
async fn find(source: &str, connect: &ConnectArgs) -> Result<(Store, DataDir)> {
    let Some(server) = Server::of(source, connect)? else {
        return Ok((Store::Closed, DataDir::closed(std::path::absolute(source)?)?));
    };
    let data_dir = server.data_dir().await?.data_dir;
    if !data_dir.is_dir() {
        return Err(ConfigError(format!(
            "the server's data directory {} does not exist on this machine; run this command on \
             the machine of the server",
            data_dir.display()
        ))
        .into());
    }
    Ok((Store::Open(server), DataDir::served(data_dir)?))
}

/// The checkpoint of an interrupted backup to the same destination, unless a new one is wanted. Those
/// that are not gone on with are given up. Refused while another backup to there is under way.
async fn resumed(
    args: &CreateArgs,
    env: &Env,
    to: &Destination,
    data_dir: &DataDir,
) -> Result<Option<Place>> {
    let (mut found, here): (Option<Place>, _) = (None, to.to_string());
    for left in left_over(&*env.fs, data_dir, &mut say)? {
        let place = match left {
            Left::InUse(id, Some(note)) if note.to == here => {
                return Err(busy(data_dir.path(), &id));
            }
            // It is of a backup to elsewhere, or of one that begins.
            Left::InUse(..) => continue,
            Left::Free(place) => place,
        };
        let id = &place.id;
        if place.note.to != here {
            let other = &place.note.to;
            say(&format!(
                "the interrupted backup {id} to {other} still uses {}",
                place.dir().display()
            ));
            continue;
        }
        if place.dir().exists() && place.lock(&*env.fs).is_none() {
            return Err(busy(data_dir.path(), id));
        }
        let given_up = backup::is_given_up(to, id).await.map_err(super::failure)?;
        if given_up {
            say(&format!(
                "the interrupted backup {id} was abandoned at {to}; starting a new backup"
            ));
        }
        // Of two that are whole the later goes on.
        let over = match args.new || given_up || !place.is_whole() {
            true => Some(place),
            false => found.replace(place),
        };
        if let Some(over) = over {
            backup::give_up(to, &over.id).await.map_err(super::failure)?;
            over.remove()?;
        }
    }
    if let Some(place) = &found {
        let taken = super::time(place.note.taken_micros);
        say(&format!("resuming backup {} of {taken}; pass --new to start a new backup", place.id));
    }
    Ok(found)
}

fn busy(data_dir: &Path, id: &BackupId) -> anyhow::Error {
    let dir = place::directory(data_dir, id);
    ConfigError(format!("{} is in use, probably by another backup", dir.display())).into()
}

/// Makes a checkpoint for a new backup.
async fn begin(env: &Env, store: &Store, data_dir: &DataDir, to: &Destination) -> Result<Place> {
    let taken_micros = SystemClock.now_micros();
    let random = env.fs.unique().context("could not draw a random number")? as u32;
    let id = backup::next_id(to, taken_micros, random).await.map_err(super::failure)?;
    if let Store::Closed = store {
        // Refused before anything is written, if it is in use or no data directory.
        let named = store_id(env, data_dir.path());
        named.map_err(|error| {
            ConfigError(format!(
                "{error}; for a running server, pass its HTTP address, e.g. http://127.0.0.1:8087"
            ))
        })?;
    }
    let note = Note { to: to.to_string(), taken_micros };
    let place = Place::begin(&*env.fs, data_dir, id, note)?;
    let made = match store {
        Store::Open(server) => {
            let wanted = Wanted::ForBackup(place.id.to_string());
            server.checkpoint(&wanted).await.map(drop)
        }
        Store::Closed => checkpoint::copy(data_dir.path(), &place.dir(), Copied::SameStore),
    };
    if let Err(error) = made {
        let _ = place.remove();
        return Err(error);
    }
    Ok(place)
}

async fn send(args: &CreateArgs, env: &Env, to: &Destination, place: &Place) -> Result<Created> {
    let _held = place.lock(&*env.fs).ok_or_else(|| busy(place.data_dir(), &place.id))?;
    let source = Source {
        fs: env.fs.clone(),
        contents: contents(&env.fs, &place.dir())?,
        dir: place.dir(),
        taken_micros: place.note.taken_micros,
        place: super::here(&place.dir().display().to_string()),
    };
    let limit = args.bytes_per_second.map(|size| size.0);
    let meter = Meter::new(limit, progress::watch());
    backup::create(to, &source, &place.id, &SystemClock, &meter).await.map_err(super::failure)
}

fn say(line: &str) {
    // It is no reason to stop that nobody can see it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn show(args: &CreateArgs, created: &Created) -> Result<()> {
    let Created { id, record, sent_files, kept_files } = created;
    let mut out = std::io::stdout().lock();
    if args.json {
        let object = json!({
            "backup": id.as_str(),
            "store": record.store.to_string(),
            "taken_micros": record.taken_micros,
            "sequence": record.point.sequence,
            "bytes": record.bytes(),
            "files": record.files.len(),
            "sent_files": sent_files,
            "sent_bytes": record.sent_bytes,
            "kept_files": kept_files,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "backup {id}: store {} at {}, up to sequence number {}; {} in {} files; uploaded {} \
         files, {}",
        record.store,
        super::time(record.taken_micros),
        record.point.sequence,
        super::bytes(record.bytes()),
        record.files.len(),
        sent_files,
        super::bytes(record.sent_bytes),
    )?;
    Ok(())
}
