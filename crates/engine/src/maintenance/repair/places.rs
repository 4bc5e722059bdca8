//! Which SSTables count, and where: from the manifest, or where that is lost, from the files.
//!
//! Without a manifest a file counts if its tree is known and was not dropped, and it was not
//! replaced. A file tells its tree and what it was merged from ([`crate::sstable::Origin`]):
//! 1. Inputs are removed only after the merge was installed. So if one of them is gone, the outputs
//!    count and the inputs that linger do not.
//! 2. If all inputs are there, the merge may not have been finished: the inputs count, they hold all
//!    that the outputs do. Unless an output was merged again: only installed files are.
//!
//! Readable edits of a damaged manifest know more: of a file that one of them adds it is certain
//! that its merge was finished. Where they name a file and another, which they do not name, says
//! that it replaced it, either the manifest lost its end or a file is missing whose merge was not
//! finished; its rows are in doubt.
//!
//! A file of a copied tree names the tree that it was copied from. The note of the copy
//! ([`crate::files::copy_note`]) tells whose it is, and that its merge was finished: only files of the
//! manifest are copied. So in the other tree the outputs of that merge count as well, and inputs of it
//! that linger do not.

use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::files::{FileIdentity, FileNumber, copy_note};
use crate::log::LogPosition;
use crate::manifest::{Edit, Owner, SstMeta, State, StoreId};
use crate::options::TreeOptions;
use crate::sstable::Properties;
use crate::sstable::salvage::SstSalvage;
use base::env::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is known of the directory without its manifest's word on the whole.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) trees: BTreeMap<TreeId, TreeOptions>,
    /// Trees that were dropped.
    pub(super) dropped: BTreeSet<TreeId>,
    /// Files that counted when the last readable edit about them was made.
    pub(super) added: BTreeMap<FileNumber, (TreeId, SstMeta)>,
    /// Files that did not.
    pub(super) removed: BTreeSet<FileNumber>,
    pub(super) flushed: BTreeMap<TreeId, LogPosition>,
    pub(super) last_sequence: SequenceNumber,
    pub(super) next_file: u64,
    pub(super) store: Option<StoreId>,
    pub(super) commit_time: u64,
    pub(super) clock: u64,
    pub(super) owner: Option<Owner>,
}

impl Hints {
    /// What `edits` say, each by itself.
    pub(super) fn of(edits: &[Edit]) -> Self {
        let mut hints = Self::default();
        for edit in edits {
            hints.take(edit);
        }
        hints
    }

    fn take(&mut self, edit: &Edit) {
        match edit {
            Edit::CreateTree { tree, options } => {
                self.trees.insert(*tree, options.clone());
            }
            Edit::DropTree { tree } | Edit::UsedTree { tree } => {
                self.trees.remove(tree);
                self.dropped.insert(*tree);
            }
            Edit::AddSst { tree, meta, .. } => {
                self.removed.remove(&meta.number);
                self.added.insert(meta.number, (*tree, meta.clone()));
                self.last_sequence = self.last_sequence.max(meta.sequence_max);
            }
            Edit::RemoveSst { number, .. } => {
                self.added.remove(number);
                self.removed.insert(*number);
            }
            Edit::Flushed { tree, position } => {
                let flushed = self.flushed.entry(*tree).or_default();
                *flushed = (*flushed).max(*position);
            }
            Edit::LastSequence(last) => self.last_sequence = self.last_sequence.max(*last),
            Edit::NextFile(next) => self.next_file = self.next_file.max(next.0),
            Edit::Store(store) => self.store = Some(*store),
            Edit::CommitTime(micros) => self.commit_time = self.commit_time.max(*micros),
            Edit::Clock(micros) => self.clock = self.clock.max(*micros),
            Edit::Owner(owner) => self.owner = Some(*owner),
            // A repaired store keeps no changes: their segments may be what was damaged.
            // It is of no cluster either: what the log of its groups held beyond its files is not there.
            Edit::LogFrom(_) | Edit::LogClosed(_) | Edit::KeepChanges { .. } | Edit::Member(_) => {}
        }
    }
}

