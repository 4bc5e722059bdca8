//! Notes of copies: which SSTables belong to a tree that was copied from another
//! (docs/format/copy_note.md).
//!
//! Nothing but a repair that lost the manifest depends on them.
//!
//! 1. A note, and its name, are on disk before any of its files exists under its number, and go after
//!    the removal of the last of them is on disk. So a file of a copy is never without its note.
//! 2. Notes are replaced as a whole, by a rename.
//! 3. A note is not changed while its tree lives: numbers whose files were merged stay in it, and no
//!    other file gets them.

use super::FileNumber;
use crate::cell::TreeId;
use crate::error::{Error, Result};
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};
use base::env::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"STELCOPY";
const VERSION: u32 = 1;
/// SSTables of a tree that can be copied, at most.
const NUMBERS_MAX: usize = 1 << 24;
/// No note names a number as far as this beyond the next one of the manifest that is on disk: each
/// install tells it, and between two of them a copy, and the jobs beside it, take fewer.
pub(crate) const NUMBERS_AHEAD_MAX: u64 = 2 * NUMBERS_MAX as u64;
/// Length of a note without numbers.
const FRAME_BYTES: usize = MAGIC.len() + 4 + 4 + 8 + 4;
/// Length of the longest note.
const BYTES_MAX: u64 = (FRAME_BYTES + NUMBERS_MAX * size_of::<u64>()) as u64;

/// The numbers of the SSTables of a copied tree, as a note has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyNote {
    pub(crate) tree: TreeId,
    pub(crate) numbers: BTreeSet<FileNumber>,
}

/// Why bytes are no note.
#[derive(Debug, PartialEq, Eq)]
enum NoteError {
    Decode(DecodeError),
    /// A newer version of the format.
    Newer(u32),
    Damaged(&'static str),
}

impl From<DecodeError> for NoteError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "note of a copy: {error}"),
            Self::Newer(version) => {
                write!(f, "note of a copy: version {version}, this Stele reads up to {VERSION}")
            }
            Self::Damaged(what) => write!(f, "note of a copy: {what}"),
        }
    }
}

/// Path of the note of `tree` in `dir`.
pub(crate) fn path(dir: &Path, tree: TreeId) -> PathBuf {
    dir.join(format!("{:010}.copy", tree.0))
}

/// Path of the note of `tree` in `dir` while it is written.
fn path_new(dir: &Path, tree: TreeId) -> PathBuf {
    dir.join(format!("{:010}.copy.new", tree.0))
}

/// The tree whose note has this name; `None` if it is no such name.
pub(crate) fn tree_of(name: &Path) -> Option<TreeId> {
    let digits = name.to_str()?.strip_suffix(".copy")?;
    let tree = TreeId(digits.parse().ok()?);
    (path(Path::new(""), tree) == name).then_some(tree)
}

/// Returns whether `name` is that of a note that is being written.
fn is_unfinished(name: &Path) -> bool {
    name.extension().is_some_and(|end| end == "new")
        && name.file_stem().is_some_and(|stem| tree_of(Path::new(stem)).is_some())
}

