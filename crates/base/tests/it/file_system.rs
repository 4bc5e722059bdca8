//! What every [`FileSystem`] does, real or simulated.

use base::env::sim::SimFs;
use base::env::{FileSystem, OneByOne, RealFileSystem};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn on_both(check: impl Fn(&dyn FileSystem, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    check(&RealFileSystem, dir.path());
    let dir = tempfile::tempdir().unwrap();
    check(&OneByOne(Arc::new(RealFileSystem)), dir.path());
    let fs = SimFs::new(1);
    fs.create_dir_all(Path::new("/data")).unwrap();
    check(&fs, Path::new("/data"));
}

fn content(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open_read(path).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(fs.size(path).unwrap(), bytes.len() as u64);
    bytes
}

fn put(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(error) => error.kind(),
    }
}

#[test]
fn writes_are_positional_and_gaps_are_zero() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        file.write_all_at(b"world", 7).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        file.write_all_at(b"", 100).unwrap();
        assert_eq!(file.size().unwrap(), 12);
        assert_eq!(content(fs, &path), b"hello\0\0world");
        let mut again = fs.open_write(&path).unwrap();
        again.write_all_at(b"HE", 0).unwrap();
        assert_eq!(content(fs, &path), b"HEllo\0\0world");
    });
}

#[test]
fn create_empties_what_was_there() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        put(fs, &path, b"old");
        fs.create(&path).unwrap();
        assert_eq!(content(fs, &path), b"");
    });
}

#[test]
fn lengths_are_cut_extended_and_allocated() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(content(fs, &path), b"ab\0\0");
        file.allocate(6).unwrap();
        assert_eq!(content(fs, &path), b"ab\0\0\0\0");
        file.allocate(3).unwrap();
        assert_eq!(file.size().unwrap(), 6, "allocating never cuts");
    });
}

#[test]
fn a_read_past_the_end_is_refused() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        put(fs, &path, b"abc");
        let file = fs.open_read(&path).unwrap();
        let mut two = [0; 2];
        file.read_exact_at(&mut two, 1).unwrap();
        assert_eq!(&two, b"bc");
        assert_eq!(kind(file.read_exact_at(&mut two, 2)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(file.read_exact_at(&mut two, 9)), ErrorKind::UnexpectedEof);
        file.read_exact_at(&mut [], 3).unwrap();
        file.read_exact_at(&mut [], 9).unwrap();
    });
}

#[test]
fn missing_names_are_not_found() {
    on_both(|fs, dir| {
        let (path, other) = (dir.join("a"), dir.join("b"));
        assert_eq!(kind(fs.open_read(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.open_write(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.size(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove_file(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.rename(&path, &other)), ErrorKind::NotFound);
        assert_eq!(kind(fs.hard_link(&path, &other)), ErrorKind::NotFound);
        assert_eq!(kind(fs.list(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.sync_dir(&path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.create(&path.join("in"))), ErrorKind::NotFound);
        assert!(!fs.exists(&path).unwrap());
    });
}

#[test]
fn a_rename_replaces_and_open_files_follow() {
    on_both(|fs, dir| {
        let (from, to) = (dir.join("from"), dir.join("to"));
        put(fs, &from, b"new");
        put(fs, &to, b"old");
        let (old, mut new) = (fs.open_read(&to).unwrap(), fs.open_write(&from).unwrap());
        fs.rename(&from, &to).unwrap();
        assert!(!fs.exists(&from).unwrap() && fs.exists(&to).unwrap());
        new.write_all_at(b"NEW", 0).unwrap();
        assert_eq!(content(fs, &to), b"NEW");
        let mut bytes = [0; 3];
        old.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old", "a replaced file lives while it is open");
        fs.rename(&to, &to).unwrap();
        assert_eq!(content(fs, &to), b"NEW");
    });
}

#[test]
fn a_directory_is_renamed_with_all_that_is_in_it() {
    on_both(|fs, dir| {
        let (from, to, full) = (dir.join("from"), dir.join("to"), dir.join("full"));
        for dir in [from.join("deep"), full.clone()] {
            fs.create_dir_all(&dir).unwrap();
            put(fs, &dir.join("a"), b"abc");
        }
        let mut open = fs.open_write(&from.join("deep/a")).unwrap();
        assert_eq!(kind(fs.rename(&from, &full)), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(fs.rename(&from, &full.join("a"))), ErrorKind::NotADirectory);
        assert_eq!(kind(fs.rename(&from, &from.join("deep/b"))), ErrorKind::InvalidInput);
        fs.rename(&from, &to).unwrap();
        assert!(!fs.exists(&from).unwrap() && !fs.exists(&from.join("deep/a")).unwrap());
        open.write_all_at(b"ABC", 0).unwrap();
        assert_eq!(content(fs, &to.join("deep/a")), b"ABC");
        fs.create_dir_all(&from).unwrap();
        fs.rename(&to, &from).unwrap();
        assert_eq!(fs.list(&from).unwrap(), [Path::new("deep")]);
    });
}

#[test]
fn a_removed_file_lives_while_it_is_open() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        put(fs, &path, b"abc");
        let file = fs.open_read(&path).unwrap();
        fs.remove_file(&path).unwrap();
        fs.sync_dir(dir).unwrap();
        assert!(!fs.exists(&path).unwrap());
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abc");
    });
}

#[test]
fn linked_names_share_a_file() {
    on_both(|fs, dir| {
        let (one, two) = (dir.join("one"), dir.join("two"));
        put(fs, &one, b"abc");
        fs.hard_link(&one, &two).unwrap();
        assert_eq!(kind(fs.hard_link(&one, &two)), ErrorKind::AlreadyExists);
        fs.open_write(&two).unwrap().write_all_at(b"X", 1).unwrap();
        fs.remove_file(&two).unwrap();
        assert_eq!(content(fs, &one), b"aXc");
    });
}

#[test]
fn directories_are_made_with_parents_and_listed_in_order() {
    on_both(|fs, dir| {
        let deep = dir.join("x").join("y");
        fs.create_dir_all(&deep).unwrap();
        fs.create_dir_all(&deep).unwrap();
        put(fs, &deep.join("f"), b"");
        for name in ["b", "a", "c"] {
            put(fs, &dir.join(name), b"");
        }
        let names = ["a", "b", "c", "x"].map(PathBuf::from);
        assert_eq!(fs.list(dir).unwrap(), names);
        assert_eq!(fs.list(&deep).unwrap(), [PathBuf::from("f")]);
        assert!(fs.exists(&deep).unwrap());
        assert!(fs.create_dir_all(&dir.join("a").join("under a file")).is_err());
        fs.sync_dir(&deep).unwrap();
    });
}

#[test]
fn a_lock_has_one_holder() {
    on_both(|fs, dir| {
        let path = dir.join("LOCK");
        let lock = fs.lock(&path).unwrap();
        assert_eq!(kind(fs.lock(&path)), ErrorKind::WouldBlock);
        drop(lock);
        let lock = fs.lock(&path).unwrap();
        assert!(fs.exists(&path).unwrap());
        drop(lock);
        assert!(fs.free_bytes(dir).unwrap() > 0);
    });
}
