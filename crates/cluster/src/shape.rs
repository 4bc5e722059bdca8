//! The internal limits of a driver, as values of one struct, so that tests can make each small. No
//! answer depends on any of them.

base::shape! {
    /// The header of this file describes it. Bytes are bytes of commands, and counts are counts.
    pub struct Shape {
        /// Bytes of a command, beyond which it is refused.
        command_bytes_max = 16 << 20, 1 => 64 << 20;
        /// Bytes that a leader admits and that are not applied yet; one command always fits.
        unapplied_bytes_max = 16 << 20, 1 => 1 << 30;
        /// Bytes of entries of all groups of a node that are not applied yet, beyond which a follower takes
        /// no more than one message of a group at a time.
        held_bytes_max = 256 << 20, 1 => 64 << 30;
        /// Proposals of one group that wait for their outcome.
        proposals_max = 4096, 1 => 1 << 20;
        /// Reads of one group that wait for their index.
        reads_max = 4096, 1 => 1 << 20;
        /// Bytes of entries in one message, and in one fetch; one entry always fits.
        append_bytes_max = 1 << 20, 1 => 64 << 20;
        /// Messages with entries on their way to one replica.
        appends_in_flight_max = 64, 1 => 1 << 12;
        /// Bytes of committed entries that one step gives out for one group; one entry always fits.
        committed_bytes_max = 1 << 20, 1 => 64 << 20;
        /// Bytes of applied entries that a group keeps in memory for replicas that are behind.
        cached_bytes_max = 256 << 10, 0 => 1 << 30;
        /// Election timeouts without a word, or without one entry more, after which a replica counts as away: a
        /// log that is too long keeps nothing for it.
        away_timeouts = 30, 1 => 1000;
    }
}
