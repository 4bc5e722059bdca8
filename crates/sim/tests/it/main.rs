//! The promises of the design (section 12), one file each.

#![expect(clippy::unwrap_used, reason = "this is a test")]

mod bulk_load;
mod byte_flips;
mod changes;
mod check_finds;
mod checkpoint;
mod concurrency;
mod divided;
mod every_call;
mod formats_live_on;
mod full_disk;
mod hard_times;
mod late_deletes;
mod metamorphic;
mod power_loss;
mod repair;
mod sick_disk;
