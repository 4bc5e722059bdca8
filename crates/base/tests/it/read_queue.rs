//! What every read queue does, over io_uring, without it, and on the simulated machine; with
//! files that are read through the page cache and past it.

use base::env::read_queue::{
    BatchRead, Completed, PreadQueue, QueueKind, ReadQueue, read_batch, with_thread_queue,
};
use base::env::rng::Rng;
use base::env::sim::{Fault, FaultPoint, SimFs};
use base::env::{FileSystem, RealFileSystem, fs::ReadFile};
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Neither a multiple of a sector nor of a page.
const FILE_LEN: usize = 1_000_003;

const DEPTH: usize = 8;

struct Case {
    name: &'static str,
    queue: Box<dyn ReadQueue>,
    file: Arc<dyn ReadFile>,
    content: Arc<Vec<u8>>,
}

fn write(fs: &dyn FileSystem, path: &Path, content: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.write_all_at(content, 0).unwrap();
    file.sync().unwrap();
}

/// All queues with all kinds of files. The directory must live as long.
fn cases() -> (tempfile::TempDir, Vec<Case>) {
    let mut content = vec![0; FILE_LEN];
    Rng::new(5).fill(&mut content);
    let content = Arc::new(content);
    // Beside the sources and not in /tmp, which is often a file system in memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    write(&RealFileSystem, &path, &content);
    let sim = SimFs::new(1);
    write(&sim, Path::new("file"), &content);
    let pread = || -> Box<dyn ReadQueue> { Box::new(PreadQueue::new(DEPTH)) };
    let real = || RealFileSystem.read_queue(DEPTH);
    let buffered = || RealFileSystem.open_read(&path).unwrap();
    let direct = || RealFileSystem.open_read_direct(&path).unwrap();
    let simulated = || sim.open_read_direct(Path::new("file")).unwrap();
    let cases = [
        ("real queue, buffered file", real(), buffered()),
        ("real queue, direct file", real(), direct()),
        ("real queue, simulated file", real(), simulated()),
        ("pread queue, buffered file", pread(), buffered()),
        ("pread queue, direct file", pread(), direct()),
        ("simulated queue, simulated file", sim.read_queue(DEPTH), simulated()),
    ];
    let cases = cases.map(|(name, queue, file)| {
        let content = Arc::clone(&content);
        Case { name, queue, file, content }
    });
    (dir, cases.into())
}

fn on_all(check: impl Fn(&mut Case)) {
    let (_dir, mut cases) = cases();
    for case in &mut cases {
        check(case);
    }
}

impl Case {
    fn submit(&mut self, tag: u64, offset: u64, len: usize) {
        self.queue.submit(tag, &self.file, offset, len);
    }

    /// All that is in flight, by tag.
    fn finish(&mut self) -> Vec<Completed> {
        let mut done = Vec::new();
        self.queue.wait(usize::MAX, &mut done);
        assert_eq!(self.queue.in_flight(), 0, "{}", self.name);
        done.sort_by_key(|completed| completed.tag);
        done
    }

    /// Checks that `completed` is what a read of these bytes gives.
    fn check(&self, completed: &Completed, offset: u64, len: usize) {
        let start = usize::try_from(offset).unwrap();
        match (&completed.result, self.content.get(start..start.saturating_add(len))) {
            (Ok(bytes), Some(want)) => assert!(**bytes == *want, "{} {offset} {len}", self.name),
            (Ok(bytes), None) => assert!(len == 0 && bytes.is_empty(), "{}", self.name),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof),
            (Err(error), Some(_)) => panic!("{} {offset} {len}: {error}", self.name),
        }
    }
}

#[test]
fn reads_give_exactly_the_bytes_asked_for() {
    on_all(|case| {
        let end = FILE_LEN as u64;
        let reads = [
            (0, 4096),
            (4096, 8192),
            (1, 1),
            (511, 2),
            (4095, 4098),
            (0, 0),
            (end, 0),
            (end + 5000, 0),
            (end - 3, 3),
            (end - 5000, 5000),
            (3, FILE_LEN - 3),
            (0, FILE_LEN),
        ];
        for (tag, (offset, len)) in reads.iter().enumerate() {
            case.submit(tag as u64, *offset, *len);
        }
        let done = case.finish();
        assert_eq!(done.len(), reads.len());
        for (tag, (offset, len)) in reads.iter().enumerate() {
            assert_eq!(done[tag].tag, tag as u64);
            case.check(&done[tag], *offset, *len);
            assert_eq!(done[tag].result.as_ref().unwrap().len(), *len);
        }
    });
}