/// A file found in the directory.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// What it says of itself, if that can be read.
    pub(super) properties: Option<Properties>,
}

/// The SSTables of the directory by number.
pub(super) type Files = BTreeMap<FileNumber, Found>;

/// Reads what each of `ssts` says of itself.
pub(super) fn find(fs: &dyn FileSystem, ssts: Vec<(FileNumber, PathBuf)>) -> Result<Files> {
    let mut files = Files::new();
    for (number, path) in ssts {
        let properties = match fs.open_read(&path) {
            Ok(file) => SstSalvage::open(file, &path, number)?.properties().cloned(),
            Err(_) => None,
        };
        files.insert(number, Found { path, properties });
    }
    Ok(files)
}

/// What `files` say of a state that does not name all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// There are none that it does not name.
    None,
    /// There are, and there may be: what a crash left behind.
    Leftovers,
    /// They know of changes that the state does not: the manifest lost its end.
    Newer,
}

/// The trees of files that notes of copies name.
pub(super) type Copies = BTreeMap<FileNumber, TreeId>;

/// Reads the notes of copies in `dir`; tells of damaged ones in `notes`.
pub(super) fn copies(fs: &dyn FileSystem, dir: &Path, notes: &mut Vec<String>) -> Result<Copies> {
    let mut copies = Copies::new();
    for tree in copy_note::trees(fs, dir)? {
        match copy_note::read(fs, dir, tree) {
            Ok(note) => {
                let numbers = note.into_iter().flat_map(|note| note.numbers);
                copies.extend(numbers.map(|number| (number, tree)));
            }
            Err(error @ (Error::Corruption(_) | Error::Io { .. })) => notes.push(format!(
                "{error}; if the MANIFEST is lost too, files of tree {} count to the tree that it was \
                 copied from",
                tree.0
            )),
            Err(error) => return Err(error),
        }
    }
    Ok(copies)
}

/// The files of a copied tree that a state never had: its end may be lost, or the copy did not come to
/// its own. Either way they belong to no tree that it has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnheardCopy {
    pub(super) files: Vec<FileNumber>,
    /// Files that its note names and that are not there. A copy that came to its end had all of them.
    pub(super) missing: usize,
}

/// Returns the copies that `state` never had and of which there are files.
pub(super) fn unheard_copies(
    files: &Files,
    state: &State,
    copies: &Copies,
) -> BTreeMap<TreeId, UnheardCopy> {
    let listed = state.files();
    let mut trees = BTreeMap::<TreeId, UnheardCopy>::new();
    for (number, tree) in copies.iter().filter(|(_, tree)| !is_heard_of(**tree, state)) {
        let copy = trees.entry(*tree).or_default();
        match files.get(number) {
            Some(_) if listed.contains(number) => {}
            Some(found) if found.copied_to(*number, copies).is_some() => copy.files.push(*number),
            _ => copy.missing += 1,
        }
    }
    trees.retain(|_, copy| !copy.files.is_empty());
    trees
}

/// Returns the hints of `state` for the sources of `copied`, as hints for the copies: the second
/// names of a file have one identity.
pub(super) fn hints_of_copy(
    tree: TreeId,
    copied: &[FileNumber],
    files: &Files,
    state: &State,
) -> Hints {
    let identity = |number: &FileNumber| files.get(number)?.properties.as_ref()?.identity;
    let ssts = state.trees.values().flat_map(|version| version.runs()).flat_map(|run| &run.ssts);
    let listed: BTreeMap<FileIdentity, &SstMeta> =
        ssts.filter_map(|meta| Some((identity(&meta.number)?, &**meta))).collect();
    let told = copied.iter().filter_map(|number| {
        let meta = listed.get(&identity(number)?)?;
        Some((*number, (tree, SstMeta { number: *number, ..(*meta).clone() })))
    });
    Hints { added: told.collect(), ..Hints::default() }
}

