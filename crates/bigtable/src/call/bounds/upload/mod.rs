//! Requests on their way in: their memory is bounded, each by its method and all together.
//!
//! The transport reserves what the first five bytes of a message claim, and takes whatever comes.
//! Here a message is gathered first, and handed on when it is whole. A message that comes in one
//! piece, as most do, passes as it is.
//!
//! Invariants:
//! 1. Memory is taken for bytes that came, never for bytes that were claimed.
//! 2. A message that claims more than its method may have is refused before it comes.
//! 3. Bytes count (`pool.rs`) from their arrival until the call is answered, unless the message came
//!    in one piece, which is small. When all uploads together have as much as they may, or the
//!    identity's uploads as much as its share, the next to grow is refused; one alone never is.
//! 4. A message that comes too slowly is refused.
//! 5. A request has one message. A piece of another is refused.

mod gather;
mod pool;

pub(super) use gather::Upload;
pub(super) use pool::{Held, Uploads};

use crate::server::REQUEST_BYTES_MAX;

/// Largest message of a method that reads.
const READ_BYTES_MAX: usize = 16 << 20;
/// Largest message of a method of the admin services.
const ADMIN_BYTES_MAX: usize = 4 << 20;

const DATA_SERVICE: &str = "/google.bigtable.v2.Bigtable/";
/// Methods of the data service that bring rows.
const WRITES: [&str; 4] = ["MutateRow", "MutateRows", "CheckAndMutateRow", "ReadModifyWriteRow"];

/// Returns how many bytes the message of the method at `path` may have.
pub(super) fn message_bytes_max(path: &str) -> usize {
    match path.strip_prefix(DATA_SERVICE) {
        Some(method) if WRITES.contains(&method) => REQUEST_BYTES_MAX,
        Some(_) => READ_BYTES_MAX,
        None => ADMIN_BYTES_MAX,
    }
}
