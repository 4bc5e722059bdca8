//! The handshakes of connections that others make. Any program that reaches the port can begin one and
//! leave it.
//!
//! So many are under way at a time. One more ends the oldest one of the address that has the most: an address that
//! leaves its handshakes ends its own, and addresses in great number end one that takes longer than they come.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// Handshakes at the same time.
const HANDSHAKES: usize = 64;

/// The header of this file describes it.
#[derive(Clone, Default)]
pub(super) struct Handshakes(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: u64,
    /// In the order in which they began.
    running: VecDeque<Running>,
}

struct Running {
    number: u64,
    from: IpAddr,
    task: AbortHandle,
}

/// A handshake, until it is over.
struct Counted(Handshakes, u64);

impl Drop for Counted {
    fn drop(&mut self) {
        let running = &mut self.0.0.lock().running;
        running.retain(|one| one.number != self.1);
    }
}

impl Handshakes {
    /// Begins the handshake of a connection from an address in a task.
    pub(super) fn begin(&self, from: IpAddr, handshake: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.0.lock();
        let ended = state.make_room();
        state.last += 1;
        let counted = Counted(self.clone(), state.last);
        let task = tokio::spawn(async move {
            handshake.await;
            drop(counted);
        });
        let running = Running { number: state.last, from, task: task.abort_handle() };
        state.running.push_back(running);
        drop(state);
        // A task that is over drops what it has at once, which takes the lock.
        ended.iter().for_each(|one| {
            tracing::info!(from = %one.from, "too many connections make no handshake; ended the oldest");
            one.task.abort();
        });
    }
}

impl State {
    /// Takes out as many as are too many with one more.
    fn make_room(&mut self) -> Vec<Running> {
        let mut ended = Vec::new();
        while self.running.len() >= HANDSHAKES {
            let mut counts = HashMap::<IpAddr, usize>::new();
            self.running.iter().for_each(|one| *counts.entry(one.from).or_default() += 1);
            let most = counts.values().copied().max();
            let oldest = |one: &Running| counts.get(&one.from).copied() == most;
            let at = self.running.iter().position(oldest);
            ended.extend(at.and_then(|at| self.running.remove(at)));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn one_more_handshake_ends_the_oldest_of_the_address_with_the_most() {
        let handshakes = Handshakes::default();
        let address = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let begin = |from: IpAddr| {
            // Dropped with the task.
            let (alive, ended) = oneshot::channel::<()>();
            handshakes.begin(from, async move {
                let _alive = alive;
                std::future::pending().await
            });
            ended
        };
        let node = begin(address(1));
        let mut others: Vec<_> = (1..HANDSHAKES).map(|_| begin(address(2))).collect();
        let late = begin(address(3));
        let first = others.remove(0);
        assert!(first.await.is_err(), "it is ended");
        assert_eq!(handshakes.0.lock().running.len(), HANDSHAKES);
        for mut stays in others.into_iter().chain([node, late]) {
            assert_eq!(stays.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        }
        // One that is over makes room.
        let (over, is_over) = oneshot::channel();
        handshakes.begin(address(4), async move { over.send(()).unwrap() });
        is_over.await.unwrap();
        while handshakes.0.lock().running.iter().any(|one| one.from == address(4)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(handshakes.0.lock().running.len(), HANDSHAKES - 1);
    }
}