fn is_heard_of(tree: TreeId, state: &State) -> bool {
    state.trees.contains_key(&tree) || state.used.contains_key(&tree)
}

/// Looks at those of `files` that `state` does not name.
pub(super) fn unlisted(files: &Files, state: &State) -> Unlisted {
    let listed = state.files();
    let mut unlisted = files.iter().filter(|(number, _)| !listed.contains(number)).peekable();
    if unlisted.peek().is_none() {
        return Unlisted::None;
    }
    let replaces = |input: &FileNumber| listed.contains(input) && !files.contains_key(input);
    let newer = unlisted.any(|(_, found)| {
        found.tree().is_some_and(|tree| !is_heard_of(tree, state))
            || found.inputs().iter().any(replaces)
    });
    if newer { Unlisted::Newer } else { Unlisted::Leftovers }
}

impl Found {
    fn inputs(&self) -> &[FileNumber] {
        let origin = self.properties.as_ref().and_then(|own| own.origin.as_ref());
        origin.map_or(&[], |origin| &origin.inputs)
    }

    /// The tree that it was written for.
    pub(super) fn tree(&self) -> Option<TreeId> {
        Some(self.properties.as_ref()?.origin.as_ref()?.tree)
    }

    /// The copied tree it belongs to, as `copies` have it, if the file does not contradict them.
    fn copied_to(&self, number: FileNumber, copies: &Copies) -> Option<TreeId> {
        let tree = copies.get(&number).copied()?;
        self.tree().is_none_or(|own| own <= tree).then_some(tree)
    }
}

/// The files that count, by tree; and those whose tree nobody knows.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) trees: BTreeMap<TreeId, Vec<FileNumber>>,
    pub(super) nameless: Vec<FileNumber>,
    /// Named by a readable edit, not there, and not replaced by any file that is.
    pub(super) missing: Vec<FileNumber>,
    /// Named by a readable edit, and replaced by a file that none names.
    pub(super) doubtful: Vec<FileNumber>,
}

/// Chooses among `files` without a manifest.
pub(super) fn choose(files: &Files, hints: &Hints, copies: &Copies) -> Chosen {
    let mut chosen = Chosen::default();
    let Merges { replaced, unfinished, doubtful } = merges(files, hints, copies);
    chosen.doubtful = doubtful.into_iter().collect();
    for (number, found) in files {
        let known = hints.added.get(number).map(|(tree, _)| *tree);
        let passed_over = hints.removed.contains(number)
            || replaced.contains(number)
            || unfinished.contains(number) && known.is_none();
        match known.or(found.copied_to(*number, copies)).or(found.tree()) {
            _ if passed_over => {}
            Some(tree) if hints.dropped.contains(&tree) => {}
            Some(tree) => chosen.trees.entry(tree).or_default().push(*number),
            None => chosen.nameless.push(*number),
        }
    }
    let missing = hints.added.iter().filter(|(number, (tree, _))| {
        !files.contains_key(number) && !replaced.contains(number) && !hints.dropped.contains(tree)
    });
    chosen.missing = missing.map(|(number, _)| *number).collect();
    chosen
}

/// Effects on other files of the merges that files came from.
#[derive(Debug, Default)]
struct Merges {
    /// Inputs of merges that were finished.
    replaced: BTreeSet<FileNumber>,
    /// Outputs of merges that may not have been.
    unfinished: BTreeSet<FileNumber>,
    /// Inputs that a readable edit names, of merges of which none tells.
    doubtful: BTreeSet<FileNumber>,
}

