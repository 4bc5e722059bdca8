//! Google's Bigtable API over a [`table::Store`]: the data and admin services of
//! `google.bigtable.v2` and `google.bigtable.admin.v2`, and the operations service they need.
//!
//! A tour: `data.rs`, `admin.rs`, `instance.rs` and `operations.rs` are the services; `names.rs`,
//! `convert.rs`, `filter.rs` and `schema.rs` take messages apart and put them together;
//! `chunks.rs` writes rows to the wire and `status.rs` errors; `server.rs` mounts it all.
//!
//! ```no_run
//! # async fn serve(store: std::sync::Arc<table::Local>) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8086").await?;
//! bigtable::server()
//!     .add_routes(bigtable::routes(store))
//!     .serve_with_incoming(bigtable::incoming(listener))
//!     .await?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod admin;
mod api;
mod chunks;
mod convert;
mod data;
mod explain;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod instance;
mod names;
mod operations;
mod schema;
mod server;
mod status;
mod wire;

pub use names::table as table_name;
pub use server::{REQUEST_BYTES_MAX, incoming, routes, server};
