//! Places for connections: so many in all, and so many for one address.
//!
//! Invariant: a place is free again when it is dropped, and an address without connections takes no
//! memory.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Bits of an IPv6 address that a network hands out as a whole. A client has all addresses below.
const IPV6_PREFIX: u32 = 64;

/// The open connections of a server. Clones share the places.
#[derive(Debug, Clone)]
pub struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connections_max: usize,
    per_address_max: usize,
    open: Mutex<Open>,
}

/// Counts of open connections. None of an address is zero.
#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The bound that one more connection would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// All places of the server are taken.
    InAll(usize),
    /// The address has all places that it may have.
    ForAddress(usize),
}

impl NoPlace {
    /// Returns the name of the reason in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::InAll(_) => "in_all",
            Self::ForAddress(_) => "for_address",
        }
    }
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll(max) => write!(f, "there are {max} connections, as many as there may be"),
            Self::ForAddress(max) => {
                write!(f, "the address has {max} connections, as many as it may have")
            }
        }
    }
}

impl Places {
    /// Places for `connections_max` connections, of which an address may have `per_address_max`.
    pub fn new(connections_max: usize, per_address_max: usize) -> Self {
        let open = Mutex::default();
        Self { shared: Arc::new(Shared { connections_max, per_address_max, open }) }
    }

    /// Takes a place for a connection from `address`.
    pub fn take(&self, address: IpAddr) -> Result<Place, NoPlace> {
        let address = network(address);
        let Shared { connections_max, per_address_max, open } = &*self.shared;
        let mut open = open.lock();
        if open.all >= *connections_max {
            return Err(NoPlace::InAll(*connections_max));
        }
        let count = open.by_address.entry(address).or_default();
        if *count >= *per_address_max {
            return Err(NoPlace::ForAddress(*per_address_max));
        }
        *count += 1;
        open.all += 1;
        Ok(Place { shared: Arc::clone(&self.shared), address })
    }

    /// Returns how many places are taken.
    pub fn taken(&self) -> usize {
        self.shared.open.lock().all
    }
}

/// The place of one connection.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        open.all -= 1;
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Returns the address that stands for all addresses of a client.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = u128::MAX << (u128::BITS - IPV6_PREFIX);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & kept))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_places_and_all_have_theirs() {
        let places = Places::new(3, 2);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let held = [places.take(one).unwrap(), places.take(one).unwrap()];
        assert_eq!(places.take(one).unwrap_err(), NoPlace::ForAddress(2));
        let third = places.take(other).unwrap();
        assert_eq!(places.take(other).unwrap_err(), NoPlace::InAll(3));
        drop(third);
        drop(held);
        assert_eq!(places.taken(), 0);
        assert!(places.shared.open.lock().by_address.is_empty());
        assert!(places.take(one).is_ok());
    }

    #[test]
    fn addresses_of_one_client_count_together() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::2:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let same_network = network(address(one)) == network(address(other));
            assert_eq!(same_network, same, "{one} and {other}");
        }
    }
}