fn merges(files: &Files, hints: &Hints, copies: &Copies) -> Merges {
    let gone = |input: &FileNumber| !files.contains_key(input) || hints.removed.contains(input);
    let merged = files.iter().filter(|(_, found)| !found.inputs().is_empty());
    let (copied, own): (Vec<_>, Vec<_>) =
        merged.partition(|(number, found)| found.copied_to(**number, copies).is_some());
    let told = own.iter().filter(|(number, _)| hints.added.contains_key(number));
    let told: BTreeSet<&[FileNumber]> = told.map(|(_, found)| found.inputs()).collect();
    // Only files that were installed are copied, or merged again.
    let used: BTreeSet<&FileNumber> = files.values().flat_map(Found::inputs).collect();
    let merged_again = own.iter().filter(|(number, _)| used.contains(number));
    let finished: BTreeSet<&[FileNumber]> =
        copied.iter().chain(merged_again).map(|(_, found)| found.inputs()).collect();
    let mut merges = Merges::default();
    let mut replace = |inputs: &[FileNumber], is_told: bool| {
        merges.replaced.extend(inputs);
        let named = inputs.iter().filter(|input| !is_told && hints.added.contains_key(input));
        merges.doubtful.extend(named);
    };
    for inputs in &finished {
        replace(inputs, told.contains(inputs));
    }
    for (number, found) in own {
        let (inputs, is_told) = (found.inputs(), hints.added.contains_key(number));
        if is_told || finished.contains(inputs) || inputs.iter().any(gone) {
            replace(inputs, is_told || finished.contains(inputs));
        } else {
            merges.unfinished.insert(*number);
        }
    }
    merges
}

/// Options of a tree of which only `files` are left.
pub(super) fn options_of(files: &[FileNumber], all: &Files) -> TreeOptions {
    let own = files.iter().rev().find_map(|number| all.get(number)?.properties.as_ref());
    let Some(own) = own else { return TreeOptions::default() };
    let options = TreeOptions {
        filter_bits_per_key: own.filter_bits_per_key,
        row_prefix_bytes: own.row_prefix_bytes,
        ..TreeOptions::default()
    };
    if options.validate().is_ok() { options } else { TreeOptions::default() }
}

