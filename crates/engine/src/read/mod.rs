//! The read path: the merge of a tree's sources row by row, and what of it is visible.

pub mod counters;
pub(crate) mod cover;
pub mod dropped;
pub mod merge;
pub(crate) mod parts;
pub(crate) mod point;
pub mod run;
pub mod scan;
pub mod source;
mod stretch;
pub mod visible;
