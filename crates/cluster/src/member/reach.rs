//! Proof that other nodes reach this one at the address that it advertises. Without it the node would get replicas, and
//! nothing of what they are to hold.
//!
//! 1. A node that never had a replica does not start where it is not reached: its settings are wrong.
//! 2. A node that has replicas starts, since it may be needed, and shows its sign of life when it is reached.

use crate::directory::{Key, Mirror};
use crate::group::NodeId;
use crate::link::Link;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Time after which a new node gives up.
const NEW_MAX: Duration = Duration::from_secs(15);
/// Pause between two attempts to be reached.
const AGAIN: Duration = Duration::from_millis(500);
/// Time between two lines of the log that say the same.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Nodes that are asked to dial.
const PEERS_MAX: usize = 3;

/// The header of this file describes it.
pub(super) struct Reaching {
    pub(super) links: Link,
    pub(super) mirror: Mirror,
    pub(super) me: NodeId,
    /// The address that the node advertises.
    pub(super) address: String,
}

impl Reaching {
    /// Waits until the node is reached, for some time. The error says why it is not, and what to set.
    pub(super) async fn of_new_node(&self) -> Result<(), String> {
        let until = Instant::now() + NEW_MAX;
        loop {
            match self.check().await {
                Err(why) if Instant::now() >= until => return Err(self.advice(&why)),
                Err(_) => tokio::time::sleep(AGAIN).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Waits until the node is reached; clears `hidden` then.
    pub(super) async fn run(self, hidden: Arc<AtomicBool>) {
        let mut told: Option<Instant> = None;
        while let Err(why) = self.check().await {
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                tracing::error!("{}", self.advice(&why));
                told = Some(Instant::now());
            }
            tokio::time::sleep(AGAIN).await;
        }
        hidden.store(false, Ordering::Release);
    }

    async fn check(&self) -> Result<(), String> {
        let alive = self.mirror.below(Key::ALIVE).into_iter().filter_map(|item| {
            match Key::parse(&item.key) {
                Some(Key::Alive(node)) if node != self.me => Some(node),
                _ => None,
            }
        });
        let peers: Vec<_> = alive.take(PEERS_MAX).collect();
        self.links.check_reached(&self.address, &peers).await
    }

    fn advice(&self, why: &str) -> String {
        format!(
            "other nodes do not reach this node at {}, the address that it advertises: {why}. Set 'advertise' to a \
             HOST:PORT at which they reach 'cluster_listen' of this node, open the port, and with TLS use a \
             certificate that is valid for the host",
            self.address
        )
    }
}
