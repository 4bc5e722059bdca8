//! The attacks by name: how many attackers there are, and the turn that each takes again and again.

mod connections;
mod floods;
mod intruders;
mod methods;
mod readers;
mod requests;
mod uploads;

pub(super) use methods::Call;

use super::attacker::Field;
use crate::AnyError;
use clap::ValueEnum;
use std::sync::Arc;

/// A way to attack a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// 1,000 scans whose client takes 1 KiB in half a second.
    SlowReaders,
    /// 256 reads of rows of 16 MiB whose client takes 1 KiB in half a second.
    SlowLargeReaders,
    /// 1,000 streams that claim a message of 256 MiB and send a byte at a time.
    TrickledUploads,
    /// 1,000 streams that send what they can of messages that never end.
    EndlessUploads,
    /// Calls that are cancelled as soon as they are sent.
    RapidReset,
    /// Header blocks that go on in CONTINUATION frames for ever.
    HeaderFlood,
    /// PING frames without an end.
    PingFlood,
    /// SETTINGS frames without an end.
    SettingsFlood,
    /// Connections that send a request, close their side, and read nothing.
    HalfClosed,
    /// 2,000 connections that do nothing.
    IdleConnections,
    /// 500 connections whose preface comes a byte a second.
    SlowHandshakes,
    /// Bytes that are no HTTP/2.
    Garbage,
    /// Filters with 1,300 regular expressions.
    Patterns,
    /// Conditions over rows of 200,000 cells.
    WideConditions,
    /// 64 scans for a column that no row has.
    BarrenScans,
    /// Scans that are cancelled after 10 ms.
    CancelledScans,
    /// Scans with a deadline of 50 ms.
    Deadlines,
    /// Filters of a kind that the server cannot know.
    UnknownOneofs,
    /// Calls of all methods with expired, foreign and forged tokens, and without one.
    ForgedTokens,
    /// Calls of methods that the caller's role does not allow.
    WrongRoles,
    /// HTTP requests that call the server by a name that a web page chose.
    Rebinding,
}

impl Attack {
    /// Returns how many attackers take turns at the same time.
    pub(super) fn attackers(self) -> usize {
        match self {
            Self::SlowReaders | Self::SlowLargeReaders => 4,
            Self::TrickledUploads | Self::EndlessUploads => 4,
            Self::RapidReset | Self::HeaderFlood | Self::PingFlood | Self::SettingsFlood => 4,
            Self::HalfClosed => 500,
            Self::IdleConnections => 2_000,
            Self::SlowHandshakes => 500,
            Self::Garbage | Self::Patterns | Self::WideConditions => 8,
            Self::BarrenScans | Self::CancelledScans => 64,
            Self::Deadlines => 32,
            Self::ForgedTokens | Self::WrongRoles => 8,
            Self::UnknownOneofs | Self::Rebinding => 2,
        }
    }

    /// Returns true for an attack on a server that knows its clients.
    pub(super) fn needs_identities(self) -> bool {
        matches!(self, Self::ForgedTokens | Self::WrongRoles)
    }

    /// Takes one turn. An error is a connection that the server closed.
    pub(super) async fn turn(self, field: Arc<Field>) -> Result<(), AnyError> {
        match self {
            Self::SlowReaders => readers::slow(field, readers::Rows::Many).await,
            Self::SlowLargeReaders => readers::slow(field, readers::Rows::Large).await,
            Self::TrickledUploads => uploads::upload(field, uploads::Pace::Trickle).await,
            Self::EndlessUploads => uploads::upload(field, uploads::Pace::Full).await,
            Self::RapidReset => floods::resets(&field).await,
            Self::HeaderFlood => floods::headers(&field).await,
            Self::PingFlood => floods::pings(&field).await,
            Self::SettingsFlood => floods::settings(&field).await,
            Self::HalfClosed => connections::half_closed(&field).await,
            Self::IdleConnections => connections::idle(&field).await,
            Self::SlowHandshakes => connections::slow_handshake(&field).await,
            Self::Garbage => connections::garbage(&field).await,
            Self::Patterns => requests::patterns(&field).await,
            Self::WideConditions => requests::wide_condition(&field).await,
            Self::BarrenScans => readers::barren(&field).await,
            Self::CancelledScans => readers::cancelled(&field).await,
            Self::Deadlines => readers::deadline(&field).await,
            Self::UnknownOneofs => requests::unknown_oneof(&field).await,
            Self::ForgedTokens => intruders::forged_tokens(&field).await,
            Self::WrongRoles => intruders::wrong_roles(&field).await,
            Self::Rebinding => intruders::rebinding(&field).await,
        }
    }
}
