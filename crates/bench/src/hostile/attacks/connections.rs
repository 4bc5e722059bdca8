//! Connections that are held and not used.

use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::tables::NARROW;
use crate::hostile::wire::{PREFACE, Peer, READ_ROWS, opening};
use bench_core::random_value;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BYTE_PAUSE: Duration = Duration::from_secs(1);
const GARBAGE_BYTES: usize = 64 << 10;
/// Flow control that no client reads away.
const WINDOW: u32 = 1 << 20;

/// Asks for a whole table and reads nothing; the connection goes when the server closes it.
pub(super) async fn half_closed(field: &Field) -> Result<(), AnyError> {
    let request = data::ReadRowsRequest { table_name: NARROW.to_owned(), ..Default::default() };
    let peer = Peer::connect(field, WINDOW).await?;
    let answer = peer.send(READ_ROWS, &request, None).await?;
    field.sent(1);
    let held = answer.await?;
    while peer.is_open() {
        tokio::time::sleep(BYTE_PAUSE).await;
    }
    drop(held);
    Err("the connection was closed".into())
}

/// Opens a connection properly and does nothing more.
pub(super) async fn idle(field: &Field) -> Result<(), AnyError> {
    let mut stream = field.connect().await?;
    stream.write_all(&opening()).await?;
    field.sent(1);
    wait_for_the_end(stream).await
}

/// Sends a connection's first bytes one at a time.
pub(super) async fn slow_handshake(field: &Field) -> Result<(), AnyError> {
    let mut stream = field.connect().await?;
    field.sent(1);
    for byte in PREFACE {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(BYTE_PAUSE).await;
    }
    wait_for_the_end(stream).await
}

/// Sends random bytes, half of them after a proper beginning.
pub(super) async fn garbage(field: &Field) -> Result<(), AnyError> {
    for seed in 0.. {
        let mut stream = field.connect().await?;
        let mut bytes = vec![0; GARBAGE_BYTES];
        random_value(seed, &mut bytes);
        if seed % 2 == 0 {
            stream.write_all(&opening()).await?;
        }
        field.sent(1);
        // The server may have closed before it has taken all.
        let _ = stream.write_all(&bytes).await;
    }
    Ok(())
}

/// Reads until the server closes.
async fn wait_for_the_end(mut stream: TcpStream) -> Result<(), AnyError> {
    let mut bytes = vec![0; 1 << 10];
    while stream.read(&mut bytes).await? > 0 {}
    Err("the connection was closed".into())
}
