//! The rows of a query as tests compare them.

use tokio_postgres::{Client, SimpleQueryMessage};

/// Returns the rows of a query as texts, with `NULL` for NULL.
pub(crate) async fn rows(client: &Client, text: &str) -> Vec<String> {
    let messages = client.simple_query(text).await.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}