#[test]
fn a_read_past_the_end_is_refused_and_others_are_not() {
    on_all(|case| {
        let end = FILE_LEN as u64;
        let past = [(end - 3, 4), (end, 1), (end + 1, 1), (end - 6000, 7000), (1 << 40, 100)];
        for (tag, (offset, len)) in past.iter().enumerate() {
            case.submit(tag as u64, *offset, *len);
            case.submit(100 + tag as u64, 77, 10);
        }
        let done = case.finish();
        let (refused, read) = done.split_at(past.len());
        for (completed, (offset, len)) in refused.iter().zip(past) {
            assert!(completed.result.is_err());
            case.check(completed, offset, len);
        }
        assert_eq!(read.len(), past.len());
        for completed in read {
            case.check(completed, 77, 10);
        }
    });
}

#[test]
fn offsets_beyond_all_files_are_errors() {
    on_all(|case| {
        for (tag, (offset, len)) in [(u64::MAX, 1), (1 << 63, 9)].into_iter().enumerate() {
            case.submit(tag as u64, offset, len);
        }
        assert!(case.finish().iter().all(|completed| completed.result.is_err()), "{}", case.name);
    });
}

#[test]
fn far_more_reads_than_the_queue_is_deep_all_come_back_once() {
    on_all(|case| {
        let mut rng = Rng::new(9);
        let mut pick = || (rng.below(FILE_LEN as u64 - 20_000), rng.index(20_000));
        let reads: Vec<(u64, usize)> = (0..50 * DEPTH).map(|_| pick()).collect();
        let mut submitted = 0;
        let mut seen = vec![false; reads.len()];
        let mut done = Vec::new();
        while seen.contains(&false) {
            // Topped up before each wait, past the depth.
            for (offset, len) in &reads[submitted..reads.len().min(submitted + 3 * DEPTH)] {
                case.submit(submitted as u64, *offset, *len);
                submitted += 1;
            }
            case.queue.flush();
            let before = case.queue.in_flight();
            case.queue.wait(DEPTH, &mut done);
            assert!(done.len() >= DEPTH.min(before), "{}", case.name);
            assert_eq!(case.queue.in_flight(), before - done.len(), "{}", case.name);
            for completed in done.drain(..) {
                let tag = completed.tag as usize;
                assert!(!std::mem::replace(&mut seen[tag], true), "{} twice", case.name);
                case.check(&completed, reads[tag].0, reads[tag].1);
            }
        }
        assert_eq!(case.queue.in_flight(), 0);
        assert_eq!(case.queue.depth(), DEPTH);
    });
}

#[test]
fn looking_without_waiting_sees_reads_complete() {
    on_all(|case| {
        for tag in 0..20 {
            case.submit(tag, tag * 1000, 100);
        }
        let mut done = Vec::new();
        while done.len() < 20 {
            case.queue.wait(0, &mut done);
            std::thread::yield_now();
        }
        case.queue.wait(5, &mut done);
        assert_eq!(done.len(), 20, "waiting for what was never asked for returns");
        for completed in &done {
            case.check(completed, completed.tag * 1000, 100);
        }
    });
}

#[test]
fn a_queue_may_be_dropped_with_reads_in_flight() {
    let (_dir, cases) = cases();
    for mut case in cases {
        case.submit(0, 5, 10);
        let early = case.finish();
        for tag in 1..4 * DEPTH as u64 {
            case.submit(tag, tag * 4096, 16 << 10);
            if tag == 2 * DEPTH as u64 {
                case.queue.flush();
            }
        }
        let file = Arc::clone(&case.file);
        case.queue = Box::new(PreadQueue::new(1));
        // The case and this function: the dropped queue has let go of the file.
        assert_eq!(Arc::strong_count(&file), 2, "{}", case.name);
        case.check(&early[0], 5, 10);
    }
}

#[test]
fn the_file_may_be_dropped_and_removed_while_it_is_read() {
    let (dir, cases) = cases();
    for mut case in cases {
        for tag in 0..3 * DEPTH as u64 {
            case.submit(tag, tag * 5000, 6000);
        }
        let none = PreadFile(Arc::clone(&case.content));
        case.file = Arc::new(none);
        let _ = std::fs::remove_file(dir.path().join("file"));
        for completed in case.finish() {
            case.check(&completed, completed.tag * 5000, 6000);
        }
    }
}

/// A file that is nothing but this trait.
struct PreadFile(Arc<Vec<u8>>);

