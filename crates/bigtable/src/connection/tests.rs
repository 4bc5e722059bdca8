//! The guard between two ends of a pipe: one speaks HTTP/2 by hand, the other reads as a codec does.

use super::*;
use std::future::poll_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A client that has greeted, and the server's end.
async fn greeted(limits: ConnectionLimits) -> (DuplexStream, Guarded<DuplexStream>) {
    let (mut client, server) = duplex(1 << 20);
    client.write_all(&[PREFACE, &frame(kind::SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    let mut server = Guarded::new(server, limits);
    let mut bytes = [0; 1 << 10];
    assert_eq!(server.read(&mut bytes).await.unwrap(), PREFACE.len() + 9);
    (client, server)
}

/// Reads until the guard wants a turn of others, or nothing is there; returns the bytes read.
async fn one_turn(server: &mut Guarded<DuplexStream>) -> usize {
    let mut read = 0;
    poll_fn(|context| {
        loop {
            let mut bytes = [0; 1 << 10];
            let mut into = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *server).poll_read(context, &mut into) {
                Poll::Ready(done) => {
                    done.unwrap();
                    read += into.filled().len();
                }
                Poll::Pending => return Poll::Ready(()),
            }
        }
    })
    .await;
    read
}

/// Reads to the end of the connection; returns the error's words.
async fn ended(server: &mut Guarded<DuplexStream>) -> String {
    let mut bytes = vec![0; 1 << 16];
    loop {
        if let Err(error) = server.read(&mut bytes).await {
            return error.to_string();
        }
    }
}

/// Returns the code and the words of the GOAWAY that the client got.
async fn last_words(mut client: DuplexStream) -> (u32, String) {
    let mut head = [0; 17];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], kind::GOAWAY);
    let mut words = vec![0; usize::from(head[2]) - 8];
    client.read_exact(&mut words).await.unwrap();
    (u32::from_be_bytes(head[13..].try_into().unwrap()), String::from_utf8(words).unwrap())
}

#[tokio::test]
async fn a_connection_with_many_calls_lets_others_have_turns() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let calls = 200;
    let call = frame(kind::HEADERS, 5, 1, &[0x82; 20]);
    client.write_all(&call.repeat(calls)).await.unwrap();
    let mut left = calls * call.len();
    let mut turns = 0;
    while left > 0 {
        let read = one_turn(&mut server).await;
        let read_at_once = 1 << 10;
        assert!(read <= TURN / CALL_UNITS * call.len() + read_at_once, "{read} bytes in a turn");
        left -= read;
        turns += 1;
    }
    assert!(turns > 3, "{turns} turns");
}

#[tokio::test]
async fn an_upload_is_read_in_large_turns() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let data = frame(kind::DATA, 0, 1, &[7; 16_384]);
    client.write_all(&data.repeat(7)).await.unwrap();
    assert_eq!(one_turn(&mut server).await, 7 * data.len());
}

#[tokio::test]
async fn calls_that_are_taken_back_slow_their_connection_down_and_nothing_more() {
    let limits = ConnectionLimits { resets: 10, ..Default::default() };
    let (mut client, mut server) = greeted(limits).await;
    let reset = frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let begin = Instant::now();
    client.write_all(&reset.repeat(10)).await.unwrap();
    assert_eq!(one_turn(&mut server).await, 10 * reset.len());
    assert!(server.pause.is_none());
    client.write_all(&reset).await.unwrap();
    assert_eq!(one_turn(&mut server).await, reset.len());
    assert!(server.pause.is_some());
    client.write_all(&frame(kind::HEADERS, 5, 3, b"call")).await.unwrap();
    let mut bytes = [0; 1 << 10];
    assert_eq!(server.read(&mut bytes).await.unwrap(), 13);
    assert!(begin.elapsed() >= Duration::from_millis(100), "the pause was kept");
}

#[tokio::test]
async fn too_many_pings_end_the_connection_with_a_word() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let ping = frame(kind::PING, 0, 0, b"12345678");
    client.write_all(&ping.repeat(PINGS.burst as usize)).await.unwrap();
    while one_turn(&mut server).await > 0 {}
    server.write_all(&frame(kind::DATA, 0, 1, b"row")).await.unwrap();
    let mut row = [0; 12];
    client.read_exact(&mut row).await.unwrap();
    // The server served something: as many are allowed again.
    client.write_all(&ping.repeat(PINGS.burst as usize)).await.unwrap();
    while one_turn(&mut server).await > 0 {}
    assert_eq!(server.ending, None);
    client.write_all(&ping.repeat(1 + PINGS.burst as usize)).await.unwrap();
    assert_eq!(ended(&mut server).await, "too_many_pings");
    drop(server);
    assert_eq!(last_words(client).await, (11, "too_many_pings".to_owned()));
}

