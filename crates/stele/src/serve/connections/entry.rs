//! Places for the connections of one front.

use super::super::security::metrics::SecurityMetrics;
use super::Connection;
use bigtable::{Place, Places};

/// The entry of a front: only connections that have a place go on.
#[derive(Debug)]
pub(crate) struct Entry {
    places: Places,
    metrics: SecurityMetrics,
}

impl Entry {
    /// Returns the entry to `connections_max` places, of which an address may have `per_address_max`.
    pub(crate) fn new(
        connections_max: usize,
        per_address_max: usize,
        metrics: &SecurityMetrics,
    ) -> Self {
        Self { places: Places::new(connections_max, per_address_max), metrics: metrics.clone() }
    }

    /// Takes a place for `connection`. If all are taken, returns nothing, and counts that.
    pub(crate) fn place_for(&self, connection: &Connection) -> Option<Place> {
        let address = connection.address().ok()?;
        let refused = |reason| {
            self.metrics.refused_connection(reason);
            tracing::debug!(%address, %reason, "closed a connection");
        };
        self.places.take(address.ip()).map_err(refused).ok()
    }
}
