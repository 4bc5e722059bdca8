//! The whole state the manifest holds at one moment, and what an edit makes of it. Pure.

pub(crate) mod invariants;
pub(super) mod tree_map;
pub(crate) mod version;

use super::edit::{Edit, LogClosed, Member, Owner, StoreId};
use crate::cell::{SequenceNumber, TreeId};
use crate::error::Error;
use crate::log::{LogPosition, SegmentNumber};
use crate::options::TreeOptions;
use crate::shape::Shape;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tree_map::TreeMap;
use version::{ChangeLog, FileNumber, Run, RunId, SstMeta, TreeVersion};

/// All trees at one moment. Immutable once published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The trees that exist.
    pub trees: TreeMap<Arc<TreeVersion>>,
    /// Ids of trees that were dropped: never given again.
    pub used: TreeMap<()>,
    /// All smaller file numbers may have been used.
    pub next_file: FileNumber,
    /// All sequence numbers up to here may have been used. Those in the log are not counted.
    pub last_sequence: SequenceNumber,
    /// The first segment of the log that is needed; earlier ones may be gone.
    pub log_from: SegmentNumber,
    /// Where the log ended when it was last closed cleanly.
    pub log_closed: Option<LogClosed>,
    /// Id of the store; `None` until it is first needed.
    pub store: Option<StoreId>,
    /// No commit so far has a time after this, but for those in the log: microseconds since the
    /// epoch.
    pub commit_time: u64,
    /// The latest the clock showed at a commit, as far as it was written down: microseconds since the
    /// epoch.
    pub clock: u64,
    /// Owner of the store; `None` in a store without trees, or older than owners.
    pub owner: Option<Owner>,
    /// The node of a cluster that the store is of; `None` for a store of a single server. The trees
    /// of a node get their batches with positions of a group's log.
    pub member: Option<Member>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            trees: TreeMap::default(),
            used: TreeMap::default(),
            next_file: FileNumber(1),
            last_sequence: SequenceNumber(0),
            log_from: SegmentNumber(1),
            log_closed: None,
            store: None,
            commit_time: 0,
            clock: 0,
            owner: None,
            member: None,
        }
    }
}

/// Why edits do not fit a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The tree does not exist.
    UnknownTree(TreeId),
    /// The id is in use, or was.
    UsedTree(TreeId),
    /// The edit contradicts the state, or its result breaks an invariant; the text says which.
    Broken(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTree(tree) => write!(f, "unknown tree {}", tree.0),
            Self::UsedTree(tree) => write!(f, "tree id {} was used before", tree.0),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownTree(tree) => Self::UnknownTree(tree),
            other => Self::InvalidArgument(format!("the manifest refuses edits: {other}")),
        }
    }
}

impl State {
    /// The default whose maps have parts as `shape` says.
    pub(crate) fn shaped(shape: &Shape) -> Self {
        let part_max = shape.tree_map_part_max;
        let (trees, used) = (TreeMap::with_parts(part_max), TreeMap::with_parts(part_max));
        Self { trees, used, ..Self::default() }
    }

    /// The tree, if it exists.
    pub fn tree(&self, tree: TreeId) -> Option<&Arc<TreeVersion>> {
        self.trees.get(&tree)
    }

    /// The trees whose changes are kept.
    pub fn change_logs(&self) -> impl Iterator<Item = (TreeId, ChangeLog)> {
        self.trees.iter().filter_map(|(tree, version)| Some((*tree, version.change_log?)))
    }

    /// The same state of a store that keeps no changes, as copies are.
    pub(crate) fn without_change_logs(&self) -> Self {
        let mut state = self.clone();
        for (tree, _) in self.change_logs() {
            if let Some(version) = state.trees.get_mut(&tree) {
                Arc::make_mut(version).change_log = None;
            }
        }
        state
    }

    /// Numbers of all SSTables of all trees.
    pub fn files(&self) -> BTreeSet<FileNumber> {
        let runs = self.trees.values().flat_map(|tree| tree.runs());
        runs.flat_map(|run| run.ssts.iter().map(|sst| sst.number)).collect()
    }

    /// The state after `edits`, in order. Every tree they touch is checked.
    pub fn apply(&self, edits: &[Edit]) -> Result<Self, Refusal> {
        let mut state = self.clone();
        for tree in state.replay(edits)? {
            if let Some(version) = state.trees.get(&tree) {
                invariants::tree(version).map_err(|error| broken(tree, &error))?;
            }
        }
        Ok(state)
    }

