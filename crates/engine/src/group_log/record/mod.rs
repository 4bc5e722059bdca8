//! Records of the group log: the values that they have, and their bytes (docs/format/group_log.md).

pub(super) mod codec;
pub(super) mod entry;
