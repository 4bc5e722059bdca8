//! The directory of a cluster: the small, seldom changed state that all nodes must agree on, such as
//! nodes, schemas and the placement of groups. docs/format/directory.md lists its keys.
//!
//! A [`Directory`] keeps bytes by key, with a revision for each change: [`EtcdDirectory`] in etcd,
//! [`LocalDirectory`] in a file that processes of one machine share. Both pass one conformance suite
//! (`tests/it/directory`). Above them, [`Mirror`] keeps a copy in memory, which serves while the
//! directory does not; [`join`] and [`Presence`] register a node and keep its lease; [`DirectoryMeta`] gives the table
//! layer its schema, and [`follow`] tells it what other nodes change.
//!
//! 1. Revisions rise by one change each, over all keys. A change takes effect whole or not at all.
//! 2. A change names the revisions of what it was decided on, and fails if one of them is another.
//! 3. No call waits longer than the bound of its implementation.
//! 4. A read or write of a row asks nothing of the directory.

mod checked;
mod counters;
mod error;
mod etcd;
mod identity;
mod join;
mod keys;
mod local;
mod meta;
mod mirror;
mod news;
mod presence;
mod records;

pub use counters::Used;
pub use error::{Error, Result};
pub use etcd::{EtcdDirectory, EtcdOptions};
pub use join::{Joined, NodePlace, cluster_of, found, join};
pub use keys::Key;
pub use local::LocalDirectory;
pub use meta::DirectoryMeta;
pub use mirror::{Mirror, MirrorState};
pub use news::{MetaNews, follow};
pub use presence::{Own, Presence, PresenceState};
pub use records::{
    ClusterRecord, NodeRecord, Placement, TableRecord, decode_door, encode_door,
    fuzz as fuzz_records,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::time::Duration;

/// Largest value of a key: a record of the front and its frame.
pub const VALUE_BYTES_MAX: usize = (1 << 20) + 4096;
/// Longest key of a directory, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Most bytes of keys and values of one change. Etcd takes 1.5 MiB in its default configuration.
pub const CHANGE_BYTES_MAX: usize = 5 << 18;
/// Most keys that one change compares, and most that it writes. Etcd takes 128 by default.
pub const CHANGE_KEYS_MAX: usize = 128;

/// A point in the order of all changes. 0 is before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// A lease of the directory: keys written with it vanish when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name within the directory of this cluster.
    pub key: String,
    /// Bytes that the key stands for.
    pub value: Bytes,
    /// Revision of the last change of the key.
    pub revision: Revision,
}

/// Items at one moment, in order of key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All items that were asked for.
    pub items: Vec<Item>,
    /// Last change that the items show.
    pub revision: Revision,
}

impl Snapshot {
    /// Returns the only item of an answer to [`Directory::get`].
    pub fn item(&self) -> Option<&Item> {
        self.items.first()
    }
}

/// One write of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets the value of a key.
    Put {
        /// Name of the key in the directory.
        key: String,
        /// New bytes of the key.
        value: Bytes,
        /// Lease with which the key ends; `None` keeps it until it is removed.
        lease: Option<LeaseId>,
    },
    /// Removes a key, if it is there.
    Remove {
        /// Name of the key in the directory.
        key: String,
    },
}

impl Write {
    /// Returns the write that sets a key for good.
    pub fn put(key: &Key, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.to_string(), value: value.into(), lease: None }
    }

    /// Returns the write that sets a key until the lease ends.
    pub fn put_leased(key: &Key, value: impl Into<Bytes>, lease: LeaseId) -> Self {
        Self::Put { key: key.to_string(), value: value.into(), lease: Some(lease) }
    }

    /// Returns the write that removes a key.
    pub fn remove(key: &Key) -> Self {
        Self::Remove { key: key.to_string() }
    }

    /// Returns the name of the key that is written.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Remove { key } => key,
        }
    }
}

/// Writes that take effect together, if nothing that they depend on has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Keys with the revisions that they must have; 0 for a key that must not be there.
    pub expected: Vec<(String, Revision)>,
    /// Writes, each of another key.
    pub writes: Vec<Write>,
}

