//! Coverage marks of the driver: a branch at each border that an answer must not depend on. Hits are
//! counted in builds with debug assertions only, and tests ask if a border was crossed.

base::marks! {
    /// The header of this file describes it.
    pub enum Mark {
        // Elections and leases.

        /// A replica withheld its vote because it had promised not to give it.
        VoteWithheld,
        /// A replica did not stand for election because of its own promise.
        CampaignWithheld,
        /// A leader served a read under its lease.
        ReadUnderLease,
        /// A leader had no lease at a read, and asked a quorum.
        ReadAskedQuorum,
        /// A lease was over when a read came that it could have served.
        LeaseExpired,
        /// A read waited until the leader had committed an entry of its term.
        ReadAwaitedTerm,
        /// A read waited until its index was applied.
        ReadAwaitedApply,
        /// Reads were refused because their leader lost its office.
        ReadsRefused,
        /// A leader gave up its lease to hand its office over.
        LeaseRevoked,
        /// A replica stood for election because its leader asked it to.
        TransferVote,
        /// A handover came to its end at another leader.
        TransferDone,
        /// A handover was given up.
        TransferAborted,

        // Log.

        /// An uncommitted suffix of the log gave way to another.
        SuffixTruncated,
        /// Entries were dropped from memory after they had been applied.
        EntriesEvicted,
        /// A replica was behind what its leader has in memory.
        EntriesFetched,
        /// Fetched entries came too late, or not at all.
        FetchInVain,
        /// The beginning of the log was dropped.
        LogCompacted,
        /// A replica was behind the beginning of its leader's log.
        SeedingNeeded,
        /// A replica behind the beginning of the log was left out of what the log keeps.
        StrandedLeftOut,
        /// A replica that is heard and does not get on counted as away.
        StuckCountsAsAway,
        /// A log that was too long let go of what a replica lacked.
        LogCutAllTheSame,
        /// A follower took an append without its entries, since too much waited to be applied.
        AppendTrimmed,
        /// Committed entries were left for a later step.
        CommittedLeft,

        // Rounds.

        /// Several rounds were on their way to the disk.
        RoundsInFlight,
        /// A message waited for a round.
        MessageHeld,
        /// A heartbeat was answered before the entries that came ahead of it were saved.
        HeartbeatAnsweredEarly,

        // Proposals.

        /// A proposal was refused for its term was over.
        RefusedTerm,
        /// A proposal was refused because the group was full.
        RefusedFull,
        /// A proposal was refused during a handover.
        RefusedTransfer,
        /// Another entry took the place of a proposal.
        ProposalSuperseded,

        // Hibernation.

        /// A leader went to sleep.
        LeaderSlept,
        /// A follower went to sleep.
        FollowerSlept,
        /// A follower did not go to sleep, since it had not applied everything.
        SleepDeclined,
        /// A message woke a sleeping replica.
        WokenByMessage,
        /// A request woke a sleeping replica.
        WokenByRequest,
        /// The loss of its leader's node woke a replica.
        WokenByLoss,
    }
}
