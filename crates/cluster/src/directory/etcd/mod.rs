//! The directory in etcd, version 3.4 or newer, by its API v3 over gRPC.
//!
//! The client is our own, since the ones that are published need a compiler of protocol buffers
//! where they are built; see decision 39. `messages.rs` has the messages, `client.rs` the calls.

mod client;
mod messages;

use super::error::{Error, Result};
use super::{
    Change, Directory, Event, Item, Key, LeaseId, Outcome, Revision, Snapshot, Watch, Write,
};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use client::{Client, Repeat, error_of};
use futures::{StreamExt, stream};
use messages::{
    Compare, DeleteRangeRequest, Ignored, KeyValue, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest, RangeRequest,
    RangeResponse, Request, RequestOp, TARGET_MOD, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchEvent, WatchRequest, WatchResponse, WatchWish,
};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;

/// Keys that one call reads. The largest values of so many fit into an answer.
const PAGE_KEYS: i64 = 48;
/// Longest wait for the answer of a keep-alive, and for the start of a watch.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Times that a read begins again because etcd compacted its revision.
const READS_MAX: u32 = 3;

/// Place of a cluster's directory in etcd.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// Addresses of etcd's members, `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Configuration of TLS, which each new connection loads; `None` connects without.
    pub tls: Option<Arc<ArcSwap<ClientConfig>>>,
    /// Beginning of all keys, so that clusters can share an etcd, such as `stele/`.
    pub prefix: String,
}

/// A directory that etcd keeps.
pub struct EtcdDirectory {
    client: Client,
    prefix: String,
}

impl EtcdDirectory {
    /// Returns the directory, which connects when it is used. `Invalid` for
    /// malformed addresses.
    pub fn new(options: EtcdOptions) -> Result<Self> {
        if !options.prefix.ends_with('/') {
            let text = "the prefix of a directory in etcd ends with '/', such as 'stele/'";
            return Err(Error::Invalid(text.to_owned()));
        }
        Ok(Self { client: Client::new(&options)?, prefix: options.prefix })
    }

    fn full(&self, key: &str) -> Bytes {
        Bytes::from([self.prefix.as_bytes(), key.as_bytes()].concat())
    }

    /// Reads the keys from `key` to `range_end`, which is empty for the one key.
    async fn read_once(&self, mut key: Bytes, range_end: Bytes) -> Result<Snapshot> {
        let (mut items, mut revision) = (Vec::new(), 0);
        loop {
            let range =
                RangeRequest { key, range_end: range_end.clone(), limit: PAGE_KEYS, revision };
            let page: RangeResponse =
                self.client.call("/etcdserverpb.KV/Range", range, Repeat::Harmless).await?;
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            // The smallest key that comes after the last one.
            key = page
                .kvs
                .last()
                .map_or_else(Bytes::new, |last| [&last.key[..], b"\0"].concat().into());
            for kv in page.kvs {
                items.push(item(&self.prefix, kv)?);
            }
            if !page.more {
                return Ok(Snapshot { items, revision: Revision(revision as u64) });
            }
        }
    }
}

/// Returns the first key after all that begin with `prefix`; `\0` if no key comes after.
fn after_all(prefix: &[u8]) -> Bytes {
    let kept = prefix.iter().rposition(|byte| *byte < 0xff).map_or(0, |at| at + 1);
    let mut end = prefix[..kept].to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end.into()
}

fn item(prefix: &str, kv: KeyValue) -> Result<Item> {
    let Some(key) = kv.key.strip_prefix(prefix.as_bytes()) else {
        return Err(Error::damaged(
            kv.key.escape_ascii(),
            "etcd told a key that was not asked for",
        ));
    };
    let key = std::str::from_utf8(key)
        .map_err(|_| Error::damaged(kv.key.escape_ascii(), "the key is not UTF-8"))?;
    Ok(Item { key: key.to_owned(), value: kv.value, revision: Revision(kv.mod_revision as u64) })
}

fn event(prefix: &str, told: WatchEvent) -> Result<Event> {
    let item = item(prefix, told.kv.unwrap_or_default())?;
    Ok(match told.kind {
        0 => Event::Put(item),
        _ => Event::Gone { key: item.key, revision: item.revision },
    })
}

#[async_trait]
impl Directory for EtcdDirectory {
    async fn read(&self, prefix: &str) -> Result<Snapshot> {
        let key = self.full(prefix);
        let range_end = after_all(&key);
        let mut reads = 1;
        loop {
            match self.read_once(key.clone(), range_end.clone()).await {
                Err(Error::Compacted) if reads < READS_MAX => reads += 1,
                read => return read,
            }
        }
    }

    async fn get(&self, key: &Key) -> Result<Snapshot> {
        self.read_once(self.full(&key.to_string()), Bytes::new()).await
    }

