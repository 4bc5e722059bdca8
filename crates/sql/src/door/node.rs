//! The door of a node of a cluster: it serves the database while this node has it, and hands connections to the
//! node that has it otherwise.
//!
//! 1. A connection that no node can serve now waits for a while, and is then told so (57P03).
//! 2. One that was forwarded to this node in error ends at once, and the node that forwarded it searches on.
//! 3. A connection to another node ends when the database is known to have moved from there.
//! 4. A client without a place is handed on too: it may want to cancel a statement. The leader tells it that it has
//!    none.
//! 5. A connection that is handed on counts on both nodes: as open, and as refused where it found no place.

use super::arrival::{Arrived, accept_all, end_all};
use super::forward::{self, Forwarded};
use super::{CurrentTls, Door, Parts, startup};
use relational::{Error, SqlState};
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

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
    /// A forwarded connection that is not served here.
    Back,
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
        let way = self.way(&mut arrived);
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
                let counts = &self.parts.counts;
                counts.forward();
                let _open = counts.open();
                if arrived.place.is_none() {
                    counts.refuse();
                }
                let stop = async { drop(stop.changed().await) };
                // Both permits live until the copy ends.
                let Arrived { stream, place, turn: _turn, .. } = arrived;
                let copied = forward::copy(stream, leader, self.moved_from(&address), stop);
                match place {
                    Some(_) => copied.await,
                    // The leader ends it within the same time.
                    None => drop(tokio::time::timeout(self.parts.options.startup, copied).await),
                }
            }
            Way::Nowhere => {
                let error = if arrived.place.is_some() { nowhere() } else { too_many() };
                self.turn_away(arrived, tls, error).await;
            }
            Way::Back => {}
        }
    }

    /// Finds the node that serves a connection.
    async fn way(&self, arrived: &mut Arrived) -> io::Result<Way> {
        match forward::read_preamble(&mut arrived.stream).await? {
            Some(client) => self.way_of_forwarded(arrived, client).await,
            None => Ok(self.search(arrived).await),
        }
    }

    /// Answers a preamble. The client is served here, or not by this node.
    async fn way_of_forwarded(&self, arrived: &mut Arrived, client: Forwarded) -> io::Result<Way> {
        let seat = self.seat.borrow().clone();
        let is_local = arrived.is_local() && client.is_local;
        if !client.has_place {
            arrived.give_up_place();
        }
        forward::answer(&mut arrived.stream, matches!(seat, Seat::Here(_))).await?;
        Ok(match seat {
            Seat::Here(door) => Way::Here(door, is_local),
            Seat::At(_) | Seat::Unknown => Way::Back,
        })
    }

    /// Searches for the node that has the database. A client without a place waits for none.
    async fn search(&self, arrived: &Arrived) -> Way {
        let client = Forwarded { is_local: arrived.is_local(), has_place: arrived.place.is_some() };
        let until = Instant::now() + self.parts.options.search;
        let mut seat = self.seat.clone();
        loop {
            let now = seat.borrow_and_update().clone();
            match now {
                Seat::Here(door) => return Way::Here(door, client.is_local),
                Seat::At(address) => match forward::connect(&address, client).await {
                    Ok(stream) => return Way::To(address, stream),
                    Err(error) => tracing::debug!(address, %error, "could not forward"),
                },
                Seat::Unknown => {}
            }
            if Instant::now() >= until || !client.has_place {
                return Way::Nowhere;
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
