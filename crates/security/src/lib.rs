//! Security of a server, independent of the protocol that it serves.
//!
//! A tour of the rooms: `tls` reads certificates and keys into configurations of TLS, takes the name of
//! a client from its certificate, and makes certificates for trying. `identity` tells who sent a token.
//! `policy` tells what an identity may do. `files.rs` reads the small files that all of it comes from.
//!
//! Nothing here opens a socket or starts a thread: a server brings the connections, and asks again for
//! what may have changed.
#![forbid(unsafe_code)]

mod error;
mod files;
pub mod identity;
pub mod policy;
pub mod tls;

pub use error::{Error, Result};
pub use files::Stamp;
