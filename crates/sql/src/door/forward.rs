//! Connections that a node hands to the node that leads the database: their bytes, as they are.
//!
//! ```text
//! preamble: "STELE" | version u8 = 1 | flags u8 | 0 u8      then what the client sends, from its first byte on
//! ```
//!
//! Flag 1 says that the client is on the machine of the node that forwards. docs/format/sql_preamble.md has the
//! format.
//!
//! Invariants:
//! 1. The first byte of a preamble begins nothing that a client sends.
//! 2. A preamble gives no rights: it can only take from a client the trust that its address would give.
//! 3. A forwarded connection is not forwarded again.

use super::startup::set_options;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

const MAGIC: &[u8; 5] = b"STELE";
const VERSION: u8 = 1;
const LOCAL: u8 = 1;
/// Longest wait for a connection to another node.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Bytes that wait in each direction of a connection.
const BUFFER_BYTES: usize = 16 << 10;
/// Silence after which a connection ends that is to end.
const QUIET: Duration = Duration::from_millis(500);

/// Returns the bytes of a preamble.
fn preamble(is_local: bool) -> [u8; 8] {
    let [s, t, e, l, f] = *MAGIC;
    [s, t, e, l, f, VERSION, if is_local { LOCAL } else { 0 }, 0]
}

/// Reads the preamble of a connection. Returns nothing if it has none, and else if the client is on the machine
/// of the node that forwards. `InvalidData` for one of another form.
pub(super) async fn read_preamble(stream: &mut TcpStream) -> io::Result<Option<bool>> {
    let mut first = [0];
    if stream.peek(&mut first).await? != 1 || first[0] != MAGIC[0] {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).await?;
    let known = [false, true].into_iter().find(|is_local| bytes == preamble(*is_local));
    known
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a preamble of an unknown form"))
}

/// Connects to the node at `address` for a client, which is on this machine if `is_local` says so.
pub(super) async fn connect(address: &str, is_local: bool) -> io::Result<TcpStream> {
    let connect = async {
        let mut stream = TcpStream::connect(address).await?;
        set_options(&stream);
        stream.write_all(&preamble(is_local)).await?;
        Ok(stream)
    };
    let connected = tokio::time::timeout(CONNECT_MAX, connect).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Copies bytes between a client and the leader, until one of them ends or `moved` is ready. After `stop` it ends
/// when nothing is said for a moment.
pub(super) async fn copy(
    mut client: TcpStream,
    mut leader: TcpStream,
    moved: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) {
    let bytes = AtomicU64::new(0);
    let (from_client, to_client) = client.split();
    let (from_leader, to_leader) = leader.split();
    let ended = async {
        stop.await;
        let mut seen = u64::MAX;
        while std::mem::replace(&mut seen, bytes.load(Ordering::Relaxed)) != seen {
            tokio::time::sleep(QUIET).await;
        }
    };
    let there = async {
        // A client that ends its half may still read.
        if copy_one(from_client, to_leader, &bytes).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let back = copy_one(from_leader, to_client, &bytes);
    tokio::select! {
        () = there => {}
        _ = back => {}
        () = moved => {}
        () = ended => {}
    }
}

async fn copy_one(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..len).unwrap_or_default()).await?;
        bytes.fetch_add(len as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn preambles_have_their_documented_bytes_and_take_nothing_from_clients() {
        assert_eq!(preamble(true), *b"STELE\x01\x01\0");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for is_local in [false, true] {
            let mut sent = connect(&address, is_local).await.unwrap();
            sent.write_all(b"next").await.unwrap();
            let (mut got, _) = listener.accept().await.unwrap();
            assert_eq!(read_preamble(&mut got).await.unwrap(), Some(is_local));
            let mut rest = [0; 4];
            got.read_exact(&mut rest).await.unwrap();
            assert_eq!(&rest, b"next");
        }
        for (bytes, is_refused) in [
            (&b"\0\0\0\x08\x04\xd2\x16\x2f"[..], false),
            (b"\x16\x03\x01", false),
            (b"", false),
            (b"STELE\x02\0\0", true),
            (b"STELE\x01\x02\0", true),
            (b"STELE\x01\0\x01", true),
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
        for case in ["client", "leader", "moved", "stopped"] {
            let ((mut client, near), (far, mut leader)) = (pair().await, pair().await);
            let (moves, moved) = tokio::sync::oneshot::channel();
            let (stops, stop) = tokio::sync::oneshot::channel();
            let is = move |it: tokio::sync::oneshot::Receiver<()>| async move { drop(it.await) };
            let copied = tokio::spawn(copy(near, far, is(moved), is(stop)));
            let mut four = [0; 4];
            client.write_all(b"ping").await.unwrap();
            leader.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"ping");
            leader.write_all(b"pong").await.unwrap();
            client.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"pong");
            let kept = (moves, stops);
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
                "moved" => kept.0.send(()).unwrap(),
                _ => kept.1.send(()).unwrap(),
            }
            copied.await.unwrap();
            assert_eq!(client.read(&mut four).await.unwrap_or(0), 0, "{case}");
        }
    }
}
