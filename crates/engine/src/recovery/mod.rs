//! From a directory to an open engine: lock, manifest, SSTables, then the log.
//!
//! In: a directory. Out: an open engine, or an error and the directory as it was. May use all rooms
//! but `maintenance`.
//!
//! Steps, each safe to repeat if the machine dies in the middle:
//! 1. Take the directory's lock file.
//! 2. Read the manifest: the trees, their SSTables, up to where each is flushed.
//!    A directory of another kind than is asked for, or of another node, is refused.
//! 3. Open the SSTables.
//! 4. Replay the log: every batch behind its tree's flushed position goes to the memtable, which is
//!    flushed if memory is too small for it ([`log_replay`]). Segments that must be there and are not
//!    are corruption.
//! 5. Remove files the manifest does not name: outputs of flushes and compactions that were not
//!    installed, and notes of copies that were not. Not before all that can be checked has been.
//! 6. Seal the old log, so that new batches go to a new segment.
//!
//! What fills a memtable is frozen, and flushed once the engine is open.

mod log_replay;
mod membership;
pub(crate) mod owner_of_contents;
#[cfg(test)]
mod tests;

use crate::background;
use crate::block_loads::async_loads::AsyncLoads;
use crate::cache::CacheFeatures;
use crate::cell::TreeId;
use crate::changes;
use crate::counters::engine_counters::Counters;
use crate::error::{Error, Result};
use crate::files::copy_note;
use crate::files::open_files::OpenFiles;
use crate::log::{Ending, LogEnd, LogSizes, LogWriter, SegmentNumber};
use crate::manifest::current::CURRENT;
use crate::manifest::{ManifestSet, Member, SstMeta, State};
use crate::memory::budget::Budget;
use crate::options::{Options, ReadPath};
use crate::sstable::{BlockCache, ReadaheadSource, SstReader};
use crate::state::Shared;
use crate::state::io_rate::IoRate;
use crate::state::obsolete_files::{self, Obsolete};
use crate::tree::read_parts::ReadParts;
use crate::tree::read_view::OpenRun;
use crate::tree::snapshots::Snapshots;
use crate::tree::{TreeState, draw_seed};
use crate::write::group_commit::Commits;
use base::env::{Env, FileSystem};
use base::sync::{Mutex, RwLock};
use log_replay::Replay;
pub(crate) use log_replay::decode;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the lock file.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Logs that the file system of `dir` cannot read past its page cache, if it cannot and `options`
/// ask for it. An error here will show again where it matters.
fn say_if_not_direct(fs: &dyn FileSystem, dir: &Path, options: &Options) {
    if !options.direct_reads {
        return;
    }
    let probe = fs.open_read_direct(&dir.join(CURRENT));
    if probe.is_ok_and(|file| !file.is_direct()) {
        let dir = dir.display();
        tracing::info!(%dir, "this file system does not support direct I/O; using the page cache");
    }
}

/// Has no file get a number that a file without a tree may have: numbers of files that are there, and
/// numbers that notes of copies announce. If one of the notes does not read, none gets a number that it
/// can have.
fn pass_over_unnamed(fs: &dyn FileSystem, dir: &Path, manifest: &mut ManifestSet) -> Result<()> {
    let state = manifest.state();
    let mut numbers = obsolete_files::unnamed(fs, dir, &state.files())?;
    let announced = copy_note::announced(fs, dir, |tree| state.trees.contains_key(&tree))?;
    numbers.extend(announced.numbers);
    manifest.pass_over(numbers);
    if announced.is_unread {
        manifest.leave_out(copy_note::NUMBERS_AHEAD_MAX);
    }
    Ok(())
}

type Trees = BTreeMap<TreeId, Arc<TreeState>>;

/// Opens `dir`, which is of a single server, or of the node `member`. See [`crate::Engine::open`].
pub(crate) fn open(
    env: Env,
    dir: &Path,
    options: Options,
    member: Option<Member>,
) -> Result<Arc<Shared>> {
    options.validate()?;
    env.fs.create_dir_all(dir).map_err(|error| Error::io("create", dir, &error))?;
    let lock = lock(&*env.fs, dir)?;
    let mut manifest = ManifestSet::open_shaped(Arc::clone(&env.fs), dir, &options.shape)?;
    membership::settle(&*env.fs, dir, &manifest, member)?;
    let state = manifest.state();
    pass_over_unnamed(&*env.fs, dir, &mut manifest)?;
    say_if_not_direct(&*env.fs, dir, &options);
    let cache = open_cache(&options);
    let open_files = OpenFiles::new(Arc::clone(&env.fs), &options);
    let snapshots = Arc::new(Snapshots::default());
    let seed = draw_seed(&*env.fs, dir)?;
    let trees = open_trees(&open_files, dir, &state, &cache, &snapshots, &options, seed)?;
    let counters = Counters::default();
    let replay = Replay {
        env: &env,
        dir,
        manifest: &manifest,
        trees: &trees,
        open_files: &open_files,
        cache: &cache,
        options: &options,
        counters: &counters,
    };
    let (end, start) = replay.run()?;
    check_log(dir, &state, &end)?;
    let state = manifest.state();
    obsolete_files::remove_unnamed(&*env.fs, dir, &state.files())?;
    let left = obsolete_files::unnamed(&*env.fs, dir, &state.files())?;
    copy_note::remove_unknown(&*env.fs, dir, &left, |tree| state.trees.contains_key(&tree))?;
    snapshots.publish(start.last);
    let writer = LogWriter::open_sized(Arc::clone(&env.fs), dir, LogSizes::of(&options), end)?;
    let log_segments = Arc::clone(writer.segments());
    let (times, clock) = (manifest.commit_times(), Arc::clone(&env.clock));
    let commits = Commits::new(writer, start, times, Arc::clone(&snapshots), clock, &options);
    let readahead =
        ReadaheadSource::new(Arc::clone(&env.fs), options.memory_bytes_max, &options.shape);
    let health = Arc::default();
    let shared = Arc::new(Shared {
        async_loads: AsyncLoads::new(&env),
        dir: dir.to_owned(),
        commits,
        log_segments,
        manifest,
        trees: RwLock::new(trees),
        snapshots,
        cache,
        open_files,
        obsolete: Obsolete::new(env.clone(), Arc::clone(&health)),
        env,
        progress: Mutex::default(),
        progressed: Default::default(),
        stalled_tasks: Default::default(),
        commit_threads: Default::default(),
        health,
        counters,
        stalls: Default::default(),
        compactions: Default::default(),
        io_rate: IoRate::new(options.background_rate),
        read_waits: Default::default(),
        read_parts: ReadParts::of(&options),
        past_trees: Default::default(),
        readahead,
        options,
        member,
        ownership: Default::default(),
        lock: Mutex::new(Some(lock)),
    });
    changes::kept_segments::resume(&shared);
    // A process that was killed may have said which segments go, and not have removed them; the next
    // flush would, but may be long in coming.
    shared.retire_log();
    background::start_background(&shared);
    Ok(shared)
}

