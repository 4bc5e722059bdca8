//! A simulated machine: files in memory that lose what was not synced, a clock that stands still,
//! background work that runs when it is helped. Single-threaded use is deterministic: the same
//! seed and the same calls give the same machine, so a failing test is its seed.
//!
//! ```
//! use base::env::sim::SimEnv;
//! use std::path::Path;
//!
//! let machine = SimEnv::new(42);
//! let env = machine.env();
//! let mut file = env.fs.create(Path::new("a")).unwrap();
//! file.write_all_at(b"synced", 0).unwrap();
//! file.sync().unwrap();
//! env.fs.sync_dir(Path::new("")).unwrap();
//! file.write_all_at(b"SYNCED", 0).unwrap();
//! let machine = machine.power_loss();
//! assert!(machine.fs.read(Path::new("a")).unwrap().eq_ignore_ascii_case(b"synced"));
//! ```

mod clock;
mod disk;
mod faults;
mod fs;
mod tasks;

pub use clock::SimClock;
pub use disk::SECTOR_BYTES;
pub use faults::{Call, Fault, FaultPoint};
pub use fs::SimFs;
pub use tasks::SimTasks;

use super::Env;
use super::rng::Rng;
use std::sync::Arc;

/// A simulated machine and the handles that a test turns its screws with.
pub struct SimEnv {
    /// Files and directories, and their faults.
    pub fs: SimFs,
    /// Time.
    pub clock: Arc<SimClock>,
    /// Background work.
    pub tasks: Arc<SimTasks>,
    rng: Rng,
}

impl SimEnv {
    /// A machine with an empty disk. All that is random about it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(rng.next_u64());
        let clock = Arc::new(SimClock::new());
        let tasks = Arc::new(SimTasks::new(rng.next_u64(), Arc::clone(&clock)));
        Self { fs, clock, tasks, rng }
    }

    /// Returns the environment that the engine runs in.
    pub fn env(&self) -> Env {
        Env {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::<SimClock>::clone(&self.clock),
            tasks: Arc::<SimTasks>::clone(&self.tasks),
        }
    }

    /// Cuts the power, if it is not off yet, and starts the machine again with what survived.
    /// Everything opened before fails from now on; queued work is forgotten. The clock goes on.
    #[must_use]
    pub fn power_loss(mut self) -> Self {
        let fs = self.fs.reboot();
        self.restart(fs)
    }

    /// Kills the process, as by signal 9: the page cache survives, open files and queued work do
    /// not.
    #[must_use]
    pub fn kill(mut self) -> Self {
        let fs = self.fs.kill();
        self.restart(fs)
    }

    fn restart(&mut self, fs: SimFs) -> Self {
        self.tasks.forget();
        let clock = Arc::clone(&self.clock);
        let tasks = Arc::new(SimTasks::new(self.rng.next_u64(), Arc::clone(&clock)));
        Self { fs, clock, tasks, rng: self.rng.fork() }
    }
}