impl ReadFile for PreadFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[test]
fn queues_move_between_threads_with_reads_in_flight() {
    let (_dir, cases) = cases();
    for mut case in cases {
        let mut case = std::thread::scope(|scope| {
            let submit = move || {
                for tag in 0..3 * DEPTH as u64 {
                    case.submit(tag, tag * 5000, 6000);
                }
                case.queue.flush();
                case
            };
            scope.spawn(submit).join().unwrap()
        });
        let done = case.finish();
        assert_eq!(done.len(), 3 * DEPTH);
        for completed in &done {
            case.check(completed, completed.tag * 5000, 6000);
        }
    }
}

#[test]
fn a_batch_is_read_whole_and_in_order() {
    on_all(|case| {
        let reads: Vec<(u64, usize)> =
            (0..100).map(|at| (at * 10_001, if at == 50 { FILE_LEN } else { 300 })).collect();
        let batch = |(offset, len): &(u64, usize)| BatchRead {
            file: &case.file,
            offset: *offset,
            len: *len,
            result: None,
        };
        let mut batch: Vec<BatchRead<'_>> = reads.iter().map(batch).collect();
        read_batch(&mut *case.queue, &mut batch);
        let results: Vec<_> = batch.into_iter().map(|read| read.result.unwrap()).collect();
        for (result, (offset, len)) in results.into_iter().zip(reads) {
            assert_eq!(result.is_err(), offset == 500_050);
            case.check(&Completed { tag: 0, result }, offset, len);
        }
        read_batch(&mut *case.queue, &mut []);
    });
}

#[test]
fn a_fault_of_the_simulated_disk_hits_its_read_and_no_other() {
    let sim = SimFs::new(1);
    write(&sim, Path::new("file"), &[7; 1000]);
    let file = sim.open_read_direct(Path::new("file")).unwrap();
    assert!(!file.is_direct());
    let mut queue = sim.read_queue(DEPTH);
    assert_eq!(queue.kind(), QueueKind::Pread);
    sim.inject(FaultPoint::Read, 3, 1, Fault::Io);
    for tag in 0..6 {
        queue.submit(tag, &file, tag, 10);
    }
    let mut done = Vec::new();
    queue.wait(6, &mut done);
    let failed: Vec<u64> =
        done.iter().filter(|completed| completed.result.is_err()).map(|c| c.tag).collect();
    assert_eq!((done.len(), failed), (6, vec![3]));
}

#[test]
fn the_queue_of_a_thread_is_kept_and_belongs_to_its_file_system() {
    let real: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
    let sim: Arc<dyn FileSystem> = Arc::new(SimFs::new(1));
    let address = |fs| with_thread_queue(fs, |queue| std::ptr::from_mut(queue).addr());
    let kind = |fs| with_thread_queue(fs, |queue| queue.kind());
    let first = address(&real);
    assert_eq!(address(&real), first);
    let nested = with_thread_queue(&real, |_| address(&real));
    assert_ne!(nested, first, "the outer call has its own");
    assert_eq!(kind(&sim), QueueKind::Pread);
    assert_eq!(kind(&real), RealFileSystem.read_queue(1).kind());
}

#[test]
fn what_was_left_in_flight_is_not_seen_by_the_next_user() {
    let sim = SimFs::new(1);
    write(&sim, Path::new("file"), &[7; 1000]);
    let file = sim.open_read(Path::new("file")).unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(sim);
    with_thread_queue(&fs, |queue| queue.submit(1, &file, 0, 10));
    with_thread_queue(&fs, |queue| assert_eq!(queue.in_flight(), 0));
}

#[test]
fn depths_are_brought_into_their_range() {
    for (asked, depth) in [(0, 1), (1, 1), (100, 100)] {
        assert_eq!(RealFileSystem.read_queue(asked).depth(), depth);
        assert_eq!(PreadQueue::new(asked).depth(), depth);
    }
    assert_eq!(RealFileSystem.read_queue(1 << 40).depth(), 4096);
    assert_eq!(PreadQueue::new(1 << 40).depth(), 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn random_reads_match_the_file(
        reads in prop::collection::vec((0..FILE_LEN as u64 + 10_000, 0_usize..200_000), 1..40),
    ) {
        on_all(|case| {
            for (tag, (offset, len)) in reads.iter().enumerate() {
                case.submit(tag as u64, *offset, *len);
            }
            let done = case.finish();
            assert_eq!(done.len(), reads.len());
            for (completed, (offset, len)) in done.iter().zip(&reads) {
                case.check(completed, *offset, *len);
                let mut buf = vec![0; *len];
                let alone = case.file.read_exact_at(&mut buf, *offset);
                assert_eq!(alone.is_ok(), completed.result.is_ok());
                if let Ok(bytes) = &completed.result {
                    assert!(buf == **bytes, "{} {offset} {len}", case.name);
                }
            }
        });
    }
}
