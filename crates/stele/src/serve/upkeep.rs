//! Drops deleted tables and backups whose time is over: when the server starts, and from time to time.

use std::sync::Arc;
use std::time::Duration;
use table::{Local, Shelves};

/// Time between two looks at the shelves.
const INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Looks for as long as the server runs. An error is logged, and the next look tries again.
pub(super) async fn run(store: Arc<Local>) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        match store.drop_expired().await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "dropped expired deleted tables and backups"),
            Err(error) => {
                tracing::warn!(%error, "could not drop expired deleted tables and backups");
            }
        }
    }
}