    /// Applies `edits` in place and tells which trees they touch. Invariants are not checked: who
    /// replays many edits checks once, at the end. After an error the state is of no use.
    pub(super) fn replay(&mut self, edits: &[Edit]) -> Result<BTreeSet<TreeId>, Refusal> {
        let mut touched = BTreeSet::new();
        for edit in edits {
            self.apply_one(edit, &mut touched)?;
        }
        Ok(touched)
    }

    /// Checks everything, also what no single tree can tell.
    pub fn check(&self) -> Result<(), Refusal> {
        for (tree, version) in self.trees.iter() {
            invariants::tree(version).map_err(|error| broken(*tree, &error))?;
        }
        invariants::files_are_listed_once(self).map_err(Refusal::Broken)
    }

    /// Edits that build this state from nothing.
    pub fn to_edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        // Before flushed positions, whose meaning it tells.
        edits.extend(self.member.map(Edit::Member));
        edits.extend(self.used.keys().map(|tree| Edit::UsedTree { tree: *tree }));
        for (tree, version) in self.trees.iter() {
            let tree = *tree;
            edits.push(Edit::CreateTree { tree, options: version.options.clone() });
            for (level, runs) in version.levels.iter().enumerate() {
                for run in runs {
                    edits.extend(run.ssts.iter().map(|meta| Edit::AddSst {
                        tree,
                        level,
                        run: run.id,
                        meta: SstMeta::clone(meta),
                    }));
                }
            }
            edits.push(Edit::Flushed { tree, position: version.flushed });
            let log = version.change_log;
            edits.extend(log.map(|_| Edit::KeepChanges { tree, log }));
        }
        edits.push(Edit::NextFile(self.next_file));
        edits.push(Edit::LastSequence(self.last_sequence));
        if self.log_from > Self::default().log_from {
            edits.push(Edit::LogFrom(self.log_from));
        }
        edits.extend(self.log_closed.map(Edit::LogClosed));
        edits.extend(self.store.map(Edit::Store));
        if self.commit_time > 0 {
            edits.push(Edit::CommitTime(self.commit_time));
        }
        if self.clock > 0 {
            edits.push(Edit::Clock(self.clock));
        }
        edits.extend(self.owner.map(Edit::Owner));
        edits
    }

    fn apply_one(&mut self, edit: &Edit, touched: &mut BTreeSet<TreeId>) -> Result<(), Refusal> {
        match edit {
            Edit::CreateTree { tree, options } => self.create(*tree, options)?,
            Edit::DropTree { tree } => {
                self.trees.remove(tree).ok_or(Refusal::UnknownTree(*tree))?;
                self.used.insert(*tree, ());
            }
            Edit::UsedTree { tree } => {
                let known = self.used.insert(*tree, ()).is_some();
                if known || self.trees.contains_key(tree) {
                    return Err(Refusal::UsedTree(*tree));
                }
            }
            Edit::AddSst { tree, level, run, meta } => {
                let next = meta.number.0.checked_add(1).map(FileNumber);
                let next = next.ok_or_else(|| Refusal::Broken("file number too large".into()))?;
                let version = self.edit_tree(*tree)?;
                add(version, *level, *run, meta).map_err(|error| broken(*tree, &error))?;
                self.next_file = self.next_file.max(next);
                self.last_sequence = self.last_sequence.max(meta.sequence_max);
            }
            Edit::RemoveSst { tree, level, run, number } => {
                let version = self.edit_tree(*tree)?;
                remove(version, *level, *run, *number).map_err(|error| broken(*tree, &error))?;
            }
            Edit::Flushed { tree, position } => {
                let version = self.edit_tree(*tree)?;
                advance(version, *position).map_err(|error| broken(*tree, &error))?;
                // Positions of a node's trees are indexes of a group's log, and no numbers of its own.
                if self.member.is_none() {
                    self.last_sequence = self.last_sequence.max(SequenceNumber(position.0));
                }
            }
            Edit::KeepChanges { tree, log } => self.edit_tree(*tree)?.change_log = *log,
            Edit::NextFile(number) => self.next_file = self.next_file.max(*number),
            Edit::LastSequence(sequence) => {
                self.last_sequence = self.last_sequence.max(*sequence);
            }
            Edit::LogFrom(segment) if *segment < self.log_from => {
                let text = format!("the log goes back to segment {}", segment.0);
                return Err(Refusal::Broken(text));
            }
            Edit::LogFrom(segment) => self.log_from = *segment,
            Edit::LogClosed(closed) => self.log_closed = Some(*closed),
            Edit::CommitTime(micros) => self.commit_time = self.commit_time.max(*micros),
            Edit::Clock(micros) => self.clock = self.clock.max(*micros),
            Edit::Owner(owner) => self.owner = Some(*owner),
            Edit::Member(member) => {
                let is_new =
                    self.trees.keys().next().is_none() && self.used.keys().next().is_none();
                match self.member {
                    Some(before) if before == *member => {}
                    None if is_new => self.member = Some(*member),
                    _ => return Err(Refusal::Broken(format!("the store cannot become {member}"))),
                }
            }
            Edit::Store(store) => {
                let before = *self.store.get_or_insert(*store);
                if before != *store {
                    let text = format!("the store has the id {before}, not {store}");
                    return Err(Refusal::Broken(text));
                }
            }
        }
        touched.extend(edit.tree());
        Ok(())
    }

    fn create(&mut self, tree: TreeId, options: &TreeOptions) -> Result<(), Refusal> {
        if self.used.contains_key(&tree) || self.trees.contains_key(&tree) {
            return Err(Refusal::UsedTree(tree));
        }
        self.trees.insert(tree, Arc::new(TreeVersion::empty(options.clone())));
        Ok(())
    }

    fn edit_tree(&mut self, tree: TreeId) -> Result<&mut TreeVersion, Refusal> {
        let version = self.trees.get_mut(&tree).ok_or(Refusal::UnknownTree(tree))?;
        Ok(Arc::make_mut(version))
    }
}