#[tokio::test]
async fn answers_to_pings_are_no_pings() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let answer = frame(kind::PING, 1, 0, b"12345678");
    client.write_all(&answer.repeat(3 * PINGS.burst as usize)).await.unwrap();
    while one_turn(&mut server).await > 0 {}
    assert_eq!(server.ending, None);
}

#[tokio::test]
async fn too_many_settings_end_the_connection_with_a_word() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let settings = frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    client.write_all(&settings.repeat(2 * SETTINGS.burst as usize)).await.unwrap();
    assert_eq!(ended(&mut server).await, "too_many_settings");
    drop(server);
    assert_eq!(last_words(client).await, (11, "too_many_settings".to_owned()));
}

#[tokio::test]
async fn no_word_is_written_into_a_frame() {
    let (mut client, mut server) = greeted(ConnectionLimits::default()).await;
    let data = frame(kind::DATA, 0, 1, b"a long row");
    server.write_all(&data[..12]).await.unwrap();
    let settings = frame(kind::SETTINGS, 0, 0, &[]);
    client.write_all(&settings.repeat(2 * SETTINGS.burst as usize)).await.unwrap();
    assert_eq!(ended(&mut server).await, "too_many_settings");
    drop(server);
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, data[..12]);
}

#[tokio::test]
async fn a_client_that_never_greets_is_let_go() {
    let limits = ConnectionLimits { handshake: Duration::from_millis(20), ..Default::default() };
    let (mut client, server) = duplex(1 << 10);
    client.write_all(&PREFACE[..PREFACE.len() - 1]).await.unwrap();
    let mut server = Guarded::new(server, limits);
    assert_eq!(ended(&mut server).await, "handshake_timeout");
}

#[tokio::test]
async fn a_connection_with_nothing_but_pings_is_idle() {
    let idle = Duration::from_millis(50);
    let limits = ConnectionLimits { idle, ..Default::default() };
    let (mut client, mut server) = greeted(limits).await;
    client.write_all(&frame(kind::PING, 0, 0, b"12345678")).await.unwrap();
    assert_eq!(ended(&mut server).await, "max_idle");
    drop(server);
    assert_eq!(last_words(client).await, (0, "max_idle".to_owned()));
}

#[tokio::test]
async fn an_old_connection_takes_its_leave_and_ends_after_its_grace() {
    let moment = Duration::from_millis(50);
    let limits = ConnectionLimits { age: Some(moment), grace: moment, ..Default::default() };
    let (mut client, mut server) = greeted(limits).await;
    client.write_all(&frame(kind::HEADERS, 5, 3, b"call")).await.unwrap();
    let mut bytes = [0; 1 << 10];
    assert_eq!(server.read(&mut bytes).await.unwrap(), 13);
    assert_eq!(ended(&mut server).await, "max_age");
    drop(server);
    let mut leave = [0; 24];
    client.read_exact(&mut leave).await.unwrap();
    assert_eq!(leave[..], goodbye(LAST_STREAM, Ending::Age)[..]);
    let mut end = Vec::new();
    client.read_to_end(&mut end).await.unwrap();
    assert_eq!(end, goodbye(3, Ending::Age), "the last call is named");
}

#[tokio::test]
async fn the_leave_waits_for_the_end_of_a_frame() {
    let age = Duration::from_millis(50);
    let limits = ConnectionLimits { age: Some(age), ..Default::default() };
    let (mut client, mut server) = greeted(limits).await;
    let data = frame(kind::DATA, 0, 1, b"a row");
    server.write_all(&data[..10]).await.unwrap();
    // As long as it may take until the connection is old.
    tokio::time::sleep(2 * age).await;
    assert_eq!(one_turn(&mut server).await, 0);
    assert!(server.retired);
    server.write_all(&data[10..]).await.unwrap();
    server.write_all(&data).await.unwrap();
    drop(server);
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, [&data[..], &goodbye(LAST_STREAM, Ending::Age), &data].concat());
}
