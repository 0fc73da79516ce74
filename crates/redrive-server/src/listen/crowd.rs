//! How many connections there are, in all and from one address. Nobody can take so many that none are left for others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crowd(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    from: HashMap<IpAddr, usize>,
}

/// A connection that counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Crowd,
    from: Option<IpAddr>,
}

impl Crowd {
    /// A place for a connection from this address, if there is one. This machine may have them all.
    pub(super) fn enter(&self, from: IpAddr, most: usize, most_from_one: usize) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.total >= most {
            return None;
        }
        let from = (!from.to_canonical().is_loopback()).then(|| one_of(from));
        if let Some(from) = from {
            let count = counts.from.entry(from).or_default();
            if *count >= most_from_one {
                return None;
            }
            *count += 1;
        }
        counts.total += 1;
        Some(Place { crowd: self.clone(), from })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total = counts.total.saturating_sub(1);
        if let Some(from) = self.from {
            let left = counts.from.get_mut(&from).map(|count| {
                *count = count.saturating_sub(1);
                *count
            });
            if left == Some(0) {
                counts.from.remove(&from);
            }
        }
    }
}

/// Whom an address stands for: a network of 64 bits is handed to one customer, who can use any address of it.
pub(crate) fn one_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 57: an address has its share, a network of 64 bits is one address, and this machine may have all.
    #[test]
    fn an_address_has_its_share() {
        let crowd = Crowd::default();
        let enter = |from: &str| crowd.enter(from.parse().unwrap(), 5, 2);
        let (one, two) = (enter("192.0.2.1"), enter("::ffff:192.0.2.1"));
        assert!(one.is_some() && two.is_some() && enter("192.0.2.1").is_none());
        let network = (enter("2001:db8::1"), enter("2001:db8::2"));
        assert!(network.0.is_some() && network.1.is_some() && enter("2001:db8::3").is_none());
        drop(two);
        let again = enter("192.0.2.1");
        assert!(again.is_some());
        // Five are five, whoever they are.
        let local = enter("127.0.0.1");
        assert!(local.is_some() && enter("127.0.0.1").is_none());
        drop((one, again, network, local));
        assert_eq!((crowd.len(), crowd.0.lock().unwrap().from.len()), (0, 0));
    }
}
