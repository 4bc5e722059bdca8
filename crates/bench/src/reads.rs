//! `bench reads`: random reads of one file through a read queue, to set beside what `fio` gets
//! from the same file with the same block size and depth.

use crate::measure::Phase;
use crate::timing::Random;
use base::env::fs::{FileSystem, ReadFile};
use base::env::read_queue::{Completed, PreadQueue, ReadQueue};
use base::env::{Clock, RealFileSystem, SystemClock};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of `bench reads`.
#[derive(Debug, Args)]
pub(crate) struct ReadsArgs {
    /// File to read. It should be far larger than the caches of the disk.
    #[arg(long)]
    file: PathBuf,
    /// Bytes of each read.
    #[arg(long, default_value_t = 4096)]
    block: usize,
    /// Reads in flight.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// How long to read.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Wait for all reads in flight before the next are submitted, as a multi-get does, instead
    /// of replacing each as it is done.
    #[arg(long)]
    batch: bool,
    /// Read at any offset instead of multiples of the block.
    #[arg(long)]
    unaligned: bool,
    /// Read through the page cache.
    #[arg(long)]
    buffered: bool,
    /// Read one after the other, without io_uring.
    #[arg(long)]
    pread: bool,
    /// Print JSON instead of a line for people.
    #[arg(long)]
    json: bool,
    /// Seed of the offsets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the benchmark.
#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
pub(crate) fn run(args: &ReadsArgs) -> Result<(), Box<dyn std::error::Error>> {
    let fs = RealFileSystem;
    let file =
        if args.buffered { fs.open_read(&args.file)? } else { fs.open_read_direct(&args.file)? };
    let len = usize::try_from(file.size()?)?;
    if args.block == 0 || len < args.block || args.depth == 0 {
        return Err("the file must hold a block, and the depth be at least 1".into());
    }
    let queue: Box<dyn ReadQueue> = match args.pread {
        true => Box::new(PreadQueue::new(args.depth)),
        false => fs.read_queue(args.depth),
    };
    let cached = if file.is_direct() { "direct" } else { "buffered" };
    let name = format!("{:?} {cached} {} x{}", queue.kind(), args.block, args.depth);
    let mut reader = Reader { args, queue, file, len, random: Random(args.seed) };
    let phase = Phase::measure(&name, || reader.read())?;
    println!("{}", if args.json { phase.json() } else { phase.line() });
    Ok(())
}

struct Reader<'a> {
    args: &'a ReadsArgs,
    queue: Box<dyn ReadQueue>,
    file: Arc<dyn ReadFile>,
    len: usize,
    random: Random,
}

impl Reader<'_> {
    /// Reads until the time is over; how many reads were done.
    fn read(&mut self) -> io::Result<u64> {
        let end = SystemClock.monotonic() + Duration::from_secs_f64(self.args.seconds);
        let at_least = if self.args.batch { self.args.depth } else { 1 };
        let mut count = 0;
        let mut done: Vec<Completed> = Vec::with_capacity(self.args.depth);
        while SystemClock.monotonic() < end {
            while self.queue.in_flight() < self.args.depth {
                self.submit();
            }
            self.queue.wait(at_least, &mut done);
            for completed in done.drain(..) {
                std::hint::black_box(&completed.result?[..]);
                count += 1;
            }
        }
        Ok(count)
    }

    fn submit(&mut self) {
        let block = self.args.block;
        let offset = match self.args.unaligned {
            true => self.random.below(self.len - block + 1),
            false => self.random.below(self.len / block) * block,
        };
        self.queue.submit(0, &self.file, offset as u64, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_runs_small() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, vec![1; 100_000]).unwrap();
        for switches in 0..16 {
            let args = ReadsArgs {
                file: file.clone(),
                block: 4096,
                depth: 4,
                seconds: 0.002,
                batch: switches & 1 != 0,
                unaligned: switches & 2 != 0,
                buffered: switches & 4 != 0,
                pread: switches & 8 != 0,
                json: false,
                seed: 1,
            };
            run(&args).unwrap();
        }
    }
}
