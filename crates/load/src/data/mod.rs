//! The data of a run: functions of the identity, the number of a key, and a version. No table of keys
//! or values is kept, so 100 million keys need no more memory than the limit of [`Versions`].

mod frontier;
mod identity;
mod row_keys;
mod values;
mod versions;

pub(crate) use frontier::{Frontier, Taken};
pub(crate) use identity::Identity;
pub(crate) use row_keys::{RowKeys, column, column_of};
pub(crate) use values::{is_value, value};
pub(crate) use versions::{Seen, Version, Versions};
