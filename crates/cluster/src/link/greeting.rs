//! The first thing that a stream or a call says; see docs/format/node_link.md.

use super::Local;
use crate::group::NodeId;
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::ClusterId;
use std::fmt;

/// Version of the protocol between nodes, and the only one that is spoken.
const VERSION: u8 = 1;

/// Says who speaks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// Cluster that the sender belongs to.
    pub cluster: ClusterId,
    /// Node that opens the stream or makes the call.
    pub from: NodeId,
    /// Node that the sender means.
    pub to: NodeId,
    /// Number of the sender's start.
    pub boot: u64,
    /// Number of the stream within the start, from 1; 0 for a call.
    pub stream: u64,
}

/// Reasons to refuse a greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Decode(DecodeError),
    Version(u8),
    Cluster {
        theirs: ClusterId,
        ours: ClusterId,
    },
    /// The caller means another node than the one that it reached.
    Node {
        meant: NodeId,
        reached: NodeId,
    },
    Boot {
        node: NodeId,
        theirs: u64,
        known: u64,
    },
    /// A newer stream of the same start was opened before.
    Stream {
        node: NodeId,
    },
}

impl Greeting {
    /// Returns the bytes of the greeting.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.cluster.0.to_le_bytes());
        out.put_u64(self.from.0);
        out.put_u64(self.to.0);
        out.put_u64(self.boot);
        out.put_u64(self.stream);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut reader = ByteReader::new(bytes);
        let version = reader.u8("version of the node protocol").map_err(Refusal::Decode)?;
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let mut body = || {
            let mut cluster = [0; 16];
            cluster.copy_from_slice(reader.bytes(16, "cluster id")?);
            let greeting = Self {
                cluster: ClusterId(u128::from_le_bytes(cluster)),
                from: NodeId(reader.u64("sender")?),
                to: NodeId(reader.u64("receiver")?),
                boot: reader.u64("boot counter")?,
                stream: reader.u64("stream")?,
            };
            reader.finish()?;
            Ok(greeting)
        };
        body().map_err(Refusal::Decode)
    }

    /// Refuses a greeting that is not for this node.
    pub(super) fn check(&self, us: &Local) -> Result<(), Refusal> {
        if self.cluster != us.cluster {
            return Err(Refusal::Cluster { theirs: self.cluster, ours: us.cluster });
        }
        if self.to != us.node {
            return Err(Refusal::Node { meant: self.to, reached: us.node });
        }
        Ok(())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "malformed greeting: {error}"),
            Self::Version(version) => write!(
                f,
                "the caller speaks version {version} of the protocol between nodes, but this node \
                 speaks version {VERSION}; run the same Stele on both"
            ),
            Self::Cluster { theirs, ours } => {
                write!(f, "the caller is of cluster {theirs}, but this node is of cluster {ours}")
            }
            Self::Node { meant, reached } => write!(
                f,
                "the caller means node {}, but this is node {}: the address of the former is \
                 another one now",
                meant.0, reached.0
            ),
            Self::Boot { node, theirs, known } => write!(
                f,
                "the caller is start {theirs} of node {}, but start {known} is known: the caller \
                 runs on a copy of a data directory, or was replaced, and must stop",
                node.0
            ),
            Self::Stream { node } => {
                write!(f, "node {} has opened a newer stream", node.0)
            }
        }
    }
}

/// Feeds untrusted bytes to the decoder: what is accepted has one encoding.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(greeting) = Greeting::decode(bytes) {
        assert_eq!(greeting.encode(), bytes, "a greeting has one encoding");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_has_its_documented_bytes_and_is_read_whole_or_not_at_all() {
        let greeting =
            Greeting { cluster: ClusterId(5), from: NodeId(1), to: NodeId(2), boot: 3, stream: 4 };
        let bytes = greeting.encode();
        assert_eq!(&bytes[..3], b"\x01\x05\0");
        assert_eq!(
            bytes[17..],
            [
                [1, 0, 0, 0, 0, 0, 0, 0],
                [2, 0, 0, 0, 0, 0, 0, 0],
                [3, 0, 0, 0, 0, 0, 0, 0],
                [4, 0, 0, 0, 0, 0, 0, 0]
            ]
            .concat()
        );
        assert_eq!(Greeting::decode(&bytes), Ok(greeting));
        for len in 0..bytes.len() {
            assert!(Greeting::decode(&bytes[..len]).is_err());
        }
        fuzz(&bytes);
        assert!(Greeting::decode(&[&bytes[..], b"x"].concat()).is_err());
        assert_eq!(Greeting::decode(&[9]), Err(Refusal::Version(9)));
    }
}
