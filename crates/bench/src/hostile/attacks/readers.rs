//! Reads whose clients are slow, go away, or give no time.

use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::tables::{BROAD, FAMILY, LARGE, NARROW};
use crate::hostile::wire::{Peer, READ_ROWS, finish, sip};
use data::row_filter::Filter;
use data::row_range::{EndKey, StartKey};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use h2::client::ResponseFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Bytes that a slow client takes at once, and its pause after them.
const SIP_BYTES: u32 = 1 << 10;
const SIP_PAUSE: Duration = Duration::from_millis(500);
/// Window of a client that reads as fast as it can.
const WINDOW: u32 = 1 << 20;
/// A scan is cancelled after this time.
const CANCEL_AFTER: Duration = Duration::from_millis(10);
const DEADLINE: &str = "50m";
/// An answer after this time is late: the deadline and 2 s.
const LATE: Duration = Duration::from_millis(2_050);

/// The rows that slow clients read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows {
    Many,
    Large,
}

fn scan(rows: Rows) -> data::ReadRowsRequest {
    let (table, rows) = match rows {
        Rows::Many => (NARROW, None),
        Rows::Large => (BROAD, Some(prefix(LARGE))),
    };
    data::ReadRowsRequest { table_name: table.to_owned(), rows, ..Default::default() }
}

/// Returns the rows whose keys begin with `prefix`, which ends in `-`.
fn prefix(prefix: &str) -> data::RowSet {
    let end = prefix.replace('-', ".");
    let range = data::RowRange {
        start_key: Some(StartKey::StartKeyClosed(prefix.to_owned().into())),
        end_key: Some(EndKey::EndKeyOpen(end.into())),
    };
    data::RowSet { row_keys: vec![], row_ranges: vec![range] }
}

/// Returns a scan that finds nothing.
fn barren_scan() -> data::ReadRowsRequest {
    let absent = Filter::ColumnQualifierRegexFilter(b"absent"[..].into());
    let family = Filter::FamilyNameRegexFilter(FAMILY.to_owned());
    let filters = [family, absent].map(|filter| data::RowFilter { filter: Some(filter) });
    let chain = data::row_filter::Chain { filters: filters.into() };
    let filter = data::RowFilter { filter: Some(Filter::Chain(chain)) };
    data::ReadRowsRequest { filter: Some(filter), ..scan(Rows::Many) }
}

/// Reads on many streams of one connection, a sip of each at a time.
pub(super) async fn slow(field: Arc<Field>, rows: Rows) -> Result<(), AnyError> {
    let streams = match rows {
        Rows::Many => 250,
        Rows::Large => 64,
    };
    let peer = Peer::connect(&field, SIP_BYTES).await?;
    let mut readers = JoinSet::new();
    for _ in 0..streams {
        let answer = peer.send(READ_ROWS, &scan(rows), None).await?;
        field.sent(1);
        let field = Arc::clone(&field);
        readers.spawn(async move { read_slowly(&field, answer).await });
    }
    while readers.join_next().await.is_some() {}
    Err("every stream was ended".into())
}

/// Reads the whole answer slowly, and counts how it ends.
async fn read_slowly(field: &Field, answer: ResponseFuture) -> Result<(), AnyError> {
    let answer = answer.await?;
    let mut headers = answer.headers().clone();
    let mut body = answer.into_body();
    sip(&mut body, SIP_PAUSE).await?;
    headers.extend(body.trailers().await?.unwrap_or_default());
    let status = tonic::Status::from_header_map(&headers).ok_or("no status")?;
    field.answered(status.code());
    Ok(())
}

/// Scans to the end for a column that no row has.
pub(super) async fn barren(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    loop {
        field.sent(1);
        field.answered(peer.call(READ_ROWS, &barren_scan(), None).await?);
    }
}

/// Begins scans that find nothing and cancels them.
pub(super) async fn cancelled(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    loop {
        field.sent(1);
        let answer = peer.send(READ_ROWS, &barren_scan(), None).await?;
        let early = tokio::time::timeout(CANCEL_AFTER, finish(answer)).await;
        if let Ok(code) = early {
            field.answered(code?);
        }
    }
}

/// Begins scans that find nothing and have to end in time.
pub(super) async fn deadline(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    loop {
        field.sent(1);
        let begin = Instant::now();
        let answer = peer.send(READ_ROWS, &barren_scan(), Some(DEADLINE)).await?;
        match tokio::time::timeout_at(begin + LATE, finish(answer)).await {
            Ok(code) => field.answered(code?),
            Err(_) => field.tally().late += 1,
        }
    }
}
