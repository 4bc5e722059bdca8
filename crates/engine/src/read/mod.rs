//! The read path: a view of the tree, the merge of its sources row by row, and what of it is
//! visible.

pub mod merge;
