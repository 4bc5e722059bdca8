//! Connections as they come: a bounded number at one time, each with a task of its own.

use super::startup::set_options;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// Pause after an error of the listener, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// Connections beyond the limit that are told so, at one time.
const TURNED_AWAY_MAX: usize = 32;

/// A connection that has come.
pub(super) struct Arrived {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    /// The place of the connection, which it keeps until this is dropped; nothing for one to be turned away.
    pub(super) place: Option<OwnedSemaphorePermit>,
    /// Bounds the connections that are being turned away.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

impl Arrived {
    /// Returns true if the other end is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Has the connection be turned away.
    pub(super) fn give_up_place(&mut self) {
        // Its permit bounds it as one to be turned away.
        self.turn = self.place.take().or(self.turn.take());
    }
}

/// Has each connection of `listener` served by `serve`, on `threads`, until `draining` changes or closes. Returns
/// the tasks that go on.
pub(super) async fn accept_all<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    (connections_max, threads): (usize, &Handle),
    draining: &mut watch::Receiver<()>,
    serve: impl Fn(Arrived) -> F,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let places = Arc::new(Semaphore::new(connections_max));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            _ = draining.changed() => return tasks,
        };
        let accepted = accepted.and_then(|(stream, address)| {
            // Its events come on the threads of its session.
            let stream = stream.into_std()?;
            let _threads = threads.enter();
            Ok((TcpStream::from_std(stream)?, address))
        });
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let place = Arc::clone(&places).try_acquire_owned().ok();
        let turn = match &place {
            Some(_) => None,
            None => match Arc::clone(&turned_away).try_acquire_owned() {
                Ok(turn) => Some(turn),
                Err(_) => continue,
            },
        };
        set_options(&stream);
        tasks.spawn_on(serve(Arrived { stream, address, place, turn }), threads);
    }
}

/// Waits for the end of tasks, for at most `grace`. Then cancels what is left, and ends it.
pub(super) async fn end_all(mut tasks: JoinSet<()>, grace: Duration, cancel: impl FnOnce()) {
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        cancel();
        tasks.shutdown().await;
    }
}
