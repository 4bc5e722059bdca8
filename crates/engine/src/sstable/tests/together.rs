//! Blocks that are read together.

use super::*;
use crate::block_loads::blocking_loads::read_together;
use crate::cache::CacheLookup;
use base::env::read_queue::{Completed, QueueKind, ReadQueue};
use base::env::{FileSystem, RealFileSystem};
use std::collections::HashMap;

/// A queue that notes the most bytes that were asked of it and not given.
struct Watched {
    queue: Box<dyn ReadQueue>,
    asked: HashMap<u64, usize>,
    most: usize,
}

impl ReadQueue for Watched {
    fn submit(&mut self, tag: u64, file: &Arc<dyn ReadFile>, offset: u64, len: usize) {
        self.asked.insert(tag, len);
        self.most = self.most.max(self.asked.values().sum());
        self.queue.submit(tag, file, offset, len);
    }

    fn flush(&mut self) {
        self.queue.flush();
    }

    fn wait(&mut self, at_least: usize, out: &mut Vec<Completed>) {
        let before = out.len();
        self.queue.wait(at_least, out);
        for done in &out[before..] {
            self.asked.remove(&done.tag);
        }
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }

    fn kind(&self) -> QueueKind {
        self.queue.kind()
    }
}

#[test]
fn however_many_blocks_are_asked_for_few_bytes_are_in_flight() {
    const BLOCKS: usize = 200;
    const BYTES_MAX: u64 = 1 << 20;
    let block = 30 << 10;
    let value = vec![b'v'; block];
    let rows = (0..BLOCKS)
        .map(|row| (format!("row{row:04}").into_bytes(), vec![put(1, b"q", 1, 1, &value)]));
    let options = SstOptions { large_value_bytes: 64 << 10, ..options() };
    let sst = open(build(&rows.collect(), &[], &options).0).unwrap();
    let loads: Vec<BlockLoad> = (0..BLOCKS)
        .map(|at| BlockLoad::new(Arc::clone(&sst), Missing::Data(0, at)).unwrap().unwrap())
        .collect();
    let cache = BlockCache::new(4 << 20, CacheFeatures::PASSING);
    let own = loads.iter().map(|load| match load.load_ticket(&cache) {
        CacheLookup::Free(ticket) => (load, ticket),
        _ => panic!("the cache is empty"),
    });
    let queue = RealFileSystem.read_queue(64);
    let mut queue = Watched { queue, asked: HashMap::new(), most: 0 };
    let mut came = Vec::new();
    read_together(&mut queue, BYTES_MAX, own.collect(), &mut |load, pin| {
        assert!(pin.unwrap().get().bytes.len() >= block);
        came.push(load.key());
    });
    came.sort();
    came.dedup();
    assert_eq!(came.len(), BLOCKS);
    let most = BYTES_MAX as usize;
    assert!(queue.most <= most + 2 * block && queue.most > most / 2, "{}", queue.most);
}
