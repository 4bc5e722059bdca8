//! Backups of tables.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::super::request::work::{answer, within};
use super::client;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use serde::Serialize;
use std::sync::Arc;

const BACKUPS_MAX: i32 = 200;
/// Longest page token that is passed on.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// A page of the list of backups.
#[derive(Debug, Serialize)]
struct BackupsView {
    backups: Vec<BackupView>,
    /// Token of the next page.
    next: Option<String>,
}

/// A backup. Its times are in milliseconds since the Unix epoch.
#[derive(Debug, Serialize)]
struct BackupView {
    name: String,
    source_table: String,
    source_backup: String,
    state: String,
    bytes: i64,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
    expire_ms: Option<i64>,
}

/// Answers with the backups of tables of `instance`, the newest first, after the page of `token`.
pub(in super::super) async fn backups(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["instance", "token"])?;
    let token = params.text("token").unwrap_or_default();
    if token.len() > TOKEN_BYTES_MAX {
        let rule = format!("must have at most {TOKEN_BYTES_MAX} bytes");
        return Err(Failure::parameter("token", rule));
    }
    let request = admin::ListBackupsRequest {
        parent: format!("{}/clusters/-", params.required("instance")?),
        order_by: "start_time desc".to_owned(),
        page_size: BACKUPS_MAX,
        page_token: token.to_owned(),
        ..admin::ListBackupsRequest::default()
    };
    let place = console.reads.take()?;
    let mut client = client::admin(&console, &visitor)?;
    let listed = within(client.list_backups(client::in_time(request))).await?.into_inner();
    let told = move || {
        let next = (!listed.next_page_token.is_empty()).then_some(listed.next_page_token);
        Ok(BackupsView { backups: listed.backups.into_iter().map(told).collect(), next })
    };
    answer(place, told).await
}

fn told(backup: admin::Backup) -> BackupView {
    let state = admin::backup::State::try_from(backup.state).unwrap_or_default();
    BackupView {
        name: backup.name,
        source_table: backup.source_table,
        source_backup: backup.source_backup,
        state: state.as_str_name().to_lowercase(),
        bytes: backup.size_bytes,
        start_ms: milliseconds(backup.start_time.as_ref()),
        end_ms: milliseconds(backup.end_time.as_ref()),
        expire_ms: milliseconds(backup.expire_time.as_ref()),
    }
}

fn milliseconds(time: Option<&prost_types::Timestamp>) -> Option<i64> {
    time.map(|time| {
        time.seconds.saturating_mul(1_000).saturating_add(i64::from(time.nanos) / 1_000_000)
    })
}
