//! Frames that wait for one node.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Notify;

/// A queue with a bound of bytes, for many writers and one reader.
#[derive(Debug)]
pub(super) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    /// Wakes the reader when the queue is no longer empty.
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    dropped: u64,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, waiting: Mutex::default(), filled: Notify::new() }
    }

    /// Adds a frame at the end, or drops it if there is no room. One frame always fits.
    pub(super) fn push(&self, frame: Bytes) {
        {
            let mut waiting = self.waiting.lock();
            let bytes = waiting.bytes.saturating_add(frame.len());
            if !waiting.frames.is_empty() && bytes > self.bytes_max {
                waiting.dropped += 1;
                return;
            }
            waiting.bytes = bytes;
            waiting.frames.push_back(frame);
        }
        self.filled.notify_one();
    }

    /// Takes the first frame; `None` if none comes within `bound`.
    pub(super) async fn pop(&self, bound: Duration) -> Option<Bytes> {
        let pop = async {
            loop {
                if let Some(frame) = self.take() {
                    return frame;
                }
                self.filled.notified().await;
            }
        };
        tokio::time::timeout(bound, pop).await.ok()
    }

    fn take(&self) -> Option<Bytes> {
        let mut waiting = self.waiting.lock();
        let frame = waiting.frames.pop_front()?;
        waiting.bytes -= frame.len();
        Some(frame)
    }

    /// Drops all frames that wait.
    pub(super) fn clear(&self) {
        let mut waiting = self.waiting.lock();
        waiting.dropped += waiting.frames.len() as u64;
        waiting.frames.clear();
        waiting.bytes = 0;
    }

    /// Returns the number of frames that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_drops_the_newest_and_keeps_the_order() {
        let queue = Queue::new(10);
        for frame in ["12345", "67890", "x"] {
            queue.push(frame.into());
        }
        assert_eq!(queue.dropped(), 1);
        for want in ["12345", "67890"] {
            assert_eq!(queue.pop(Duration::ZERO).await.unwrap(), want);
        }
        assert_eq!(queue.pop(Duration::ZERO).await, None);
        queue.push("larger than the bound".into());
        queue.clear();
        assert_eq!(queue.pop(Duration::ZERO).await, None);
        assert_eq!(queue.dropped(), 2);
    }
}
