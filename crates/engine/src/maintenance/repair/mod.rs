//! Salvages what verifies of a damaged data directory into a new one.
//!
//! 1. The old directory is read and locked, never written.
//! 2. The new directory counts when its `CURRENT` is written, which is the last step and comes
//!    after every other file is on disk: one that was not finished is refused by an open.
//! 3. What is in the new directory was in the old one: blocks, records and edits are taken whole,
//!    by their checksums. What is missing is told by file, place, rows or sequence numbers, and
//!    reason. Where something newer is missing, what it had overwritten or deleted shows again.
//! 4. The new directory passes a check before it is handed over.
//!
//! Steps: the manifest, or what is left of it, says which SSTables count (`places`); each is
//! copied or, if it is damaged, written anew (`repair_ssts`); where nobody knows the order of the files
//! of a tree they are merged into one run (`merge_unordered`); the log is applied on top (`repair_logs`); where nobody
//! knows the newest commit time, the cells tell it (`commit_times`).

mod commit_times;
mod merge_unordered;
mod places;
mod repair_logs;
mod repair_ssts;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Loss, Lost, RepairReport};

use crate::cache::CacheFeatures;
use crate::cell::{SequenceNumber, TreeId};
use crate::compaction::pick::LAST_RUN;
use crate::compaction::writing::Writing;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::files::copy_note::{self, NoteWriter};
use crate::files::open_files::OpenFiles;
use crate::maintenance::check::{self, Progress, check_dir};
use crate::maintenance::checkpoint::{discard, prepare};
use crate::manifest::manifest_salvage::{SalvagedManifest, salvage};
use crate::manifest::state::version::LEVELS;
use crate::manifest::{self, Edit, SstMeta, State};
use crate::options::{Compression, FilterGranularity, Options, TreeOptions};
use crate::request::RowRange;
use crate::sstable::{BlockCache, SstReader};
use base::env::Env;
use places::{Chosen, Copies, Files, Hints, UnheardCopy, Unlisted};
use repair_ssts::{Source, bring};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// The reason of what is lost with a file that is not there.
const MISSING: &str = "it is missing";
/// Memory for blocks of the files being written.
const CACHE_BYTES: usize = 4 << 20;

/// Salvages what verifies of the data directory `dir` into `into`, which is new or empty. Takes
/// as long as reading the one and writing the other; `progress` is called while SSTables are read.
///
/// `Error::Unusable` if `dir` is in use, of a newer format, or no data directory, or if `into`
/// cannot be used; `Error::WritesStopped` if file numbers are used up; `Error::Io` and `Error::NoSpace` if it cannot be written. After an error what
/// was written to `into` is removed, as far as that can be done.
pub fn repair_dir(
    env: &Env,
    dir: &Path,
    into: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RepairReport> {
    let fs = &*env.fs;
    let _lock = check::lock(fs, dir)?;
    let salvaged = salvage(fs, dir)?;
    let ssts = check::ssts(fs, dir)?;
    let empty = salvaged.state.is_none() && salvaged.edits.is_empty() && ssts.is_empty();
    if empty && crate::log::is_empty(fs, dir)? {
        return Err(unusable(dir, "no data directory: it has no manifest, SSTable or log"));
    }
    if into == dir {
        return Err(unusable(into, "it is the directory to be repaired; choose a new one"));
    }
    prepare(fs, into)?;
    let repaired = repair(env, dir, into, salvaged, ssts, progress);
    if repaired.is_err() {
        discard(fs, into);
    }
    repaired
}

fn unusable(dir: &Path, what: &str) -> Error {
    Error::Unusable { dir: dir.to_owned(), what: what.to_owned() }
}

fn repair(
    env: &Env,
    dir: &Path,
    into: &Path,
    salvaged: SalvagedManifest,
    ssts: Vec<(FileNumber, std::path::PathBuf)>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RepairReport> {
    let fs = &*env.fs;
    let bytes_total = ssts.iter().map(|(_, path)| fs.size(path).unwrap_or(0)).sum();
    let files = places::find(fs, ssts)?;
    let mut report = RepairReport::default();
    let copies = places::copies(fs, dir, &mut report.notes)?;
    let options = Options::default();
    let mut repair = Repair {
        env,
        dir,
        into,
        files,
        copies,
        copy_notes: NoteWriter::default(),
        state: State::default(),
        manifest_is_read: salvaged.state.is_some(),
        report,
        open_files: OpenFiles::new(Arc::clone(&env.fs), &options),
        options,
        cache: BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING),
        next_file: Cell::new(1),
        progress,
        bytes: 0,
        bytes_total,
    };
    repair.manifest(salvaged)?;
    repair_logs::replay(&mut repair)?;
    commit_times::raise(&mut repair)?;
    repair.finish()
}

/// A repair in progress.
struct Repair<'a> {
    env: &'a Env,
    dir: &'a Path,
    into: &'a Path,
    files: Files,
    copies: Copies,
    /// Notes of copies that the new directory needs.
    copy_notes: NoteWriter,
    /// What the new directory holds so far.
    state: State,
    /// The manifest can be read from its beginning on, though its end may be missing.
    manifest_is_read: bool,
    report: RepairReport,
    options: Options,
    open_files: Arc<OpenFiles>,
    cache: Arc<BlockCache>,
    next_file: Cell<u64>,
    progress: &'a mut dyn FnMut(Progress<'_>),
    bytes: u64,
    bytes_total: u64,
}

