//! Google's Bigtable API over a [`table::Store`]: the data and admin services of
//! `google.bigtable.v2` and `google.bigtable.admin.v2`, and the operations service they need.
//!
//! A tour of the rooms: `data` and `admin` are the services, with the files that take their messages
//! apart and put them together. `query` is SQL. `connection` guards the bytes of each connection.
//! `call` is what happens to every call: its bounds, its deadline, its error status. `wire` is the
//! codec of all methods, which refuses unknown members of oneofs and completes maps. `names.rs` reads
//! the names of resources, `server.rs` mounts it all, `direct.rs` is the way past the router.
//!
//! ```no_run
//! # async fn serve(store: std::sync::Arc<table::Local>) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8086").await?;
//! let limits = bigtable::Limits::within(512 << 20);
//! bigtable::server(&limits)
//!     .add_routes(bigtable::routes(store, &limits))
//!     .serve_with_incoming(bigtable::incoming(listener, &limits))
//!     .await?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod admin;
mod api;
mod call;
mod connection;
mod data;
mod direct;
#[doc(hidden)]
pub mod fuzz;
mod names;
mod query;
mod server;
mod wire;

pub use admin::directory::KnownNames;
pub use admin::schema::{schema_message, table_of_message};
pub use api::served::{METHODS, SERVICES};
pub use call::authorize::Callers;
pub use call::bounds::{Bounds, Holdings, Refusal};
pub use call::caller::{Allowed, Caller, CallerHandle, EndedCall, ResourcePolicy, RoleBinding};
pub use connection::{ConnectionLimits, Guarded, NoPlace, Place, Places};
pub use direct::DataFirst;
pub use names::table as table_name;
pub use query::explain::{PlanStep, explain};
pub use server::{
    Limits, REQUEST_BYTES_MAX, bounded, incoming, routes, routes_for, server, services_for,
};
