//! SSTables that are opened when they are read: a process has only so many descriptors, and a store
//! may have more files.
//!
//! What is resident is read without its file. A read of the disk takes the open file and holds it
//! until the read ends, also one in flight in a queue of reads; a file that is not open is opened
//! for it, and another one closed.
//!
//! 1. Open are at most `max` files, and one more for each thread that is opening one; beside them,
//!    files that were closed here and are still held by reads under way.
//! 2. Which one is closed a clock decides: of those that were not read since its hand came by, the
//!    one it meets first. No order is kept, so a read writes no more than a flag.
//! 3. A file is in `ring` exactly while its `slot` is full, but for the moment in which it is put
//!    there or taken from there.
//!
//! Lock order: the `slot` of a file that is being opened, then that of the file that is closed for
//! it, then `ring`. The first is empty and in no ring, so nobody closes it meanwhile.
//!
//! Source: docs/decisions/0027.

use crate::locks::{OpenFile, OpenFileRing};
use crate::marks::Mark;
use crate::options::Options;
use base::env::FileSystem;
use base::env::fs::{ReadFile, is_out_of_files};
use base::sync::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Of the files that the process may open, the part that SSTables take, in fourths. The rest is for
/// connections, the log, and files that are written.
const SHARE_FOURTHS: u64 = 3;

/// The SSTables of one engine that are open.
pub(crate) struct OpenFiles {
    fs: Arc<dyn FileSystem>,
    direct: bool,
    max: usize,
    /// Files in the ring that are gone, beyond which it is cleared of them.
    gone_max: usize,
    /// Files whose slot is full.
    open: AtomicUsize,
    /// Files opened again after they were closed here.
    reopened: AtomicU64,
    /// The open files, as the hand of the clock comes to them.
    ring: Mutex<VecDeque<Weak<SstFile>>, OpenFileRing>,
}

/// An SSTable, open or not.
struct SstFile {
    files: Arc<OpenFiles>,
    path: PathBuf,
    this: Weak<SstFile>,
    slot: Mutex<Option<Arc<dyn ReadFile>>, OpenFile>,
    /// It was read since the hand came by. Publishes nothing.
    used: AtomicBool,
}

