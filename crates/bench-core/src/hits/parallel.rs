//! The whole table as text, made by several threads.
//!
//! Thread `i` of `n` makes blocks `i`, `i + n` and so on. Blocks are written in order by taking one of
//! each thread in turn, so a thread is at most [`WAITING_BLOCKS`] blocks ahead.

use super::{Hits, TextForm};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Rows that a thread makes at once, about 3 MB of text.
const BLOCK_ROWS: u64 = 4_096;

/// Blocks of a thread that wait to be written.
const WAITING_BLOCKS: usize = 2;

pub(super) fn write_all(
    hits: &Hits,
    form: TextForm,
    threads: u16,
    mut out: impl Write,
) -> io::Result<()> {
    let threads = threads.max(1);
    thread::scope(|scope| {
        let receivers: Vec<Receiver<Vec<u8>>> = (0..threads)
            .map(|first| {
                let (sender, receiver) = sync_channel(WAITING_BLOCKS);
                scope.spawn(move || make_blocks(hits, form, (first, threads), &sender));
                receiver
            })
            .collect();
        // The first thread without a further block is the one whose turn comes after the last block.
        // An error drops the receivers, which ends the threads.
        for receiver in receivers.iter().cycle() {
            let Ok(block) = receiver.recv() else { break };
            out.write_all(&block)?;
        }
        out.flush()
    })
}

fn make_blocks(
    hits: &Hits,
    form: TextForm,
    (first, threads): (u16, u16),
    sender: &SyncSender<Vec<u8>>,
) {
    for block in (u64::from(first)..hits.rows().div_ceil(BLOCK_ROWS)).step_by(threads.into()) {
        let start = block * BLOCK_ROWS;
        let end = hits.rows().min(start.saturating_add(BLOCK_ROWS));
        let mut bytes = Vec::new();
        // No receiver is left after an error of the output.
        if hits.write(form, start..end, &mut bytes).is_err() || sender.send(bytes).is_err() {
            return;
        }
    }
}
