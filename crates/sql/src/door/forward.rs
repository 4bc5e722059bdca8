//! Connections that a node hands to the node that leads the database: their bytes, as they are.
//!
//! ```text
//! node that forwards                                     node that leads
//! "STELE" | version u8 = 2 | flags u8 | 0 u8       ─▶
//!                                                  ◀─    answer u8: 1 takes the client, 0 does not lead
//! what the client sends, from its first byte on    ─▶
//! ```
//!
//! Flag 1 says that the client is on the machine of the node that forwards, flag 2 that it found no place there.
//! docs/format/sql_preamble.md has the format.
//!
//! Invariants:
//! 1. The first byte of a preamble begins nothing that a client sends.
//! 2. A preamble gives no rights: it can only take from a client the trust that its address would give, or its place.
//! 3. A forwarded connection is not forwarded again.
//! 4. Nothing of a client is sent before the other node has said that it takes it.

use super::startup::{TLS_HANDSHAKE, set_options};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

const MAGIC: &[u8; 5] = b"STELE";
const VERSION: u8 = 2;
const LOCAL: u8 = 1;
const NO_PLACE: u8 = 2;
/// Bytes that answer a preamble.
const TAKEN: u8 = 1;
const REFUSED: u8 = 0;
/// First byte of the leader to a client that asked for TLS and gets it.
const TLS_ACCEPTED: u8 = b'S';
/// Longest wait for a connection to another node, and for its answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Bytes that wait in each direction of a connection.
const BUFFER_BYTES: usize = 16 << 10;
/// Silence of a client after which its connection ends if it is to end.
const QUIET: Duration = Duration::from_millis(500);
/// The end of what the server sends to a client without TLS that has no statement and no transaction.
const AT_REST: &[u8; 6] = b"Z\0\0\0\x05I";

/// A client as the node that forwards it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forwarded {
    /// True if it is on the machine of that node.
    pub(super) is_local: bool,
    /// False if it found no place there: it may cancel a statement, and have no session.
    pub(super) has_place: bool,
}

impl Forwarded {
    const ALL: [Self; 4] = [
        Self { is_local: false, has_place: true },
        Self { is_local: true, has_place: true },
        Self { is_local: false, has_place: false },
        Self { is_local: true, has_place: false },
    ];

    /// Returns the bytes of a preamble.
    fn preamble(self) -> [u8; 8] {
        let [s, t, e, l, f] = *MAGIC;
        let flags = if self.is_local { LOCAL } else { 0 };
        let flags = if self.has_place { flags } else { flags | NO_PLACE };
        [s, t, e, l, f, VERSION, flags, 0]
    }
}

/// Reads the preamble of a connection. Returns nothing if it has none. `InvalidData` for one of another form.
pub(super) async fn read_preamble(stream: &mut TcpStream) -> io::Result<Option<Forwarded>> {
    let mut first = [0];
    if stream.peek(&mut first).await? != 1 || first[0] != MAGIC[0] {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).await?;
    let known = Forwarded::ALL.into_iter().find(|client| bytes == client.preamble());
    known
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a preamble of an unknown form"))
}

/// Answers a preamble: if this node takes the client.
pub(super) async fn answer(stream: &mut TcpStream, is_taken: bool) -> io::Result<()> {
    stream.write_all(&[if is_taken { TAKEN } else { REFUSED }]).await
}

