//! The first thing that a stream or a call says; see docs/format/node_link.md.

use super::Local;
use crate::group::NodeId;
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::ClusterId;
use std::fmt;

/// Version of the protocol between nodes, and the only one that is spoken.
const VERSION: u8 = 2;
/// Starts that a node may be ahead of the latest one that is known: without the directory it registers none.
const BOOTS_AHEAD_MAX: u64 = 1 << 20;

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
    /// Random number of the sender's start.
    pub start: u128,
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
    /// A start of a number that the node cannot have reached.
    BootAhead {
        node: NodeId,
        theirs: u64,
        known: u64,
    },
    /// Another process has a start of the same number.
    Twice {
        node: NodeId,
        boot: u64,
    },
    /// An earlier start of the node is heard.
    AtWork {
        node: NodeId,
        theirs: u64,
        heard: u64,
    },
    /// The certificate of the caller is of another host than the node's; the text says why.
    Certificate {
        node: NodeId,
        why: String,
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
        out.extend_from_slice(&self.start.to_le_bytes());
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
            let number = |reader: &mut ByteReader<'_>, what| {
                let mut number = [0; 16];
                number.copy_from_slice(reader.bytes(16, what)?);
                Ok::<_, DecodeError>(u128::from_le_bytes(number))
            };
            let greeting = Self {
                cluster: ClusterId(number(&mut reader, "cluster id")?),
                from: NodeId(reader.u64("sender")?),
                to: NodeId(reader.u64("receiver")?),
                boot: reader.u64("boot counter")?,
                start: number(&mut reader, "number of the start")?,
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
            return Err(Refusal::Cluster { theirs: self.cluster });
        }
        if self.to != us.node {
            return Err(Refusal::Node { meant: self.to, reached: us.node });
        }
        Ok(())
    }

    /// Refuses a start that is not the latest one of its node, as far as the starts `known` tell: each by
    /// its number and its random number.
    pub(super) fn check_start(&self, known: [(u64, u128); 2]) -> Result<(), Refusal> {
        let (node, theirs) = (self.from, self.boot);
        let latest = known.iter().map(|(boot, _)| *boot).max().unwrap_or(0);
        if theirs < latest {
            return Err(Refusal::Boot { node, theirs, known: latest });
        }
        if theirs == 0 || theirs - latest > BOOTS_AHEAD_MAX {
            return Err(Refusal::BootAhead { node, theirs, known: latest });
        }
        match known.iter().any(|(boot, start)| *boot == theirs && *start != self.start) {
            true => Err(Refusal::Twice { node, boot: theirs }),
            false => Ok(()),
        }
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
            Self::Cluster { theirs } => {
                write!(f, "the caller is of cluster {theirs}, but this node is of another one")
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
            Self::BootAhead { node, theirs, known } => write!(
                f,
                "the caller says that it is start {theirs} of node {}, whose latest start is {known}",
                node.0
            ),
            Self::Twice { node, boot } => write!(
                f,
                "another process is start {boot} of node {} too: one of both runs on a copy of the data \
                 directory, and must stop",
                node.0
            ),
            Self::AtWork { node, theirs, heard } => write!(
                f,
                "the caller is start {theirs} of node {}, but its start {heard} is at work: the caller may run \
                 on a copy of the data directory",
                node.0
            ),
            Self::Certificate { node, why } => {
                write!(f, "the certificate of the caller is not the one of node {}: {why}", node.0)
            }
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
        let (cluster, from, to) = (ClusterId(5), NodeId(1), NodeId(2));
        let greeting = Greeting { cluster, from, to, boot: 3, start: 9, stream: 4 };
        let bytes = greeting.encode();
        assert_eq!(&bytes[..3], b"\x02\x05\0");
        assert_eq!(
            bytes[17..],
            [
                [1, 0, 0, 0, 0, 0, 0, 0],
                [2, 0, 0, 0, 0, 0, 0, 0],
                [3, 0, 0, 0, 0, 0, 0, 0],
                [9, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0],
                [4, 0, 0, 0, 0, 0, 0, 0]
            ]
            .concat()
        );
        assert_eq!(Greeting::decode(&bytes), Ok(greeting));
        for len in 0..bytes.len() {
            assert!(Greeting::decode(&bytes[..len]).is_err());
        }
        fuzz(&bytes);
        let start = |boot| Greeting { boot, ..greeting }.check_start([(3, 9), (2, 8)]);
        assert_eq!((start(3), start(4)), (Ok(()), Ok(())));
        assert!(matches!(start(2), Err(Refusal::Boot { known: 3, .. })));
        assert!(matches!(start(3 + BOOTS_AHEAD_MAX + 1), Err(Refusal::BootAhead { .. })));
        assert!(matches!(start(u64::MAX), Err(Refusal::BootAhead { .. })));
        let copy = Greeting { start: 10, ..greeting }.check_start([(3, 9), (0, 0)]);
        assert!(matches!(copy, Err(Refusal::Twice { boot: 3, .. })));
        assert!(Greeting::decode(&[&bytes[..], b"x"].concat()).is_err());
        assert_eq!(Greeting::decode(&[9]), Err(Refusal::Version(9)));
    }
}