impl Change {
    /// Adds the condition that `key` has `revision`, which is 0 if it must not be there.
    #[must_use]
    pub fn expect(mut self, key: &Key, revision: Revision) -> Self {
        self.expected.push((key.to_string(), revision));
        self
    }

    /// Adds a write of another key.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Refuses a change that a directory may not take: too many keys, too many bytes, a key twice.
    pub(crate) fn check(&self) -> Result<()> {
        if self.expected.len() > CHANGE_KEYS_MAX || self.writes.len() > CHANGE_KEYS_MAX {
            let text = format!("a change of the directory has at most {CHANGE_KEYS_MAX} keys");
            return Err(Error::Invalid(text));
        }
        let mut bytes: usize = self.expected.iter().map(|(key, _)| key.len()).sum();
        for (at, write) in self.writes.iter().enumerate() {
            let key = write.key();
            if key.is_empty() || key.len() > KEY_BYTES_MAX {
                let text = format!("a key of the directory has 1 to {KEY_BYTES_MAX} bytes");
                return Err(Error::Invalid(text));
            }
            if self.writes[..at].iter().any(|before| before.key() == key) {
                return Err(Error::Invalid(format!("one change writes '{key}' twice")));
            }
            let value = if let Write::Put { value, .. } = write { value.len() } else { 0 };
            if value > VALUE_BYTES_MAX {
                let text = format!("'{key}' takes {value} bytes, more than {VALUE_BYTES_MAX}");
                return Err(Error::Invalid(text));
            }
            bytes += key.len() + value;
        }
        if bytes > CHANGE_BYTES_MAX {
            let text = format!("a change takes {bytes} bytes, more than {CHANGE_BYTES_MAX}");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

/// The result of a change that the directory decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The change took effect as this revision. A change that writes nothing has the present one.
    Done(Revision),
    /// A key did not have the revision that was expected, and nothing took effect.
    Conflict,
}

/// News of a watched key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key has a new value.
    Put(Item),
    /// The key was removed, or its lease ended.
    Gone {
        /// Name of the key in the directory.
        key: String,
        /// Revision of the change that removed it.
        revision: Revision,
    },
}

impl Event {
    /// Returns the revision of the change that the event tells.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(item) => item.revision,
            Self::Gone { revision, .. } => *revision,
        }
    }

    /// Returns the name of the key that changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(item) => &item.key,
            Self::Gone { key, .. } => key,
        }
    }
}

/// Events in order of revision, whole changes at a time, until the watch breaks.
pub type Watch = BoxStream<'static, Result<Vec<Event>>>;

/// State that all nodes of a cluster share. Futures must run in a runtime of tokio with time and I/O.
#[async_trait]
pub trait Directory: Send + Sync + 'static {
    /// Returns all keys that begin with `prefix` at one moment, after every change that was
    /// acknowledged before the call.
    async fn read(&self, prefix: &str) -> Result<Snapshot>;

    /// Returns the item of one key, if it is there, as [`Directory::read`] does.
    async fn get(&self, key: &Key) -> Result<Snapshot>;

    /// Makes a change if its conditions hold. After [`Error::Unavailable`] it may have taken effect;
    /// after other errors it has not.
    async fn change(&self, change: Change) -> Result<Outcome>;

    /// Tells changes after a revision of keys that begin with `prefix`. A key that changed several
    /// times may be told once. The stream ends with an error when the watch breaks, and the caller
    /// watches again from the last revision that it was told; after [`Error::Compacted`] it reads first.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch>;

    /// Grants a lease that ends `ttl` after it was last kept alive.
    async fn grant(&self, ttl: Duration) -> Result<LeaseId>;

    /// Keeps a lease alive for another `ttl` of it. [`Error::LeaseLost`] if it has ended.
    async fn keep_alive(&self, lease: LeaseId) -> Result<()>;

    /// Ends a lease now, and removes its keys. A lease that has ended is no error.
    async fn revoke(&self, lease: LeaseId) -> Result<()>;

    /// Returns how operators know the directory, such as the addresses of etcd.
    fn name(&self) -> String;
}
