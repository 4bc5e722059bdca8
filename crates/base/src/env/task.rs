//! Background work: a pool of threads, or in tests a queue that the test steps by hand.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// One piece of background work.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// Runs background work.
pub trait Tasks: Send + Sync + 'static {
    /// Queues `job`; it runs later, on some thread, at most once. Jobs may start in any order.
    fn submit(&self, job: Job);

    /// Runs one queued job on the calling thread if this is a single-threaded (simulated)
    /// environment; returns whether it did. A thread that waits for background work calls this
    /// before it sleeps, so that a simulation cannot wait for itself. The real pool returns
    /// `false` at once.
    fn help(&self) -> bool;
}

struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A fixed set of threads. Dropping it waits for the jobs that run and forgets those that wait.
pub struct ThreadPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// A pool of `threads` threads (at least one).
    pub fn new(threads: usize) -> Self {
        let queue = Arc::new(Queue { state: Mutex::default(), wake: Condvar::new() });
        let threads = (0..threads.max(1)).map(|index| spawn(index, Arc::clone(&queue))).collect();
        Self { queue, threads }
    }
}

fn spawn(index: usize, queue: Arc<Queue>) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(format!("stele-bg-{index}"))
        .spawn(move || {
            while let Some(job) = queue.take() {
                job();
            }
        })
        .expect("the system can start a thread at open")
}

impl Queue {
    fn take(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            self.wake.wait(&mut state);
        }
    }
}

impl Tasks for ThreadPool {
    fn submit(&self, job: Job) {
        self.queue.state.lock().jobs.push_back(job);
        self.queue.wake.notify_one();
    }

    fn help(&self) -> bool {
        false
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.wake.notify_all();
        let this = std::thread::current().id();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != this {
                let _ = thread.join();
            }
        }
    }
}
