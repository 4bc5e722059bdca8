//! Backups of tables.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::client;
use axum::Json;
use axum::extract::{RawQuery, State};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use serde_json::{Value, json};
use std::sync::Arc;

const BACKUPS_MAX: i32 = 200;
/// Longest page token that is passed on.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Answers with the backups of tables of `instance`, the newest first, after the page of `token`.
pub(in super::super) async fn backups(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
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
    let mut client = client::admin(&console, &visitor)?;
    let answer = client.list_backups(client::in_time(request)).await?.into_inner();
    let next = (!answer.next_page_token.is_empty()).then_some(answer.next_page_token);
    let backups: Vec<_> = answer.backups.iter().map(told).collect();
    Ok(Json(json!({ "backups": backups, "next": next })))
}

fn told(backup: &admin::Backup) -> Value {
    let state = admin::backup::State::try_from(backup.state).unwrap_or_default();
    json!({
        "name": backup.name,
        "source_table": backup.source_table,
        "source_backup": backup.source_backup,
        "state": state.as_str_name().to_lowercase(),
        "bytes": backup.size_bytes,
        "start_ms": milliseconds(backup.start_time.as_ref()),
        "end_ms": milliseconds(backup.end_time.as_ref()),
        "expire_ms": milliseconds(backup.expire_time.as_ref()),
    })
}

fn milliseconds(time: Option<&prost_types::Timestamp>) -> Option<i64> {
    time.map(|time| {
        time.seconds.saturating_mul(1_000).saturating_add(i64::from(time.nanos) / 1_000_000)
    })
}