fn broken(tree: TreeId, what: &str) -> Refusal {
    Refusal::Broken(format!("tree {}: {what}", tree.0))
}

impl Edit {
    /// The tree that the edit is about, if it is about one.
    pub fn tree(&self) -> Option<TreeId> {
        match self {
            Self::CreateTree { tree, .. }
            | Self::DropTree { tree }
            | Self::UsedTree { tree }
            | Self::AddSst { tree, .. }
            | Self::RemoveSst { tree, .. }
            | Self::Flushed { tree, .. }
            | Self::KeepChanges { tree, .. } => Some(*tree),
            Self::NextFile(_)
            | Self::LastSequence(_)
            | Self::LogFrom(_)
            | Self::LogClosed(_)
            | Self::Store(_)
            | Self::CommitTime(_)
            | Self::Clock(_)
            | Self::Owner(_)
            | Self::Member(_) => None,
        }
    }
}

fn add(version: &mut TreeVersion, level: usize, id: RunId, meta: &SstMeta) -> Result<(), String> {
    let runs = version.levels.get_mut(level).ok_or_else(|| format!("no level {level}"))?;
    let at = runs.partition_point(|run| run.id > id);
    if runs.get(at).is_none_or(|run| run.id != id) {
        runs.insert(at, Run { id, ssts: Vec::new() });
    }
    let ssts = &mut runs[at].ssts;
    let at = ssts.partition_point(|sst| sst.first_row <= meta.first_row);
    ssts.insert(at, Arc::new(meta.clone()));
    Ok(())
}

fn remove(
    version: &mut TreeVersion,
    level: usize,
    id: RunId,
    number: FileNumber,
) -> Result<(), String> {
    let missing = || format!("no SSTable {} in run {} of level {level}", number.0, id.0);
    let runs = version.levels.get_mut(level).ok_or_else(missing)?;
    let run = runs.iter().position(|run| run.id == id).ok_or_else(missing)?;
    let ssts = &mut runs[run].ssts;
    let sst = ssts.iter().position(|sst| sst.number == number).ok_or_else(missing)?;
    ssts.remove(sst);
    if ssts.is_empty() {
        runs.remove(run);
    }
    Ok(())
}

fn advance(version: &mut TreeVersion, position: LogPosition) -> Result<(), String> {
    if position < version.flushed {
        return Err(format!("flushed goes back from {} to {}", version.flushed.0, position.0));
    }
    version.flushed = position;
    Ok(())
}