impl CopyNote {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_BYTES + self.numbers.len() * size_of::<u64>());
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(self.tree.0);
        out.put_u64(self.numbers.len() as u64);
        self.numbers.iter().for_each(|number| out.put_u64(number.0));
        let sum = crc32c(&[&out]);
        out.put_u32(sum);
        out
    }

    /// The note in `bytes`. Allocates in proportion to them.
    fn decode(bytes: &[u8]) -> Result<Self, NoteError> {
        let Some((checked, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(DecodeError::Truncated("checksum").into());
        };
        let mut reader = ByteReader::new(checked);
        if reader.bytes(MAGIC.len(), "magic")? != MAGIC {
            return Err(NoteError::Damaged("wrong magic"));
        }
        if crc32c(&[checked]) != u32::from_le_bytes(*sum) {
            return Err(NoteError::Damaged("wrong checksum"));
        }
        let version = reader.u32("version")?;
        if version > VERSION {
            return Err(NoteError::Newer(version));
        }
        if version == 0 {
            return Err(NoteError::Damaged("version 0"));
        }
        let tree = TreeId(reader.u32("tree")?);
        let count = reader.u64("count of numbers")?;
        if count > NUMBERS_MAX as u64 || count * 8 != reader.rest().len() as u64 {
            return Err(NoteError::Damaged("its length does not match its count of numbers"));
        }
        let (mut numbers, mut last) = (BTreeSet::new(), 0);
        for _ in 0..count {
            let number = reader.u64("number")?;
            if number <= last || number >= FileNumber::END {
                return Err(NoteError::Damaged("a number that does not ascend or is out of range"));
            }
            numbers.insert(FileNumber(number));
            last = number;
        }
        reader.finish()?;
        Ok(Self { tree, numbers })
    }

    /// Writes the note to `dir`. Its content is on disk when this returns, its name is not.
    ///
    /// `InvalidArgument` if it has more numbers than a note may have.
    pub(crate) fn write(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        if self.numbers.len() > NUMBERS_MAX {
            let text = format!("a tree of more than {NUMBERS_MAX} SSTables cannot be copied");
            return Err(Error::InvalidArgument(text));
        }
        let new = path_new(dir, self.tree);
        let mut file = fs.create(&new).map_err(|error| Error::io("create", &new, &error))?;
        let written = file.write_all_at(&self.encode(), 0);
        written.map_err(|error| Error::io("write", &new, &error))?;
        file.sync().map_err(|error| Error::io("sync", &new, &error))?;
        drop(file);
        let path = path(dir, self.tree);
        fs.rename(&new, &path).map_err(|error| Error::io("rename", &path, &error))
    }
}

