//! The attackers' process: many attackers that do the same again and again, and their tally.

use super::attacks::Attack;
use super::credentials::Credentials;
use crate::AnyError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::Code;

/// Wait of an attacker whose turn failed.
const PAUSE: Duration = Duration::from_millis(20);

/// The deeds of the attackers, and the server's answers to them.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Connections, requests or frames that were sent, as each attack counts.
    pub(super) sent: u64,
    /// Turns that the server ended by closing or refusing a connection.
    pub(super) closed: u64,
    /// Numbers of answers by code.
    pub(super) codes: BTreeMap<String, u64>,
    /// Requests that were served and must not be.
    pub(super) let_in: u64,
    /// The first of them in words.
    pub(super) intruder: Option<String>,
    /// Answers that came too late.
    pub(super) late: u64,
}

impl Tally {
    /// Returns the tally in a few words.
    pub(super) fn line(&self) -> String {
        let codes = self.codes.iter().map(|(code, count)| format!(", {count} {code}"));
        format!("{} sent, {} closed{}", self.sent, self.closed, codes.collect::<String>())
    }
}

/// The state that all attackers of a process share.
pub(super) struct Field {
    pub(super) address: SocketAddr,
    pub(super) http: Option<SocketAddr>,
    /// Credentials of a server that knows its clients.
    pub(super) credentials: Option<Credentials>,
    tally: Mutex<Tally>,
}

impl Field {
    /// Locks the tally of all attackers.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `count` to the sent ones.
    pub(super) fn sent(&self, count: u64) {
        self.tally().sent += count;
    }

    /// Adds an answer to its code.
    pub(super) fn answered(&self, code: Code) {
        *self.tally().codes.entry(format!("{code:?}")).or_default() += 1;
    }

    /// Notes a request that was served and must not be.
    pub(super) fn let_in(&self, intruder: String) {
        let mut tally = self.tally();
        tally.let_in += 1;
        tally.intruder.get_or_insert(intruder);
    }

    /// Returns the header by which attackers sign in, if the server knows its clients.
    pub(super) fn authorization(&self) -> Option<String> {
        self.credentials.as_ref().map(|known| format!("Bearer {}", known.attacker))
    }

    /// Connects to the Bigtable service.
    pub(super) async fn connect(&self) -> Result<TcpStream, AnyError> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Attacks the server at `address` for `length`; returns what came of it.
pub(super) async fn attack(
    attack: Attack,
    address: SocketAddr,
    http: Option<SocketAddr>,
    credentials: Option<Credentials>,
    length: Duration,
) -> Result<Tally, AnyError> {
    allow_many_files()?;
    let field = Arc::new(Field { address, http, credentials, tally: Mutex::default() });
    for _ in 0..attack.attackers() {
        let field = Arc::clone(&field);
        tokio::spawn(async move {
            loop {
                if attack.turn(Arc::clone(&field)).await.is_err() {
                    field.tally().closed += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
    tokio::time::sleep(length).await;
    let tally = field.tally().clone();
    Ok(tally)
}

/// Allows this process as many open files as the system does.
fn allow_many_files() -> Result<(), AnyError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(())
}