    async fn change(&self, change: Change) -> Result<Outcome> {
        change.check()?;
        let compare = change.expected.iter().map(|(key, revision)| Compare {
            result: 0,
            target: TARGET_MOD,
            key: self.full(key),
            mod_revision: Some(revision.0 as i64),
        });
        let request = TxnRequest {
            compare: compare.collect(),
            success: change.writes.into_iter().map(|write| self.operation(write)).collect(),
        };
        let txn: TxnResponse =
            self.client.call("/etcdserverpb.KV/Txn", request, Repeat::Never).await?;
        let revision = txn.header.map_or(0, |header| header.revision);
        Ok(if txn.succeeded { Outcome::Done(Revision(revision as u64)) } else { Outcome::Conflict })
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch> {
        let key = self.full(prefix);
        let wish = WatchRequest {
            wish: Some(WatchWish::Create(WatchCreateRequest {
                range_end: after_all(&key),
                key,
                start_revision: after.0 as i64 + 1,
                fragment: true,
            })),
        };
        // The stream of requests stays open as long as the watch.
        let requests = || stream::iter([wish.clone()]).chain(stream::pending());
        let answers = self.client.stream("/etcdserverpb.Watch/Watch", requests).await?;
        let mut watching =
            Watching { answers, prefix: self.prefix.clone(), part: Vec::new(), broken: false };
        watching.created().await?;
        let told = stream::unfold(watching, |mut watching| async {
            let next = watching.next().await?;
            Some((next, watching))
        });
        Ok(told.boxed())
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId> {
        // At least one second, as etcd counts seconds. A lease that is granted twice ends by itself.
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1);
        let request = LeaseGrantRequest { ttl };
        let granted: LeaseGrantResponse =
            self.client.call("/etcdserverpb.Lease/LeaseGrant", request, Repeat::Harmless).await?;
        Ok(LeaseId(granted.id))
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        let request = LeaseKeepAliveRequest { id: lease.0 };
        let requests = || stream::iter([request.clone()]).chain(stream::pending());
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let mut answers: Streaming<LeaseKeepAliveResponse> =
            self.client.stream(path, requests).await?;
        let answer = tokio::time::timeout(ANSWER_MAX, answers.message()).await;
        let silent = || Error::Unavailable("etcd does not answer a keep-alive".to_owned());
        let answer = answer.map_err(|_| silent())?.map_err(|status| error_of(&status))?;
        match answer.ok_or_else(silent)?.ttl {
            ..=0 => Err(Error::LeaseLost),
            _ => Ok(()),
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        let request = LeaseRevokeRequest { id: lease.0 };
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        match self.client.call::<_, Ignored>(path, request, Repeat::Harmless).await {
            Ok(_) | Err(Error::LeaseLost) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn name(&self) -> String {
        format!("etcd at {}, keys below '{}'", self.client.names(), self.prefix)
    }
}

impl EtcdDirectory {
    fn operation(&self, write: Write) -> RequestOp {
        let request = match write {
            Write::Put { key, value, lease } => {
                let lease = lease.map_or(0, |lease| lease.0);
                Request::Put(PutRequest { key: self.full(&key), value, lease })
            }
            Write::Remove { key } => {
                Request::DeleteRange(DeleteRangeRequest { key: self.full(&key) })
            }
        };
        RequestOp { request: Some(request) }
    }
}

/// A watch that etcd has taken.
struct Watching {
    answers: Streaming<WatchResponse>,
    prefix: String,
    /// Events of answers that are to be continued: a change is told whole.
    part: Vec<Event>,
    broken: bool,
}

impl Watching {
    /// Waits until etcd has taken the watch.
    async fn created(&mut self) -> Result<()> {
        let answer = tokio::time::timeout(ANSWER_MAX, self.answers.message()).await;
        let silent = || Error::Unavailable("etcd does not answer a watch".to_owned());
        let answer = answer.map_err(|_| silent())?.map_err(|status| error_of(&status))?;
        self.check(&answer.ok_or_else(silent)?)
    }

    fn check(&self, answer: &WatchResponse) -> Result<()> {
        match answer.canceled {
            true if answer.compact_revision > 0 => Err(Error::Compacted),
            true => {
                let reason = &answer.cancel_reason;
                Err(Error::Unavailable(format!("etcd ended a watch: {reason}")))
            }
            false => Ok(()),
        }
    }

    /// Returns the next events; after an error, nothing.
    async fn next(&mut self) -> Option<Result<Vec<Event>>> {
        if self.broken {
            return None;
        }
        let next = self.events().await;
        self.broken = next.is_err();
        Some(next)
    }

    async fn events(&mut self) -> Result<Vec<Event>> {
        loop {
            let answer = self.answers.message().await.map_err(|status| error_of(&status))?;
            let ended = || Error::Unavailable("etcd ended a watch".to_owned());
            let answer = answer.ok_or_else(ended)?;
            self.check(&answer)?;
            for told in answer.events {
                self.part.push(event(&self.prefix, told)?);
            }
            if !answer.fragment && !self.part.is_empty() {
                return Ok(std::mem::take(&mut self.part));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_that_has_another() {
        for (prefix, want) in
            [(&b"stele/"[..], &b"stele0"[..]), (b"a\xff\xff", b"b"), (b"\xff", b"\0"), (b"", b"\0")]
        {
            assert_eq!(after_all(prefix), want);
        }
    }
}
