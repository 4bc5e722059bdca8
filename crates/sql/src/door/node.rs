//! The door of a node of a cluster: it serves the database while this node has it, and hands connections to the
//! node that has it otherwise.
//!
//! 1. A connection that no node can serve now waits for a while, and is then told so (57P03).
//! 2. One that was forwarded to this node in error is told the same: invariant 3 of `forward.rs`.
//! 3. A connection to another node ends when the database is known to have moved from there.

use super::arrival::{Arrived, accept_all, end_all};
use super::{CurrentTls, Door, Parts, forward, startup};
use relational::{Error, SqlState};
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest time for which a client waits until a node has the database, and for which one does that was forwarded.
const SEARCH_MAX: Duration = Duration::from_secs(10);
const FORWARDED_MAX: Duration = Duration::from_secs(3);
/// Pause between two attempts to reach the node that has the database.
const PAUSE: Duration = Duration::from_millis(200);

/// The node that has the database.
#[derive(Clone, Default)]
pub enum Seat {
    /// None, as far as this node knows.
    #[default]
    Unknown,
    /// This node, which serves clients by this door.
    Here(Door),
    /// The node whose door is at this address.
    At(String),
}

/// The header of this file describes it.
#[derive(Clone)]
pub struct NodeDoor {
    parts: Arc<Parts>,
    seat: watch::Receiver<Seat>,
}

/// The way that a connection takes.
enum Way {
    Here(Door, bool),
    To(String, TcpStream),
    Nowhere,
}

impl NodeDoor {
    /// Returns the door of a node which is told by `seat` where the database is.
    pub fn new(parts: Arc<Parts>, seat: watch::Receiver<Seat>) -> Self {
        Self { parts, seat }
    }

    /// Serves the clients of `listener`, as [`Door::serve`] does.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: CurrentTls,
        mut draining: watch::Receiver<()>,
        grace: Duration,
    ) {
        let stop = draining.clone();
        let take = |arrived: Arrived| self.clone().take(arrived, tls(), stop.clone());
        let places = (self.parts.options.connections_max, self.parts.threads.handle());
        let tasks = accept_all(listener, places, &mut draining, take).await;
        let cancel = || {
            if let Seat::Here(door) = &*self.seat.borrow() {
                door.0.sessions.cancel_all();
            }
        };
        end_all(tasks, grace, cancel).await;
    }

    async fn take(
        self,
        mut arrived: Arrived,
        tls: Option<Arc<ServerConfig>>,
        mut stop: watch::Receiver<()>,
    ) {
        let way = match arrived.place {
            Some(_) => self.way(&mut arrived),
            None => return self.turn_away(arrived, tls, too_many()).await,
        };
        let way = match tokio::time::timeout(self.parts.options.startup, way).await {
            Ok(Ok(way)) => way,
            Ok(Err(error)) => {
                tracing::debug!(address = %arrived.address, %error, "a connection ended early");
                return;
            }
            Err(_) => return,
        };
        match way {
            Way::Here(door, is_local) => door.take(arrived, is_local, tls, stop).await,
            Way::To(address, leader) => {
                let Arrived { stream, place, .. } = arrived;
                self.parts.counts.forward();
                let stop = async { drop(stop.changed().await) };
                forward::copy(stream, leader, self.moved_from(&address), stop).await;
                drop(place);
            }
            Way::Nowhere => self.turn_away(arrived, tls, nowhere()).await,
        }
    }

    /// Finds the node that serves a connection.
    async fn way(&self, arrived: &mut Arrived) -> io::Result<Way> {
        let forwarded = forward::read_preamble(&mut arrived.stream).await?;
        let is_local = arrived.is_local() && forwarded.unwrap_or(true);
        let search = if forwarded.is_some() { FORWARDED_MAX } else { SEARCH_MAX };
        let until = Instant::now() + search;
        let mut seat = self.seat.clone();
        loop {
            let now = seat.borrow_and_update().clone();
            match now {
                Seat::Here(door) => return Ok(Way::Here(door, is_local)),
                Seat::At(address) if forwarded.is_none() => {
                    match forward::connect(&address, is_local).await {
                        Ok(stream) => return Ok(Way::To(address, stream)),
                        Err(error) => tracing::debug!(address, %error, "could not forward"),
                    }
                }
                Seat::At(_) | Seat::Unknown => {}
            }
            if Instant::now() >= until {
                return Ok(Way::Nowhere);
            }
            let _ = tokio::time::timeout(PAUSE, seat.changed()).await;
        }
    }

    /// Waits until another node than the one at `address` is known to have the database.
    async fn moved_from(&self, address: &str) {
        let has_moved = |seat: &Seat| match seat {
            Seat::Here(_) => true,
            Seat::At(now) => now != address,
            Seat::Unknown => false,
        };
        if self.seat.clone().wait_for(has_moved).await.is_err() {
            std::future::pending().await
        }
    }

    async fn turn_away(self, arrived: Arrived, tls: Option<Arc<ServerConfig>>, error: Error) {
        self.parts.counts.refuse();
        self.parts.counts.error(error.state);
        let told = startup::turn_away(arrived.stream, tls, &error);
        let _ = tokio::time::timeout(self.parts.options.startup, told).await;
    }
}

fn too_many() -> Error {
    Error::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

fn nowhere() -> Error {
    let text = "no node of the cluster is known to lead the database now";
    Error::new(SqlState::CANNOT_CONNECT_NOW, text).with_hint("Connect again in a few seconds.")
}
