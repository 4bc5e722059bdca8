//! The newest time that the server gave, where the manifest that told it is lost.
//!
//! Nobody can tell the times of the server from those of clients, which may be of any future. But the
//! server's are never further ahead of the clock than [`TIMES_AHEAD_MICROS_MAX`]: so the newest cell up
//! to there is not below any of them, if the clock has not gone back since.

use super::{Repair, repair_ssts};
use crate::cache::CacheFill;
use crate::cell::{Kind, Timestamp};
use crate::error::Result;
use crate::manifest::{Edit, SstMeta};
use crate::semantics::row_cursor::RowCursor;
use crate::write::group_commit::TIMES_AHEAD_MICROS_MAX;
use std::sync::Arc;

/// Raises the commit time of what `repair` has put together, if the manifest could not tell it.
pub(super) fn raise(repair: &mut Repair<'_>) -> Result<()> {
    if !repair.report.rebuilt {
        return Ok(());
    }
    let now = repair.env.clock.now_micros();
    let limit = Timestamp(now.saturating_add(TIMES_AHEAD_MICROS_MAX));
    let runs = repair.state.trees.values().flat_map(|version| version.runs());
    let metas: Vec<Arc<SstMeta>> = runs.flat_map(|run| &run.ssts).map(Arc::clone).collect();
    let mut newest = Timestamp(0);
    let mut later = false;
    for meta in metas {
        if meta.timestamp_max <= limit {
            newest = newest.max(meta.timestamp_max);
        } else {
            later |= look(repair, &meta, limit, &mut newest)?;
        }
    }
    let known = repair.state.commit_time;
    let micros = u64::try_from(newest.0).unwrap_or(0).max(known);
    repair.apply(&[Edit::CommitTime(micros)])?;
    let beyond =
        if later { "; later cells exist, presumably with timestamps set by clients" } else { "" };
    repair.report.notes.push(format!(
        "the newest commit time may be lost with the MANIFEST: server times continue after \
         {micros}, the newest in the data up to ten minutes from now{beyond}"
    ));
    Ok(())
}

/// Raises `newest` to the newest cell of a file that is not later than `limit`; whether one is later.
fn look(
    repair: &Repair<'_>,
    meta: &SstMeta,
    limit: Timestamp,
    newest: &mut Timestamp,
) -> Result<bool> {
    let path = meta.number.sst_path(repair.into);
    let mut cursor =
        repair_ssts::open(&*repair.env.fs, &path, meta.number)?.cursor(CacheFill::Bypass);
    let mut later = false;
    cursor.seek(&[])?;
    while cursor.row().is_some() {
        while let Some(entry) = cursor.entry() {
            let cell = entry.kind != Kind::Tombstone;
            later |= cell && entry.timestamp > limit;
            if cell && entry.timestamp <= limit {
                *newest = (*newest).max(entry.timestamp);
            }
            cursor.next_entry()?;
        }
        cursor.next_row()?;
    }
    Ok(later)
}

#[cfg(test)]
mod tests {
    use super::super::repair_dir;
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp, TreeId};
    use crate::engine::Engine;
    use crate::options::{Options, TreeOptions};
    use base::env::sim::SimEnv;
    use std::path::Path;

    const MINUTE: i64 = 60_000_000;
    const TREE: TreeId = TreeId(1);

    fn column() -> Column<'static> {
        Column::of(FamilyId(1), b"q")
    }

    /// Writes a cell whose time is given by the server, `ahead` of the clock; gives the time.
    fn write_ahead(engine: &Engine, machine: &SimEnv, ahead: i64) -> i64 {
        let time = machine.env().clock.now_micros() + ahead;
        let mut batch = WriteBatch::new();
        batch.put_timed(b"row", column(), b"value");
        engine
            .tree(TREE)
            .unwrap()
            .write_timed(&batch, |times| times.set(0..1, Timestamp(time)))
            .unwrap();
        time
    }

    /// The newest commit time of what a repair makes of the store, and the notes of the repair.
    fn repaired(machine: &SimEnv) -> (i64, Vec<String>) {
        let (dir, into) = (Path::new("/data"), Path::new("/repaired"));
        let report = repair_dir(&machine.env(), dir, into, &mut |_| ()).unwrap();
        let engine = Engine::open_with_env(machine.env(), into, Options::default()).unwrap();
        (engine.commit_micros() as i64, report.notes)
    }

    fn store(machine: &SimEnv) -> Engine {
        let engine =
            Engine::open_with_env(machine.env(), Path::new("/data"), Options::default()).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        engine
    }

    #[test]
    fn what_only_the_log_told_of_commit_times_is_kept() {
        let machine = SimEnv::new(1);
        let engine = store(&machine);
        let time = write_ahead(&engine, &machine, 5 * MINUTE);
        let machine = machine.kill();
        drop(engine);
        let (kept, notes) = repaired(&machine);
        assert_eq!((kept, notes), (time, vec![]));
    }

    #[test]
    fn without_a_manifest_the_newest_cell_counts_that_the_server_may_have_timed() {
        let machine = SimEnv::new(1);
        let engine = store(&machine);
        let time = write_ahead(&engine, &machine, 5 * MINUTE);
        engine.tree(TREE).unwrap().flush().unwrap();
        let of_client = |after: i64| {
            let mut batch = WriteBatch::new();
            batch.put(b"row", column(), Timestamp(time + after), b"value");
            batch.delete_row(b"deleted");
            engine.tree(TREE).unwrap().write(&batch).unwrap();
            engine.tree(TREE).unwrap().flush().unwrap();
        };
        of_client(-MINUTE);
        of_client(20 * MINUTE);
        engine.close().unwrap();
        drop(engine);
        let fs = machine.env().fs;
        for name in fs.list(Path::new("/data")).unwrap() {
            if name.extension().is_none_or(|kind| kind != "sst") {
                fs.remove_file(&Path::new("/data").join(name)).unwrap();
            }
        }
        let (kept, notes) = repaired(&machine);
        assert_eq!(kept, time);
        let told = |text: &str| notes.iter().any(|note| note.contains(text));
        assert!(told(&format!("continue after {time}")) && told("later cells exist"), "{notes:?}");
    }
}
