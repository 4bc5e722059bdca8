//! What an open engine knows of its owner (`owner` has the rules).

use crate::cell::TreeId;
use crate::manifest::Owner;
use std::sync::atomic::AtomicBool;

/// The tree of a server's schema.
pub(crate) const SCHEMA: TreeId = TreeId(1);

/// What an open engine knows of its owner.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    /// Of a store of before owners: what it has tells.
    pub(super) told_by_contents: Option<Owner>,
    /// True if the store is a server's, and was not claimed by one.
    pub(super) foreign: AtomicBool,
}

impl Ownership {
    /// The owner that the manifest tells, or what the store's contents tell.
    pub(crate) fn new(owner: Option<Owner>, told_by_contents: Option<Owner>) -> Self {
        let foreign = owner.or(told_by_contents) == Some(Owner::Server);
        Self { told_by_contents, foreign: AtomicBool::new(foreign) }
    }
}