/// Connects to the node at `address` for a client. `ConnectionRefused` if that node does not lead.
pub(super) async fn connect(address: &str, client: Forwarded) -> io::Result<TcpStream> {
    let connect = async {
        let mut stream = TcpStream::connect(address).await?;
        set_options(&stream);
        stream.write_all(&client.preamble()).await?;
        match stream.read_u8().await? {
            TAKEN => Ok(stream),
            _ => Err(io::Error::new(io::ErrorKind::ConnectionRefused, "that node does not lead")),
        }
    };
    let connected = tokio::time::timeout(CONNECT_MAX, connect).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Copies bytes between a client and the leader, until one of them ends or `moved` is ready. After `stop` the client
/// says no more once it is silent for a moment: the leader ends what is in progress, and then the session. A client
/// without TLS may first end its transaction.
pub(super) async fn copy(
    mut client: TcpStream,
    mut leader: TcpStream,
    moved: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) {
    let (said, told) = (Said::default(), Told::default());
    let (from_client, to_client) = client.split();
    let (from_leader, mut to_leader) = leader.split();
    let there = async {
        let copied = tokio::select! {
            copied = copy_one(from_client, &mut to_leader, &said) => copied,
            () = silent(stop, &said, &told) => Ok(()),
        };
        // A client that ends its half may still read.
        if copied.is_ok() && to_leader.shutdown().await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let back = async {
        let mut to_client = to_client;
        let _ = copy_one(from_leader, &mut to_client, &told).await;
        let _ = to_client.shutdown().await;
    };
    tokio::select! {
        () = there => {}
        () = back => {}
        () = moved => {}
    }
}

/// Waits for `stop`, and then until the client is silent and nothing of it would be cut off.
async fn silent(stop: impl Future<Output = ()>, said: &Said, told: &Told) {
    stop.await;
    loop {
        let before = said.0.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET).await;
        let is_silent = before.is_multiple_of(2) && said.0.load(Ordering::Relaxed) == before;
        if is_silent && told.0.lock().may_end() {
            return;
        }
    }
}

/// Looks at bytes that are copied.
trait Observe {
    /// Some bytes are there, and will be sent.
    fn begin(&self, bytes: &[u8]);
    /// The bytes of before are sent.
    fn end(&self) {}
}

/// Steps of what a client says: odd while some of it is on its way.
#[derive(Default)]
struct Said(AtomicU64);

impl Observe for Said {
    fn begin(&self, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The end of what a client was told, which says if its session is at rest.
#[derive(Default)]
struct Told(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The first byte after answers that refuse encryption.
    first: Option<u8>,
    /// The last bytes of the leader.
    last: Vec<u8>,
}

impl Seen {
    fn see(&mut self, bytes: &[u8]) {
        self.first = self.first.or_else(|| bytes.iter().copied().find(|byte| *byte != b'N'));
        let kept = bytes.len().min(AT_REST.len());
        self.last.extend_from_slice(bytes.get(bytes.len() - kept..).unwrap_or_default());
        let excess = self.last.len().saturating_sub(AT_REST.len());
        self.last.drain(..excess);
    }

    /// Returns true if a session is at rest, or if TLS hides whether it is.
    fn may_end(&self) -> bool {
        let is_hidden = matches!(self.first, Some(TLS_ACCEPTED | TLS_HANDSHAKE));
        is_hidden || self.last.is_empty() || self.last == AT_REST
    }
}

impl Observe for Told {
    fn begin(&self, bytes: &[u8]) {
        self.0.lock().see(bytes);
    }
}

async fn copy_one(
    mut from: ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    observe: &impl Observe,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        let bytes = buffer.get(..len).unwrap_or_default();
        observe.begin(bytes);
        to.write_all(bytes).await?;
        observe.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const CLIENT: Forwarded = Forwarded { is_local: true, has_place: true };

    #[tokio::test]
    async fn preambles_have_their_documented_bytes_and_take_nothing_from_clients() {
        assert_eq!(CLIENT.preamble(), *b"STELE\x02\x01\0");
        let without = Forwarded { is_local: false, has_place: false };
        assert_eq!(without.preamble(), *b"STELE\x02\x02\0");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for client in Forwarded::ALL {
            let send = async {
                let mut sent = connect(&address, client).await.unwrap();
                sent.write_all(b"next").await.unwrap();
                sent
            };
            let take = async {
                let (mut got, _) = listener.accept().await.unwrap();
                assert_eq!(read_preamble(&mut got).await.unwrap(), Some(client));
                answer(&mut got, true).await.unwrap();
                let mut rest = [0; 4];
                got.read_exact(&mut rest).await.unwrap();
                assert_eq!(&rest, b"next");
            };
            tokio::join!(send, take);
        }
        for (bytes, is_refused) in [
            (&b"\0\0\0\x08\x04\xd2\x16\x2f"[..], false),
            (b"\x16\x03\x01", false),
            (b"", false),
            (b"STELE\x01\0\0", true),
            (b"STELE\x02\x04\0", true),
            (b"STELE\x02\0\x01", true),
            (b"STE", true),
        ] {
            let mut sent = TcpStream::connect(&address).await.unwrap();
            sent.write_all(bytes).await.unwrap();
            drop(sent);
            let (mut got, _) = listener.accept().await.unwrap();
            let read = read_preamble(&mut got).await;
            assert_eq!(read.is_err(), is_refused, "{bytes:?}");
            if !is_refused {
                assert_eq!(read.unwrap(), None);
                let mut rest = Vec::new();
                got.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, bytes);
            }
        }
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn bytes_are_copied_until_an_end_ends_or_the_database_moves() {
        for case in ["client", "leader", "moved"] {
            let ((mut client, near), (far, mut leader)) = (pair().await, pair().await);
            let (moves, moved) = tokio::sync::oneshot::channel();
            let moved = async move { drop(moved.await) };
            let copied = tokio::spawn(copy(near, far, moved, std::future::pending()));
            let mut four = [0; 4];
            client.write_all(b"ping").await.unwrap();
            leader.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"ping");
            leader.write_all(b"pong").await.unwrap();
            client.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"pong");
            let kept: tokio::sync::oneshot::Sender<()> = moves;
            match case {
                "client" => {
                    client.shutdown().await.unwrap();
                    assert_eq!(leader.read(&mut four).await.unwrap(), 0);
                    // It still reads.
                    leader.write_all(b"last").await.unwrap();
                    client.read_exact(&mut four).await.unwrap();
                    drop(leader);
                }
                "leader" => drop(leader),
                _ => kept.send(()).unwrap(),
            }
            copied.await.unwrap();
            assert_eq!(client.read(&mut four).await.unwrap_or(0), 0, "{case}");
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_lead_says_so_before_anything_of_the_client_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let take = async {
            let (mut got, _) = listener.accept().await.unwrap();
            read_preamble(&mut got).await.unwrap();
            answer(&mut got, false).await.unwrap();
            let mut rest = Vec::new();
            got.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty());
        };
        let (refused, ()) = tokio::join!(connect(&address, CLIENT), take);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    /// Time in which a connection that is to end would have ended.
    const LATE: Duration = Duration::from_millis(1_500);

    async fn give(from: &mut TcpStream, bytes: &[u8], to: &mut TcpStream) {
        from.write_all(bytes).await.unwrap();
        let mut got = vec![0; bytes.len()];
        to.read_exact(&mut got).await.unwrap();
        assert_eq!(got, bytes);
    }

    #[tokio::test]
    async fn a_node_that_stops_lets_the_leader_end_what_a_client_began() {
        for (begun, is_open) in [
            // An answer is outstanding: the leader learns that the client says no more, and ends it.
            (&b"S\x16\x03"[..], false),
            (b"N\x16\x03", false),
            (b"RZ\0\0\0\x05I", false),
            // A transaction is open, or a statement goes on.
            (b"RZ\0\0\0\x05T", true),
            (b"RZ\0\0\0\x05ID\0\0\0\x06\0\0", true),
        ] {
            let ((mut client, near), (far, mut leader)) = (pair().await, pair().await);
            let copied = tokio::spawn(copy(near, far, std::future::pending(), async {}));
            give(&mut leader, begun, &mut client).await;
            give(&mut client, b"query", &mut leader).await;
            let mut end = [0];
            if is_open {
                let early = tokio::time::timeout(LATE, leader.read(&mut end)).await;
                assert!(early.is_err(), "{begun:?}");
                give(&mut leader, AT_REST, &mut client).await;
            }
            assert_eq!(leader.read(&mut end).await.unwrap(), 0, "{begun:?}");
            assert!(!copied.is_finished());
            give(&mut leader, b"result", &mut client).await;
            drop(leader);
            copied.await.unwrap();
            assert_eq!(client.read(&mut end).await.unwrap_or(0), 0, "{begun:?}");
        }
    }
}