/// Reads the note of `tree` in `dir`; `None` if it has none.
///
/// `Corruption` if the note is damaged, `Unusable` if it is of a newer format.
pub(crate) fn read(fs: &dyn FileSystem, dir: &Path, tree: TreeId) -> Result<Option<CopyNote>> {
    let path = path(dir, tree);
    let file = match fs.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", &path, &error)),
    };
    let len = file.size().map_err(|error| Error::io("read", &path, &error))?;
    if len > BYTES_MAX {
        return Err(Error::corruption(&path, BYTES_MAX, "note of a copy: it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| Error::io("read", &path, &error))?;
    let note = match CopyNote::decode(&bytes) {
        Ok(note) if note.tree == tree => note,
        Ok(_) => return Err(Error::corruption(&path, 12, "note of a copy: it is of another tree")),
        Err(error @ NoteError::Newer(_)) => {
            let what = format!("{}: {error}; use a newer Stele", path.display());
            return Err(Error::Unusable { dir: dir.to_owned(), what });
        }
        Err(error) => return Err(Error::corruption(&path, 0, error.to_string())),
    };
    Ok(Some(note))
}

/// The trees that have a note in `dir`, in order.
pub(crate) fn trees(fs: &dyn FileSystem, dir: &Path) -> Result<BTreeSet<TreeId>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    Ok(names.iter().filter_map(|name| tree_of(name)).collect())
}

/// Copies the notes that the trees `wanted` have in `dir` to the directory `into`. Their content is
/// on disk when this returns, their names are not. Returns the trees whose note does not read: it is
/// left out.
pub(crate) fn copy_notes(
    fs: &dyn FileSystem,
    dir: &Path,
    into: &Path,
    wanted: impl Fn(TreeId) -> bool,
) -> Result<BTreeSet<TreeId>> {
    let mut unread = BTreeSet::new();
    for tree in trees(fs, dir)?.into_iter().filter(|tree| wanted(*tree)) {
        match read(fs, dir, tree) {
            Ok(note) => note.map_or(Ok(()), |note| note.write(fs, into))?,
            Err(error @ (Error::Corruption(_) | Error::Io { .. })) => {
                tracing::warn!(%error, "note of a copy left out");
                unread.insert(tree);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(unread)
}

/// File numbers in notes of copies that did not come to their end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Numbers that files may have.
    pub(crate) numbers: BTreeSet<FileNumber>,
    /// There is a note that the disk does not read, and may read later.
    pub(crate) is_unread: bool,
}

/// The numbers in notes of trees that are not in `kept`: files of copies that did not come to their
/// end. A damaged note announces none.
pub(crate) fn announced(
    fs: &dyn FileSystem,
    dir: &Path,
    kept: impl Fn(TreeId) -> bool,
) -> Result<Announced> {
    let mut announced = Announced::default();
    for tree in trees(fs, dir)?.into_iter().filter(|tree| !kept(*tree)) {
        match read(fs, dir, tree) {
            Ok(note) => announced.numbers.extend(note.into_iter().flat_map(|note| note.numbers)),
            Err(Error::Corruption(_)) => {}
            Err(error @ Error::Io { .. }) => {
                tracing::warn!(%error, "note of a copy passed over");
                announced.is_unread = true;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(announced)
}

/// Removes the notes in `dir` whose tree is not in `kept`, and unfinished ones. Only at open, after
/// the files that no tree has: both removals are on disk when this returns. A note stays if it names
/// one of `left`, files that no tree has and that could not be removed, or if it may name one, or cannot
/// be removed itself.
pub(crate) fn remove_unknown(
    fs: &dyn FileSystem,
    dir: &Path,
    left: &BTreeSet<FileNumber>,
    kept: impl Fn(TreeId) -> bool,
) -> Result<()> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    // One that does not read may name any.
    let names_one = |tree: TreeId| {
        let note = read(fs, dir, tree);
        note.map_or(true, |note| note.is_some_and(|note| !note.numbers.is_disjoint(left)))
    };
    let goes = |tree: TreeId| !kept(tree) && (left.is_empty() || !names_one(tree));
    let unknown = |name: &&PathBuf| is_unfinished(name) || tree_of(name).is_some_and(goes);
    let unknown: Vec<PathBuf> = names.iter().filter(unknown).map(|name| dir.join(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let sync = || fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, &error));
    sync()?;
    for path in unknown {
        if let Err(error) = fs.remove_file(&path) {
            let path = path.display();
            tracing::warn!(%path, %error, "could not remove the note of a copy; the next open does");
        }
    }
    sync()
}

/// Collects SSTables that name another tree than the one they belong to, and writes what notes they
/// need.
#[derive(Debug, Default)]
pub(crate) struct NoteWriter {
    notes: BTreeMap<TreeId, BTreeSet<FileNumber>>,
}

impl NoteWriter {
    /// Adds a file of `tree`, if the tree that it names, `own`, is another.
    pub(crate) fn add(&mut self, tree: TreeId, number: FileNumber, own: Option<TreeId>) {
        if own.is_some_and(|own| own != tree) {
            self.notes.entry(tree).or_default().insert(number);
        }
    }

    /// Writes a note to `dir` for each tree that has one of the files added which are `kept`. Their
    /// content is on disk when this returns, their names are not.
    pub(crate) fn write(
        self,
        fs: &dyn FileSystem,
        dir: &Path,
        kept: impl Fn(FileNumber) -> bool,
    ) -> Result<()> {
        for (tree, mut numbers) in self.notes {
            numbers.retain(|number| kept(*number));
            if !numbers.is_empty() {
                CopyNote { tree, numbers }.write(fs, dir)?;
            }
        }
        Ok(())
    }
}

/// Body of the fuzz target: bytes that decode are the only ones that say what they say.
pub fn fuzz(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if choice & 1 == 1 {
        // A right checksum, so that what is behind it is reached.
        let sum = crc32c(&[&bytes]);
        bytes.put_u32(sum);
    }
    if let Ok(note) = CopyNote::decode(&bytes) {
        assert_eq!(note.encode(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::sim::{Call, Fault, FaultPoint, SimEnv};

    const DIR: &str = "/data";

    fn note(tree: u32, numbers: &[u64]) -> CopyNote {
        let numbers = numbers.iter().copied().map(FileNumber).collect();
        CopyNote { tree: TreeId(tree), numbers }
    }

    fn disk() -> SimEnv {
        let machine = SimEnv::new(1);
        machine.fs.create_dir_all(Path::new(DIR)).unwrap();
        machine
    }

    #[test]
    fn the_example_of_the_page_is_what_is_written() {
        let page = include_str!("../../../../docs/format/copy_note.md");
        let lines = page.lines().filter(|line| line.starts_with("00") && line.contains("  "));
        let bytes = lines.flat_map(|line| line.split(' ').skip(2));
        let bytes: Vec<u8> = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let example = note(77, &[5, 6]);
        assert_eq!(bytes, example.encode(), "{:02x?}", example.encode());
        assert_eq!(CopyNote::decode(&bytes), Ok(example));
    }

    #[test]
    fn damage_of_any_byte_is_seen() {
        for numbers in [&[][..], &[1], &[5, 6, FileNumber::END - 1]] {
            let bytes = note(7, numbers).encode();
            assert_eq!(CopyNote::decode(&bytes), Ok(note(7, numbers)));
            for at in 0..bytes.len() {
                assert!(CopyNote::decode(&bytes[..at]).is_err(), "cut at {at}");
                for bit in 0..8 {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1 << bit;
                    assert!(CopyNote::decode(&bytes).is_err(), "bit {bit} of byte {at}");
                }
            }
        }
    }

    /// Bytes that no writer makes, with a right checksum.
    #[test]
    fn what_a_note_cannot_say_is_refused() {
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = note(7, &[5, 6]).encode();
            bytes.truncate(bytes.len() - 4);
            change(&mut bytes);
            let sum = crc32c(&[&bytes]);
            bytes.put_u32(sum);
            CopyNote::decode(&bytes)
        };
        let set = |at: usize, value: u64| {
            with(&|bytes| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()))
        };
        assert_eq!(with(&|_| ()), Ok(note(7, &[5, 6])));
        assert_eq!(with(&|bytes| bytes[8] = 2), Err(NoteError::Newer(2)));
        assert_eq!(with(&|bytes| bytes[8] = 0), Err(NoteError::Damaged("version 0")));
        let length = NoteError::Damaged("its length does not match its count of numbers");
        for count in [0, 1, 3, NUMBERS_MAX as u64 + 1, u64::MAX / 8 + 3, u64::MAX] {
            assert_eq!(set(16, count).as_ref(), Err(&length), "{count} numbers");
        }
        assert_eq!(with(&|bytes| bytes.push(0)).as_ref(), Err(&length));
        for second in [0, 4, 5, FileNumber::END, u64::MAX] {
            let refused = set(32, second);
            assert!(matches!(refused, Err(NoteError::Damaged(_))), "5, {second}: {refused:?}");
        }
    }

    #[test]
    fn only_names_given_here_are_names_of_notes() {
        for tree in [0, 1, 77, u32::MAX].map(TreeId) {
            assert_eq!(tree_of(&path(Path::new(""), tree)), Some(tree));
            assert!(is_unfinished(&path_new(Path::new(""), tree)));
        }
        for name in ["1.copy", "+000000001.copy", "00000000001.copy", "4294967296.copy", "x.copy"] {
            assert_eq!(tree_of(Path::new(name)), None, "{name}");
            assert!(!is_unfinished(Path::new(&format!("{name}.new"))), "{name}");
        }
    }

    #[test]
    fn a_note_of_another_tree_or_of_a_newer_format_is_refused() {
        let machine = disk();
        let (fs, dir) = (&machine.fs, Path::new(DIR));
        assert_eq!(read(fs, dir, TreeId(7)).unwrap(), None);
        note(7, &[5]).write(fs, dir).unwrap();
        assert_eq!(read(fs, dir, TreeId(7)).unwrap(), Some(note(7, &[5])));
        fs.rename(&path(dir, TreeId(7)), &path(dir, TreeId(8))).unwrap();
        let refused = read(fs, dir, TreeId(8));
        assert!(matches!(refused, Err(Error::Corruption(_))), "{refused:?}");
        let mut bytes = note(8, &[5]).encode();
        bytes[8] = 2;
        bytes.truncate(bytes.len() - 4);
        let sum = crc32c(&[&bytes]);
        bytes.put_u32(sum);
        fs.create(&path(dir, TreeId(8))).unwrap().write_all_at(&bytes, 0).unwrap();
        let refused = read(fs, dir, TreeId(8));
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{refused:?}");
    }

    #[test]
    fn notes_go_with_their_trees() {
        let machine = disk();
        let (fs, dir, into) = (&machine.fs, Path::new(DIR), Path::new("/into"));
        fs.create_dir_all(into).unwrap();
        for tree in [7, 8, 9] {
            note(tree, &[5]).write(fs, dir).unwrap();
        }
        fs.create(&path_new(dir, TreeId(7))).unwrap();
        fs.create(&path(dir, TreeId(9))).unwrap();
        copy_notes(fs, dir, into, |tree| tree != TreeId(8)).unwrap();
        assert_eq!(trees(fs, into).unwrap(), [TreeId(7)].into(), "the damaged one is left out");
        remove_unknown(fs, dir, &BTreeSet::new(), |tree| tree == TreeId(7)).unwrap();
        assert_eq!(fs.list(dir).unwrap(), [path(Path::new(""), TreeId(7))]);
    }

    #[test]
    fn a_note_stays_with_a_file_that_could_not_be_removed() {
        let machine = disk();
        let (fs, dir) = (&machine.fs, Path::new(DIR));
        for (tree, numbers) in [(7, [5, 6]), (8, [9, 10]), (9, [6, 20])] {
            note(tree, &numbers).write(fs, dir).unwrap();
        }
        fs.create(&path(dir, TreeId(9))).unwrap();
        let left = [6, 12].map(FileNumber).into();
        remove_unknown(fs, dir, &left, |_| false).unwrap();
        assert_eq!(trees(fs, dir).unwrap(), [7, 9].map(TreeId).into(), "damaged: it may name one");
        remove_unknown(fs, dir, &BTreeSet::new(), |tree| tree == TreeId(7)).unwrap();
        assert_eq!(trees(fs, dir).unwrap(), [TreeId(7)].into());
        fs.inject(FaultPoint::Call(Call::Remove), 0, 1, Fault::Io);
        remove_unknown(fs, dir, &BTreeSet::new(), |_| false).unwrap();
        assert_eq!(trees(fs, dir).unwrap(), [TreeId(7)].into());
        remove_unknown(fs, dir, &BTreeSet::new(), |_| false).unwrap();
        assert_eq!(trees(fs, dir).unwrap(), BTreeSet::new());
    }

    #[test]
    fn a_note_that_the_disk_does_not_read_is_told() {
        let machine = disk();
        let (fs, dir, into) = (&machine.fs, Path::new(DIR), Path::new("/into"));
        fs.create_dir_all(into).unwrap();
        note(7, &[5]).write(fs, dir).unwrap();
        note(8, &[6]).write(fs, dir).unwrap();
        for point in [Call::OpenRead, Call::ReadAt].map(FaultPoint::Call) {
            fs.inject(point, 0, 1, Fault::Io);
            let numbers = [FileNumber(6)].into();
            let told = announced(fs, dir, |_| false).unwrap();
            assert_eq!(told, Announced { numbers, is_unread: true });
            fs.inject(point, 0, 1, Fault::Io);
            assert_eq!(copy_notes(fs, dir, into, |_| true).unwrap(), [TreeId(7)].into());
            assert_eq!(trees(fs, into).unwrap(), [TreeId(8)].into());
        }
        let told = announced(fs, dir, |tree| tree == TreeId(8)).unwrap();
        assert_eq!(told, Announced { numbers: [FileNumber(5)].into(), is_unread: false });
    }
}