/// Up to where a tree was flushed, as its files say.
pub(super) fn flushed_of(files: &[FileNumber], all: &Files) -> LogPosition {
    let origins = files.iter().filter_map(|number| all.get(number)?.properties.as_ref());
    let positions =
        origins.filter_map(|own| own.origin.as_ref()).map(|origin| LogPosition(origin.position));
    positions.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Timestamp;
    use crate::manifest::RunId;
    use crate::options::FilterGranularity;
    use crate::sstable::Origin;

    const TREE: TreeId = TreeId(5);
    const COPY: TreeId = TreeId(9);
    type Trees = BTreeMap<TreeId, UnheardCopy>;

    fn found(inputs: &[u64]) -> Found {
        let inputs = inputs.iter().copied().map(FileNumber).collect();
        let origin = Origin { tree: TREE, position: 1, inputs };
        let properties = Properties {
            first_row: b"a".to_vec(),
            last_row: b"a".to_vec(),
            rows: 1,
            entries: 1,
            tombstones: 0,
            range_tombstones: 0,
            sequence_min: SequenceNumber(1),
            sequence_max: SequenceNumber(1),
            timestamp_min: Timestamp(1),
            timestamp_max: Timestamp(1),
            data_blocks: 1,
            large_values: 0,
            raw_bytes: 1,
            large_value_bytes: 4096,
            filter_granularity: FilterGranularity::Row,
            filter_bits_per_key: 0,
            row_prefix_bytes: 0,
            origin: Some(origin),
            ages: None,
            deferred: Default::default(),
            identity: None,
        };
        Found { path: PathBuf::new(), properties: Some(properties) }
    }

    fn added(number: u64) -> Edit {
        let meta = SstMeta {
            number: FileNumber(number),
            bytes: 1,
            first_row: b"a".to_vec(),
            last_row: b"a".to_vec(),
            entries: 1,
            tombstones: 0,
            range_tombstones: 0,
            dropped: None,
            sequence_min: SequenceNumber(1),
            sequence_max: SequenceNumber(1),
            timestamp_min: Timestamp(1),
            timestamp_max: Timestamp(1),
        };
        Edit::AddSst { tree: TREE, level: 0, run: RunId(number), meta }
    }

    /// The files that count, those that are missing and those in doubt.
    type Choice = (Vec<u64>, Vec<u64>, Vec<u64>);

    fn choice(files: &[(u64, &[u64])], edits: &[Edit]) -> Choice {
        let chosen = chosen(files, edits, &[]);
        let numbers = |files: &[FileNumber]| files.iter().map(|number| number.0).collect();
        let counted = chosen.trees.get(&TREE).map(|files| numbers(files)).unwrap_or_default();
        (counted, numbers(&chosen.missing), numbers(&chosen.doubtful))
    }

    /// Returns the files of [`TREE`] that count, if the files in `copied` are the copy's.
    fn chosen(files: &[(u64, &[u64])], edits: &[Edit], copied: &[u64]) -> Chosen {
        let files = files.iter().map(|(number, inputs)| (FileNumber(*number), found(inputs)));
        let copies = copied.iter().map(|number| (FileNumber(*number), COPY)).collect();
        choose(&files.collect(), &Hints::of(edits), &copies)
    }

    #[test]
    fn files_of_a_copy_are_its_own_and_prove_their_merges() {
        type Case<'a> = (&'a str, &'a [(u64, &'a [u64])], &'a [u64], &'a [u64], &'a [u64]);
        let cases: [Case<'_>; 7] = [
            (
                "a merge of a merge was copied, and all inputs linger",
                &[(1, &[]), (2, &[]), (3, &[1, 2]), (4, &[]), (9, &[3, 4]), (15, &[3, 4])],
                &[15],
                &[9],
                &[15],
            ),
            ("the source still has its files", &[(1, &[]), (5, &[])], &[5], &[1], &[5]),
            ("the source was merged", &[(2, &[1]), (5, &[])], &[5], &[2], &[5]),
            (
                "a merged file was copied, and its inputs linger",
                &[(1, &[]), (2, &[]), (3, &[1, 2]), (5, &[1, 2])],
                &[5],
                &[3],
                &[5],
            ),
            (
                "a merged file was copied and merged again, and one of its inputs lingers",
                &[(1, &[]), (5, &[1, 2]), (9, &[3, 4])],
                &[5],
                &[9],
                &[5],
            ),
            ("the copy was merged", &[(1, &[]), (6, &[]), (7, &[5, 6])], &[5, 6], &[1, 7], &[]),
            ("a note whose files never came to be", &[(1, &[])], &[5, 6], &[1], &[]),
        ];
        for (case, files, copied, own, of_copy) in cases {
            let chosen = chosen(files, &[], copied);
            let of = |tree| chosen.trees.get(&tree).map_or(&[][..], Vec::as_slice);
            let numbers =
                |files: &[FileNumber]| files.iter().map(|file| file.0).collect::<Vec<_>>();
            assert_eq!(
                (numbers(of(TREE)), numbers(of(COPY))),
                (own.into(), of_copy.into()),
                "{case}"
            );
        }
        // Readable edits know better, and so does a file of a younger tree.
        let files: &[(u64, &[u64])] = &[(5, &[])];
        assert!(chosen(files, &[added(5)], &[5]).trees.contains_key(&TREE));
        let older = Copies::from([(FileNumber(5), TreeId(TREE.0 - 1))]);
        let chosen = choose(&[(FileNumber(5), found(&[]))].into(), &Hints::default(), &older);
        assert!(chosen.trees.contains_key(&TREE));
    }

    #[test]
    fn a_copied_merge_that_no_edit_tells_leaves_its_inputs_in_doubt() {
        let files: &[(u64, &[u64])] = &[(1, &[]), (2, &[]), (5, &[1, 2])];
        let numbers = [1, 2].map(FileNumber);
        let untold = chosen(files, &[added(1), added(2)], &[5]);
        assert_eq!((untold.trees.get(&TREE), &untold.doubtful[..]), (None, &numbers[..]));
        let files: &[(u64, &[u64])] = &[(1, &[]), (2, &[]), (3, &[1, 2]), (5, &[1, 2])];
        let told = chosen(files, &[added(3)], &[5]);
        assert_eq!(told.trees.get(&TREE), Some(&vec![FileNumber(3)]));
        assert_eq!(told.doubtful, []);
    }

    #[test]
    fn copies_that_the_manifest_never_had_are_kept_apart() {
        let create = |tree| Edit::CreateTree { tree, options: TreeOptions::default() };
        let files = Files::from([1, 5, 6].map(|number| (FileNumber(number), found(&[]))));
        let copies = Copies::from([5, 6, 7].map(|number| (FileNumber(number), COPY)));
        let state = State::default().apply(&[create(TREE)]).unwrap();
        let apart = |state: &State| unheard_copies(&files, state, &copies);
        let copy = |files: &[u64], missing| {
            let files = files.iter().copied().map(FileNumber).collect();
            Trees::from([(COPY, UnheardCopy { files, missing })])
        };
        assert_eq!(apart(&state), copy(&[5, 6], 1));
        let named = state.apply(&[added(5)]).unwrap();
        assert_eq!(apart(&named), copy(&[6], 1));
        let whole = Copies::from([5, 6].map(|number| (FileNumber(number), COPY)));
        assert_eq!(unheard_copies(&files, &state, &whole), copy(&[5, 6], 0));
        let none = Copies::from([(FileNumber(7), COPY)]);
        assert_eq!(unheard_copies(&files, &state, &none), [].into());
        assert_eq!(apart(&state.apply(&[create(COPY)]).unwrap()), [].into());
        let used = state.apply(&[Edit::UsedTree { tree: COPY }]).unwrap();
        assert_eq!(apart(&used), [].into());
    }

    #[test]
    fn files_that_were_replaced_do_not_count() {
        let gone = Edit::RemoveSst { tree: TREE, level: 0, run: RunId(1), number: FileNumber(1) };
        type Case<'a> = (&'a str, &'a [(u64, &'a [u64])], Vec<Edit>, Choice);
        let cases: [Case<'_>; 9] = [
            (
                "a merge of a merge, of which an input is gone and older ones linger",
                &[(1, &[]), (2, &[]), (3, &[1, 2]), (9, &[3, 4])],
                vec![],
                (vec![9], vec![], vec![]),
            ),
            ("flushes", &[(1, &[]), (2, &[])], vec![], (vec![1, 2], vec![], vec![])),
            (
                "a merge that may be unfinished",
                &[(1, &[]), (2, &[]), (3, &[1, 2])],
                vec![],
                (vec![1, 2], vec![], vec![]),
            ),
            (
                "a merge that was installed, with an input that lingers",
                &[(2, &[]), (3, &[1, 2])],
                vec![],
                (vec![3], vec![], vec![]),
            ),
            (
                "a merge that an edit installs",
                &[(1, &[]), (2, &[]), (3, &[1, 2])],
                vec![added(3)],
                (vec![3], vec![], vec![]),
            ),
            (
                "a merge of a merge",
                &[(3, &[1, 2]), (4, &[]), (5, &[3, 4])],
                vec![],
                (vec![3, 4], vec![], vec![]),
            ),
            (
                "an edit removes a file that lingers",
                &[(1, &[]), (2, &[])],
                vec![added(1), gone],
                (vec![2], vec![], vec![]),
            ),
            ("an edit adds a file that is missing", &[], vec![added(7)], (vec![], vec![7], vec![])),
            (
                "a merge that no edit installs, of files that one adds",
                &[(2, &[]), (3, &[1, 2])],
                vec![added(1), added(2)],
                (vec![3], vec![], vec![1, 2]),
            ),
        ];
        for (case, files, edits, expected) in cases {
            assert_eq!(choice(files, &edits), expected, "{case}");
        }
    }

    #[test]
    fn files_of_a_dropped_tree_do_not_count() {
        let (files, dropped) = ([(1, &[][..])], [Edit::UsedTree { tree: TREE }]);
        assert_eq!(choice(&files, &dropped), (vec![], vec![], vec![]));
    }
}