/// The block cache, within the memory that `options` give.
fn open_cache(options: &Options) -> Arc<BlockCache> {
    let ReadPath { huge_pages, hints, .. } = options.read_path;
    let features = CacheFeatures { huge_pages, hints, shape: options.shape };
    let budget = Budget::new(options.memory_bytes_max, options.cache_bytes_max);
    BlockCache::within(budget, features)
}

pub(crate) fn lock(fs: &dyn FileSystem, dir: &Path) -> Result<Box<dyn Send + Sync>> {
    let path = dir.join(LOCK_FILE);
    fs.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Unusable {
            dir: dir.to_owned(),
            what: "in use by another process; stop it, or choose another directory".to_owned(),
        },
        _ => Error::io("lock", &path, &error),
    })
}

fn open_trees(
    files: &Arc<OpenFiles>,
    dir: &Path,
    state: &State,
    cache: &Arc<BlockCache>,
    snapshots: &Arc<Snapshots>,
    options: &Options,
    seed: u64,
) -> Result<Trees> {
    let open = |(id, version): (&TreeId, &Arc<crate::manifest::TreeVersion>)| {
        let runs = version.runs().map(|run| {
            let ssts = run.ssts.iter().map(|sst| {
                let path = sst.number.sst_path(dir);
                let file = files.open(&path);
                let file = file.map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => Error::corruption(
                        &path,
                        0,
                        "the manifest names this SSTable; it is missing",
                    ),
                    _ => Error::io("open", &path, &error),
                })?;
                let reader = SstReader::open(file, &path, sst.number, Arc::clone(cache))?;
                check_length(&path, sst, &reader)?;
                let reader = SstReader::with_read_path(reader, options.read_path);
                Ok(SstReader::numbered(reader, sst.sequence_max))
            });
            ssts.collect::<Result<OpenRun>>()
        });
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let (version, budget) = (Arc::clone(version), cache.budget());
        let shape = &options.shape;
        Ok((*id, Arc::new(TreeState::new(*id, version, runs, budget, snapshots, shape, seed))))
    };
    state.trees.iter().map(open).collect()
}

/// Refuses a file that is not as long as the manifest says: it is another one, or was cut where
/// bytes within it look like a footer.
fn check_length(path: &Path, sst: &SstMeta, reader: &SstReader) -> Result<()> {
    let (found, told) = (reader.bytes(), sst.bytes);
    if found == told {
        return Ok(());
    }
    let what = format!("the file has {found} bytes, but the manifest states {told}");
    Err(Error::corruption(path, found.min(told), what))
}

/// Compares the log found with what the manifest knows of it.
pub(crate) fn check_log(dir: &Path, state: &State, end: &LogEnd) -> Result<()> {
    let missing = |segment: SegmentNumber| {
        let what = "the manifest knows this segment of the log; it is missing";
        Err(Error::corruption(&segment.path(dir), 0, what))
    };
    let known = state.log_from > SegmentNumber(1) || state.log_closed.is_some();
    let next = end.chain.last.map(|(last, ..)| last).unwrap_or_default().next();
    if let Some(torn) = end.chain.torn_creation.filter(|torn| *torn != next) {
        let what = "a segment of the log is missing before this one, which is empty";
        return Err(Error::corruption(&torn.path(dir), 0, what));
    }
    match end.contents.keys().next() {
        Some(first) if *first > state.log_from => return missing(state.log_from),
        None if known => return missing(state.log_from),
        _ => {}
    }
    match (state.log_closed, end.chain.last) {
        (Some(closed), Some((last, ..))) if last < closed.segment => missing(closed.segment),
        (Some(closed), Some((last, at, ending)))
            if last == closed.segment && (at != closed.end || ending == Ending::Open) =>
        {
            let what = format!("the log ends here; it was closed cleanly at {}", closed.end);
            Err(Error::corruption(&last.path(dir), at, what))
        }
        _ => Ok(()),
    }
}