impl OpenFiles {
    /// Files of `fs`, opened as `options` say.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, options: &Options) -> Arc<Self> {
        let allowed = fs.open_files_max().map_or(u64::MAX, |all| all / 4 * SHARE_FOURTHS);
        let max = options.open_files_max;
        let max = max.unwrap_or(usize::try_from(allowed).unwrap_or(usize::MAX));
        Arc::new(Self {
            fs,
            direct: options.direct_reads,
            max: max.max(options.shape.open_files_min),
            gone_max: options.shape.gone_files_max,
            open: AtomicUsize::new(0),
            reopened: AtomicU64::new(0),
            ring: Mutex::default(),
        })
    }

    /// Opens the SSTable at `path`. It is closed when others need its descriptor, and opened again
    /// when it is read: its name must stay while the result is used.
    pub(crate) fn open(self: &Arc<Self>, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.make_room();
        let open = self.open_now(path)?;
        let file = Arc::new_cyclic(|this| SstFile {
            files: Arc::clone(self),
            path: path.to_owned(),
            this: Weak::clone(this),
            slot: Mutex::new(Some(open)),
            used: AtomicBool::new(true),
        });
        self.note_open(Weak::clone(&file.this));
        Ok(file)
    }

    /// Files that are open now.
    pub(crate) fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Files that were opened again.
    pub(crate) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// Closes files until there is room for one more, as far as any can be closed.
    fn make_room(&self) {
        while self.count() >= self.max && self.close_one() {}
    }

    /// Opens `path`, closing others if the process or the system has no descriptor left.
    fn open_now(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        loop {
            let opened = match self.direct {
                true => self.fs.open_read_direct(path),
                false => self.fs.open_read(path),
            };
            match opened {
                Err(error) if is_out_of_files(&error) && self.close_one() => {}
                opened => return opened,
            }
        }
    }

    /// Closes the file that the hand finds; `false` if there is none.
    fn close_one(&self) -> bool {
        let Some(file) = self.turn_hand() else { return false };
        if file.slot.lock().take().is_some() {
            Mark::FileClosed.hit();
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// The next file to close, taken off the ring.
    fn turn_hand(&self) -> Option<Arc<SstFile>> {
        let mut ring = self.ring.lock();
        let mut spared = ring.len();
        loop {
            let Some(file) = ring.pop_front()?.upgrade() else { continue };
            // The second time around whatever it meets has to go.
            if spared > 0 && file.used.swap(false, Ordering::Relaxed) {
                spared -= 1;
                ring.push_back(Weak::clone(&file.this));
                continue;
            }
            return Some(file);
        }
    }

    /// `file` was opened.
    fn note_open(&self, file: Weak<SstFile>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut ring = self.ring.lock();
        ring.push_back(file);
        if ring.len() > 2 * self.count() + self.gone_max {
            ring.retain(|file| file.strong_count() > 0);
        }
    }
}

impl SstFile {
    /// The file, if it is open. It stays open for as long as the caller holds it.
    fn if_open(&self) -> Option<Arc<dyn ReadFile>> {
        let open = self.slot.lock().clone()?;
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(open)
    }

    /// The open file. It stays open for as long as the caller holds it.
    fn take(&self) -> io::Result<Arc<dyn ReadFile>> {
        if let Some(open) = self.if_open() {
            return Ok(open);
        }
        self.files.make_room();
        let mut slot = self.slot.lock();
        if let Some(open) = &*slot {
            return Ok(Arc::clone(open));
        }
        let open = slot.insert(self.files.open_now(&self.path)?);
        self.used.store(true, Ordering::Relaxed);
        Mark::FileReopened.hit();
        self.files.reopened.fetch_add(1, Ordering::Relaxed);
        self.files.note_open(Weak::clone(&self.this));
        Ok(Arc::clone(open))
    }
}

impl ReadFile for SstFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.take()?.read_exact_at(buf, offset)
    }

    /// To open a file may take a read of the disk.
    fn read_exact_at_once(&self, buf: &mut [u8], offset: u64) -> io::Result<bool> {
        self.if_open().map_or(Ok(false), |open| open.read_exact_at_once(buf, offset))
    }

    fn size(&self) -> io::Result<u64> {
        self.take()?.size()
    }

    fn is_direct(&self) -> bool {
        self.take().is_ok_and(|open| open.is_direct())
    }

    fn opened(&self) -> io::Result<Option<Arc<dyn ReadFile>>> {
        self.take().map(Some)
    }
}

impl Drop for SstFile {
    fn drop(&mut self) {
        if self.slot.get_mut().is_some() {
            self.files.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::sim::{Fault, FaultPoint};
    use base::env::{RealFileSystem, SimEnv};

    const LEN: usize = 100;

    fn at_most(fs: Arc<dyn FileSystem>, max: usize) -> Arc<OpenFiles> {
        OpenFiles::new(fs, &Options { open_files_max: Some(max), ..Options::default() })
    }

    /// `count` files, open as far as they may be.
    fn open_all(
        files: &Arc<OpenFiles>,
        fs: &dyn FileSystem,
        dir: &Path,
        count: u8,
    ) -> Vec<Arc<dyn ReadFile>> {
        let open = |number: u8| {
            let path = dir.join(format!("{number}"));
            fs.create(&path).unwrap().write_all_at(&[number; LEN], 0).unwrap();
            files.open(&path).unwrap()
        };
        (0..count).map(open).collect()
    }

    fn read(file: &dyn ReadFile) -> u8 {
        let mut bytes = [0; LEN];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [bytes[0]; LEN]);
        bytes[0]
    }

    #[test]
    fn many_files_are_read_with_few_open() {
        let dir = tempfile::tempdir().unwrap();
        let files = at_most(Arc::new(RealFileSystem), 16);
        let mut all = open_all(&files, &RealFileSystem, dir.path(), 100);
        assert_eq!((files.count(), files.reopened()), (16, 0));
        for _ in 0..3 {
            for (number, file) in (0..).zip(&all) {
                assert_eq!((read(&**file), file.size().unwrap()), (number, LEN as u64));
                assert_eq!(files.count(), 16);
            }
        }
        assert_eq!(files.reopened(), 300, "in a circle each was the coldest");
        all.truncate(90);
        assert!(files.count() < 16, "what nobody has any more is closed");
        drop(all);
        assert_eq!(files.count(), 0);
        drop(open_all(&files, &RealFileSystem, dir.path(), 100));
        assert!(files.ring.lock().len() <= 16 + files.gone_max, "and not remembered");
    }

    #[test]
    fn a_file_that_is_read_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let files = at_most(Arc::new(RealFileSystem), 16);
        let all = open_all(&files, &RealFileSystem, dir.path(), 17);
        read(&*all[3]);
        let before = files.reopened();
        for round in 0..50 {
            read(&*all[4 + round % 13]);
            assert_eq!(read(&*all[3]), 3);
        }
        let others = files.reopened() - before;
        read(&*all[3]);
        assert_eq!(files.reopened() - before, others);
        assert!(others <= 50, "{others}: not once for it");
        let mut bytes = [0; LEN];
        let closed = all.iter().position(|file| !file.read_exact_at_once(&mut bytes, 0).unwrap());
        assert!(closed.is_some(), "to open a file is to wait");
    }

