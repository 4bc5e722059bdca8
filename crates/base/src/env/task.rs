//! Background work: a pool of threads, or in tests a queue that the test steps by hand.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One piece of background work. What it has to tell of a panic it catches itself: of one that comes
/// out of it nothing is known but that the job is gone. No thread ends by it.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// Runs background work.
pub trait Tasks: Send + Sync + 'static {
    /// Queues `job`; it runs later, on some thread, at most once. Jobs may start in any order.
    fn submit(&self, job: Job);

    /// Queues `job` once `delay` has passed. Forgotten if the environment ends before.
    fn submit_later(&self, delay: Duration, job: Job);

    /// Jobs that run at the same time at most: what is divided for threads need not have more parts.
    fn threads(&self) -> usize;

    /// Runs one queued job on the calling thread if this is a single-threaded (simulated)
    /// environment; returns whether it did. A thread that waits for background work calls this
    /// before it sleeps, so that a simulation cannot wait for itself. The real pool returns
    /// `false` at once.
    fn help(&self) -> bool;
}

/// Starts a thread called `name`, for work that waits for others most of its time. Who starts it sees to
/// its end.
pub fn start_thread(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// Jobs that wait for their time. Few at once, so a plain list.
    later: Vec<(Instant, Job)>,
    closed: bool,
}

impl QueueState {
    /// Moves the jobs whose time has come to the queue; tells when the next one's comes.
    fn collect_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let due = self.later.extract_if(.., |(at, _)| *at <= now);
        self.jobs.extend(due.map(|(_, job)| job));
        self.later.iter().map(|(at, _)| *at).min()
    }
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
                // The job was all there was of it: nothing it left half done is met here.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a background job panicked");
                }
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
            let next = state.collect_due();
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            match next {
                Some(at) => {
                    self.wake.wait_until(&mut state, at);
                }
                None => self.wake.wait(&mut state),
            }
        }
    }
}

impl Tasks for ThreadPool {
    fn submit(&self, job: Job) {
        self.queue.state.lock().jobs.push_back(job);
        self.queue.wake.notify_one();
    }

    fn submit_later(&self, delay: Duration, job: Job) {
        self.queue.state.lock().later.push((Instant::now() + delay, job));
        self.queue.wake.notify_one();
    }

    fn threads(&self) -> usize {
        self.threads.len()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_and_delayed_jobs_run_after_their_delay() {
        let pool = ThreadPool::new(2);
        let (send, receive) = mpsc::channel();
        let (late, begin) = (send.clone(), Instant::now());
        let delay = Duration::from_millis(20);
        pool.submit_later(delay, Box::new(move || late.send("late").unwrap()));
        pool.submit(Box::new(move || send.send("soon").unwrap()));
        assert_eq!([receive.recv(), receive.recv()], [Ok("soon"), Ok("late")]);
        assert!(begin.elapsed() >= delay);
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_with_it() {
        let pool = ThreadPool::new(1);
        let (send, receive) = mpsc::channel();
        for number in 0..3 {
            let send = send.clone();
            pool.submit(Box::new(move || std::panic::resume_unwind(Box::new(number))));
            pool.submit(Box::new(move || send.send(number).unwrap()));
        }
        assert_eq!(receive.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
