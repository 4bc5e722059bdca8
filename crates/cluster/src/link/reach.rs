//! Proof that others reach a node at the address that it gives them (docs/format/node_link.md).
//!
//! 1. The process that is reached tells its node and its start: another process may have the address, or a copy of the node.
//! 2. Where another node can be asked, its word counts: the address may lead to this node from here and nowhere else,
//!    as `localhost` does, or from everywhere else, as behind a router that turns nothing back.
//! 3. A node dials the address that the directory has for the caller, and no other.

use super::calls::{Answers, CallError, CallKind, call_on, finish};
use super::{Book, Link, LinkOptions, Local};
use crate::dial::{Dialed, endpoint};
use crate::group::NodeId;
use base::codec::{ByteReader, PutBytes};
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

const VERSION: u8 = 1;
/// Longest wait for the process at an address.
const DIAL_MAX: Duration = Duration::from_secs(3);
/// Longest wait for a node that dials.
const ASK_MAX: Duration = Duration::from_secs(5);
/// Bytes of the reason why a node is not reached.
const WHY_BYTES_MAX: usize = 1 << 10;

/// A start of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    node: NodeId,
    boot: u64,
    start: u128,
}

impl Identity {
    fn of(us: &Local) -> Self {
        Self { node: us.node, boot: us.boot, start: us.start }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.node.0);
        out.put_u64(self.boot);
        out.extend_from_slice(&self.start.to_le_bytes());
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let node = NodeId(reader.u64("node").ok()?);
        let boot = reader.u64("boot counter").ok()?;
        let start = reader.bytes(16, "number of the start").ok()?.try_into().ok()?;
        Some(Self { node, boot, start: u128::from_le_bytes(start) })
    }
}

/// Returns the answer to [`CallKind::Identity`].
pub(super) fn identity_answer(us: &Local) -> Answers {
    let mut out = vec![VERSION];
    Identity::of(us).put(&mut out);
    stream::iter([Ok(out.into())]).boxed()
}

fn decode_identity(bytes: &[u8]) -> Option<Identity> {
    let mut reader = ByteReader::new(bytes);
    let known = reader.u8("version").ok()? == VERSION;
    let identity = Identity::read(&mut reader)?;
    (known && reader.is_empty()).then_some(identity)
}

/// Returns the answer to [`CallKind::Reach`] of the node `from`.
pub(super) async fn answer(
    us: &Local,
    options: &LinkOptions,
    book: &dyn Book,
    from: NodeId,
) -> Answers {
    let reached = match book.entry(from) {
        Some(entry) => dial(us, options, &entry.address, from).await,
        None => Err("its address is not in the directory".to_owned()),
    };
    let bytes = encode_reached(&reached);
    stream::iter([Ok(bytes)]).boxed()
}

fn encode_reached(reached: &Result<Identity, String>) -> Bytes {
    let mut out = vec![VERSION];
    match reached {
        Ok(identity) => {
            out.push(1);
            identity.put(&mut out);
        }
        Err(why) => {
            out.push(0);
            let cut = (0..=WHY_BYTES_MAX.min(why.len())).rev().find(|at| why.is_char_boundary(*at));
            out.put_string(&why.as_bytes()[..cut.unwrap_or(0)]);
        }
    }
    out.into()
}

fn decode_reached(bytes: &[u8]) -> Option<Result<Identity, String>> {
    let mut reader = ByteReader::new(bytes);
    if reader.u8("version").ok()? != VERSION {
        return None;
    }
    let reached = match reader.u8("outcome").ok()? {
        0 => Err(String::from_utf8_lossy(reader.string("reason").ok()?).into_owned()),
        1 => Ok(Identity::read(&mut reader)?),
        _ => return None,
    };
    reader.is_empty().then_some(reached)
}

/// Asks the process at an address, which should be `node`, for its start.
async fn dial(
    us: &Local,
    options: &LinkOptions,
    address: &str,
    node: NodeId,
) -> Result<Identity, String> {
    let tls = options.tls.as_ref().map(|tls| Arc::clone(&tls.client));
    let server = Dialed { address: address.to_owned(), tls };
    let channel = server.channel(endpoint(&server)?, options.pings());
    let asked = async {
        let answers = call_on(channel, us, node, CallKind::Identity, Bytes::new()).await?;
        only(answers).await
    };
    match tokio::time::timeout(DIAL_MAX, asked).await {
        Ok(Ok(answer)) => {
            decode_identity(&answer).ok_or_else(|| "it gives no answer of a node".into())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", DIAL_MAX.as_secs())),
    }
}

async fn only(mut answers: Answers) -> Result<Bytes, CallError> {
    let ended = || CallError::Unknown("the call ended early".to_owned());
    let answer = answers.next().await.ok_or_else(ended)??;
    finish(answers).await;
    Ok(answer)
}

impl Link {
    /// Looks whether this node is reached at `address`, which the directory has for it: one of `peers`
    /// dials it, or the node itself where none of them can be asked. The error is the reason why it is not reached.
    pub async fn check_reached(&self, address: &str, peers: &[NodeId]) -> Result<(), String> {
        let us = &self.context.us;
        let mut not = None;
        for peer in peers {
            // A node that cannot be asked says nothing of this one.
            let Some(reached) = self.ask_reached(*peer).await else { continue };
            match check(us, reached) {
                Ok(()) => return Ok(()),
                Err(why) => not = Some(format!("node {} dialled it: {why}", peer.0)),
            }
        }
        match not {
            Some(why) => Err(why),
            None => {
                let reached = dial(us, &self.context.options, address, us.node).await;
                check(us, reached).map_err(|why| format!("the node itself dialled it: {why}"))
            }
        }
    }

    async fn ask_reached(&self, peer: NodeId) -> Option<Result<Identity, String>> {
        let asked = async {
            let answers = self.call(peer, CallKind::Reach, Bytes::new()).await?;
            only(answers).await
        };
        let answer = tokio::time::timeout(ASK_MAX, asked).await.ok()?.ok()?;
        decode_reached(&answer)
    }
}

/// Checks that this start was reached.
fn check(us: &Local, reached: Result<Identity, String>) -> Result<(), String> {
    match reached? {
        reached if reached == Identity::of(us) => Ok(()),
        Identity { node, boot, .. } => {
            Err(format!("another process answers there, which is start {boot} of node {}", node.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_their_documented_bytes_and_read_back() {
        let identity = Identity { node: NodeId(2), boot: 3, start: 9 };
        let mut bytes = vec![1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
        bytes.extend([0; 15]);
        assert_eq!(encode_reached(&Ok(identity)), bytes);
        assert_eq!(decode_reached(&bytes), Some(Ok(identity)));
        assert_eq!(decode_identity(&[&[1], &bytes[2..]].concat()), Some(identity));
        let why = Err("why".to_owned());
        assert_eq!(encode_reached(&why), &b"\x01\x00\x03why"[..]);
        assert_eq!(decode_reached(b"\x01\x00\x03why"), Some(why));
        let long = encode_reached(&Err("é".repeat(WHY_BYTES_MAX)));
        assert!(long.len() <= WHY_BYTES_MAX + 4 && decode_reached(&long).is_some());
        for len in 0..bytes.len() {
            assert_eq!(decode_reached(&bytes[..len]), None);
        }
        assert_eq!(decode_reached(b"\x02\x00\x03why"), None);
    }
}
