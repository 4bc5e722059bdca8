//! Google's Bigtable API over a [`table::Store`]: the data and admin services of
//! `google.bigtable.v2` and `google.bigtable.admin.v2`, and the operations service they need.
//!
//! A tour: `data.rs`, `admin.rs`, `instance.rs` and `operations.rs` are the services; `names.rs`,
//! `convert.rs`, `filter.rs` and `schema.rs` take messages apart and put them together;
//! `chunks.rs` writes rows to the wire and `status.rs` errors; `server.rs` mounts it all.
//!
//! The generated messages cannot tell everything: `wire.rs` is the codec of all methods, which refuses
//! unknown members of oneofs (`members.rs`) and completes maps (`maps.rs`) by what `forms.rs` knows.
//! `deadline.rs` ends calls in time.
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
mod deadline;
mod explain;
mod fields;
mod filter;
mod forms;
#[doc(hidden)]
pub mod fuzz;
mod instance;
mod maps;
mod members;
mod names;
mod operations;
mod schema;
mod server;
mod status;
mod wire;

pub use api::served::{METHODS, SERVICES};
pub use names::table as table_name;
pub use server::{REQUEST_BYTES_MAX, incoming, routes, server};