impl Repair<'_> {
    fn apply(&mut self, edits: &[Edit]) -> Result<()> {
        self.state = self.state.apply(edits)?;
        Ok(())
    }

    /// Lends `act` what writing files of `tree` needs.
    fn writing<T>(&self, tree: TreeId, act: impl FnOnce(&Writing<'_>) -> T) -> Result<T> {
        let version = self.state.tree(tree).ok_or(Error::UnknownTree(tree))?;
        let granularity = version.options.filter_granularity;
        Ok(act(&Writing {
            fs: &*self.env.fs,
            dir: self.into,
            options: &self.options,
            tree,
            flushed: version.flushed,
            tree_options: &version.options,
            filter_granularity: granularity.unwrap_or(FilterGranularity::Column),
            open_files: &self.open_files,
            cache: &self.cache,
            new_file: &|| self.new_file(),
            cancelled: &|| false,
            wrote: &|_| (),
        }))
    }

    fn new_file(&self) -> Result<FileNumber> {
        let next = self.next_file.get();
        if next >= FileNumber::END {
            return Err(Error::stopped("file numbers are used up"));
        }
        self.next_file.set(next + 1);
        Ok(FileNumber(next))
    }

    /// Brings the SSTables over, by the manifest if it can be believed.
    fn manifest(&mut self, salvaged: SalvagedManifest) -> Result<()> {
        let SalvagedManifest { state, edits, damage } = salvaged;
        for damage in damage {
            let (path, offset) = (damage.path.display(), damage.offset);
            self.report.notes.push(format!("{path} at offset {offset}: {}", damage.what));
        }
        match state {
            Some(state) if self.is_believed(&state)? => self.by_manifest(&state),
            Some(state) => {
                let path = self.dir.display();
                let note = "the MANIFEST lost its end: other files have changes that it lacks";
                self.report.notes.push(format!("{path}: {note}"));
                self.by_files(&Hints::of(&state.to_edits()))?;
                self.apply(&[Edit::LogFrom(state.log_from)])
            }
            None => self.by_files(&Hints::of(&edits)),
        }
    }

    /// Returns whether nothing shows that the manifest had more to say than `state`.
    fn is_believed(&self, state: &State) -> Result<bool> {
        Ok(match places::unlisted(&self.files, state) {
            Unlisted::None => true,
            Unlisted::Leftovers => !repair_logs::contradicts(self, state)?,
            Unlisted::Newer => false,
        })
    }

    /// Brings over what the manifest names, each file to its place.
    fn by_manifest(&mut self, state: &State) -> Result<()> {
        let copies = places::unheard_copies(&self.files, state, &self.copies);
        let apart = copies.values().flat_map(|copy| &copy.files).copied();
        self.begin_numbers(state.next_file.0, state.files().into_iter().chain(apart));
        let mut edits = Vec::new();
        for edit in state.to_edits() {
            match edit {
                Edit::AddSst { tree, level, run, meta } => {
                    let options = state.tree(tree).map(|version| version.options.clone());
                    let options = options.unwrap_or_default();
                    let compression = match level + 1 < LEVELS {
                        true => options.compression,
                        false => options.compression_last,
                    };
                    let meta = self.bring(meta.number, tree, &options, compression, Some(&meta))?;
                    edits.extend(meta.map(|meta| Edit::AddSst { tree, level, run, meta }));
                }
                other => edits.push(other),
            }
        }
        self.apply(&edits)?;
        copies.into_iter().try_for_each(|(tree, copy)| self.unheard_copy(tree, &copy, state))
    }

    /// Makes a tree that the manifest, which says `state`, does not know, of the files that a note says
    /// are a copy's. A copy without all its files may show what its source deleted, and is left out.
    fn unheard_copy(&mut self, tree: TreeId, copy: &UnheardCopy, state: &State) -> Result<()> {
        let UnheardCopy { files, missing } = copy;
        let path = copy_note::path(self.dir, tree);
        if *missing > 0 {
            let reason = format!(
                "the MANIFEST does not know tree {}, a copy of which {} of {} files are there; it is left \
                 out, and did not come to its end unless files were removed by hand",
                tree.0,
                files.len(),
                files.len() + missing
            );
            let lost = Lost::Rows { tree: Some(tree), rows: RowRange::ALL };
            self.report.losses.push(Loss { file: path, offset: 0, reason, lost });
            return Ok(());
        }
        self.report.notes.push(format!(
            "{}: the MANIFEST does not know tree {}, which has files; it is kept, and may be a copy that \
             did not come to its end",
            path.display(),
            tree.0
        ));
        let options = places::options_of(files, &self.files);
        let position = places::flushed_of(files, &self.files);
        let last = self.state.last_sequence.max(SequenceNumber(position.0));
        self.apply(&[
            Edit::CreateTree { tree, options },
            Edit::Flushed { tree, position },
            Edit::LastSequence(last),
        ])?;
        let hints = places::hints_of_copy(tree, files, &self.files, state);
        self.tree_by_files(tree, files, &hints)
    }

    /// Brings over one file; gives what the new manifest is to say of it.
    fn bring(
        &mut self,
        number: FileNumber,
        tree: TreeId,
        options: &TreeOptions,
        compression: Compression,
        meta: Option<&SstMeta>,
    ) -> Result<Option<SstMeta>> {
        let Some(found) = self.files.get(&number) else {
            let rows = meta.map_or(RowRange::ALL, SstMeta::span);
            self.lost(number, MISSING, Some(tree), rows);
            return Ok(None);
        };
        let Self { env, into, report, progress, bytes, bytes_total, .. } = self;
        let (before, bytes_total, path) = (*bytes, *bytes_total, found.path.as_path());
        let source = Source { path, number, tree, options, compression, meta };
        let mut read =
            |bytes| progress(Progress { file: path, bytes: before + bytes, bytes_total });
        let brought = bring(&*env.fs, into, &source, report, &mut read)?;
        self.copy_notes.add(tree, number, found.tree());
        self.bytes += self.env.fs.size(path).unwrap_or(0);
        Ok(brought)
    }

    /// Notes that rows of a file may be missing.
    fn lost(&mut self, number: FileNumber, reason: &str, tree: Option<TreeId>, rows: RowRange) {
        let (file, reason) = (number.sst_path(self.dir), reason.to_owned());
        self.report.losses.push(Loss { file, offset: 0, reason, lost: Lost::Rows { tree, rows } });
    }

    /// Has new files numbered from `next` on, and after all `taken`: the files that are brought over.
    /// Others, whatever their names, use no numbers up.
    fn begin_numbers(&self, next: u64, taken: impl Iterator<Item = FileNumber>) {
        let after = taken.map(|number| number.0.saturating_add(1)).max();
        self.next_file.set(next.max(after.unwrap_or(1)));
    }

    /// Puts the trees together from what the files say.
    fn by_files(&mut self, hints: &Hints) -> Result<()> {
        self.report.rebuilt = true;
        let Chosen { trees, nameless, missing, doubtful } =
            places::choose(&self.files, hints, &self.copies);
        for number in nameless {
            let reason = "neither a manifest nor the file says which tree it belongs to";
            self.lost(number, reason, None, RowRange::ALL);
        }
        let merged = "the manifest names it, and files that it does not name were merged from it";
        let absent = missing.into_iter().map(|number| (number, MISSING));
        for (number, reason) in absent.chain(doubtful.into_iter().map(|number| (number, merged))) {
            if let Some((tree, meta)) = hints.added.get(&number) {
                self.lost(number, reason, Some(*tree), meta.span());
            }
        }
        let mut edits: Vec<Edit> =
            hints.dropped.iter().map(|tree| Edit::UsedTree { tree: *tree }).collect();
        let mut last = SequenceNumber(0);
        let mut all: Vec<TreeId> = hints.trees.keys().chain(trees.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        for tree in &all {
            let files = trees.get(tree).map_or(&[][..], Vec::as_slice);
            let options = hints.trees.get(tree).filter(|options| options.validate().is_ok());
            let options =
                options.cloned().unwrap_or_else(|| places::options_of(files, &self.files));
            let position = hints.flushed.get(tree).copied().unwrap_or_default();
            let position = position.max(places::flushed_of(files, &self.files));
            edits.push(Edit::CreateTree { tree: *tree, options });
            edits.push(Edit::Flushed { tree: *tree, position });
            last = last.max(SequenceNumber(position.0));
        }
        // What is written from now on must not be taken for something that was flushed.
        edits.push(Edit::LastSequence(hints.last_sequence.max(last)));
        edits.push(Edit::NextFile(FileNumber(hints.next_file)));
        edits.extend(hints.store.map(Edit::Store));
        edits.push(Edit::CommitTime(hints.commit_time));
        edits.push(Edit::Clock(hints.clock));
        edits.extend(hints.owner.map(Edit::Owner));
        self.apply(&edits)?;
        self.begin_numbers(hints.next_file, trees.values().flatten().copied());
        for (tree, files) in trees {
            self.tree_by_files(tree, &files, hints)?;
        }
        Ok(())
    }

    /// Makes one run of the files of a tree.
    fn tree_by_files(&mut self, tree: TreeId, files: &[FileNumber], hints: &Hints) -> Result<()> {
        let options = self.state.tree(tree).map(|version| version.options.clone());
        let options = options.unwrap_or_default();
        let mut metas = Vec::new();
        for number in files {
            let meta = hints.added.get(number).map(|(_, meta)| meta);
            let brought = self.bring(*number, tree, &options, options.compression_last, meta)?;
            // Only the manifest numbers the entries of an ingested file.
            let is_unnumbered = |own: &&SstMeta| own.sequence_max.0 == 0 && own.entries > 0;
            if let Some(own) = brought.as_ref().filter(is_unnumbered) {
                let reason = "it was ingested, and its place among the other writes is lost with the \
                              manifest: what it replaced may show again";
                self.lost(*number, reason, Some(tree), own.span());
            }
            metas.extend(brought);
        }
        let run = self.merge(tree, merge_unordered::runs_of(metas))?;
        let place = |meta| Edit::AddSst { tree, level: LEVELS - 1, run: LAST_RUN, meta };
        let edits: Vec<Edit> = run.into_iter().map(place).collect();
        self.apply(&edits)
    }

    /// Makes one run of files that were brought over, and removes those that it merges.
    fn merge(&self, tree: TreeId, runs: Vec<Vec<SstMeta>>) -> Result<Vec<SstMeta>> {
        let fs = &*self.env.fs;
        let path = |meta: &SstMeta| meta.number.sst_path(self.into);
        let open = |meta: &SstMeta| {
            let sst = repair_ssts::open(fs, &path(meta), meta.number)?;
            Ok(SstReader::numbered(sst, meta.sequence_max))
        };
        let remove = |meta: &SstMeta| {
            let path = path(meta);
            fs.remove_file(&path).map_err(|error| Error::io("remove", &path, &error))
        };
        self.writing(tree, |writing| {
            merge_unordered::Merging { writing, open: &open, remove: &remove }.merge(runs)
        })?
    }

    /// Makes the new directory count, and checks it.
    fn finish(mut self) -> Result<RepairReport> {
        let fs = &*self.env.fs;
        // The log of the new directory begins anew.
        self.state.log_from = State::default().log_from;
        self.state.log_closed = None;
        self.apply(&[Edit::NextFile(FileNumber(self.next_file.get()))])?;
        let files = self.state.files();
        let notes = std::mem::take(&mut self.copy_notes);
        notes.write(fs, self.into, |number| files.contains(&number))?;
        fs.sync_dir(self.into).map_err(|error| Error::io("sync", self.into, &error))?;
        manifest::create(fs, self.into, &self.state)?;
        let checked = check_dir(self.env, self.into, &mut |_| ())?;
        if let Some(finding) = checked.findings.first() {
            let what = format!("what was written is damaged: {}", finding.what);
            return Err(Error::corruption(&finding.file, finding.offset, what));
        }
        self.report.trees = checked.trees;
        self.report.entries = checked.entries;
        Ok(self.report)
    }
}