    #[test]
    fn who_holds_a_file_reads_on() {
        let dir = tempfile::tempdir().unwrap();
        let files = at_most(Arc::new(RealFileSystem), 16);
        let all = open_all(&files, &RealFileSystem, dir.path(), 64);
        let held: Vec<_> = all.iter().map(|file| file.opened().unwrap().unwrap()).collect();
        assert_eq!(files.count(), 16);
        // As of a file that was deleted: it is not opened for them.
        (0..64)
            .for_each(|number| std::fs::remove_file(dir.path().join(number.to_string())).unwrap());
        assert!((0..).zip(&held).all(|(number, file)| read(&**file) == number));
        let gone = all.iter().filter_map(|file| file.opened().err());
        let gone: Vec<_> = gone.map(|error| error.kind()).collect();
        // What was closed at first, and what was closed for those that then could not be opened.
        assert!(gone.len() >= 48, "{}", gone.len());
        assert!(gone.iter().all(|kind| *kind == io::ErrorKind::NotFound), "{gone:?}");
    }

    #[test]
    fn others_are_closed_where_no_descriptor_is_left() {
        let machine = SimEnv::new(1);
        let fs = machine.env().fs;
        let files = at_most(Arc::clone(&fs), 1_000);
        let all = open_all(&files, &*fs, Path::new("/"), 40);
        assert_eq!(files.count(), 40);
        machine.fs.inject(FaultPoint::Descriptor, 0, 10, Fault::NoDescriptor);
        let one_more = files.open(Path::new("/7")).unwrap();
        assert_eq!((files.count(), read(&*one_more)), (31, 7));
        machine.fs.inject(FaultPoint::Descriptor, 0, u64::MAX, Fault::NoDescriptor);
        assert!(files.open(Path::new("/7")).is_err_and(|error| is_out_of_files(&error)));
        assert_eq!(files.count(), 0, "all that could be done was done");
        assert!(all[3].opened().is_err());
        machine.fs.clear_faults();
        assert!((0..).zip(&all).all(|(number, file)| read(&**file) == number));
    }

    #[test]
    fn threads_that_open_and_close_each_others_files_read_them_all() {
        let dir = tempfile::tempdir().unwrap();
        let files = at_most(Arc::new(RealFileSystem), 16);
        let all = open_all(&files, &RealFileSystem, dir.path(), 60);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (all, files) = (&all, &files);
                scope.spawn(move || {
                    for at in 0..2_000 {
                        let number = (at * (2 * thread + 1)) % 60;
                        assert_eq!(usize::from(read(&*all[number])), number);
                        assert!(files.count() <= 16 + 4);
                    }
                });
            }
        });
        drop(all);
        assert_eq!(files.count(), 0);
    }

    #[test]
    fn without_a_number_a_part_of_what_the_process_may_open_is_taken() {
        let max = |fs: Arc<dyn FileSystem>| OpenFiles::new(fs, &Options::default()).max as u64;
        assert_eq!(max(SimEnv::new(1).env().fs), u64::MAX, "where nothing is said");
        let allowed = RealFileSystem.open_files_max().unwrap_or(u64::MAX);
        assert_eq!(max(Arc::new(RealFileSystem)), (allowed / 4 * 3).max(16));
    }
}
