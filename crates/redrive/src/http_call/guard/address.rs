//! Which addresses are of the outside world. Whatever is not known to be is not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not one of the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inside {
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// The network at hand, where clouds keep their metadata.
    LinkLocal,
    /// Addresses that a provider shares among its customers.
    Shared,
    /// Nowhere, which some systems read as this machine.
    Unspecified,
    /// Many at once.
    Multicast,
    /// Everybody at once.
    Broadcast,
    /// Set aside for examples, measurements or the future.
    Reserved,
}

impl Inside {
    /// Its name, by which messages are looked up.
    pub const fn name(self) -> &'static str {
        match self {
            Inside::Loopback => "loopback",
            Inside::Private => "private",
            Inside::LinkLocal => "link_local",
            Inside::Shared => "shared",
            Inside::Unspecified => "unspecified",
            Inside::Multicast => "multicast",
            Inside::Broadcast => "broadcast",
            Inside::Reserved => "reserved",
        }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Inside::Loopback => "this machine",
            Inside::Private => "a private address",
            Inside::LinkLocal => "a link-local address",
            Inside::Shared => "a shared address of a provider",
            Inside::Unspecified => "no address",
            Inside::Multicast => "a multicast address",
            Inside::Broadcast => "a broadcast address",
            Inside::Reserved => "a reserved address",
        })
    }
}

/// Why this address is not one of the outside world; nothing when it is. An IPv4 address that is wrapped into an IPv6 one counts as
/// what it is.
///
/// ```
/// use redrive::inside_of_network;
/// assert!(inside_of_network("169.254.169.254".parse().unwrap()).is_some());
/// assert!(inside_of_network("1.1.1.1".parse().unwrap()).is_none());
/// ```
pub fn inside(address: IpAddr) -> Option<Inside> {
    match address {
        IpAddr::V4(v4) => inside_v4(v4),
        IpAddr::V6(v6) => inside_v6(v6),
    }
}

fn inside_v4(address: Ipv4Addr) -> Option<Inside> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => Inside::Unspecified,
        (127, ..) => Inside::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Inside::Private,
        (169, 254, _) => Inside::LinkLocal,
        (100, 64..=127, _) => Inside::Shared,
        (224..=239, ..) => Inside::Multicast,
        (255, 255, 255) if address == Ipv4Addr::BROADCAST => Inside::Broadcast,
        // Protocol assignments, examples, 6to4 relays, measurements, and what is kept for the future.
        (192, 0, 0 | 2)
        | (198, 51, 100)
        | (203, 0, 113)
        | (192, 88, 99)
        | (198, 18..=19, _)
        | (240.., ..) => Inside::Reserved,
        _ => return None,
    })
}

fn inside_v6(address: Ipv6Addr) -> Option<Inside> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Inside::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Inside::Loopback),
        // An IPv4 address, mapped, compatible, translated (also by a local translator), or through 6to4. What is wrapped may be of
        // the outside world; the wrapping itself is not where the outside world is reached.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            inside_v4(v4(high, low)).or((segments[5] != 0xffff).then_some(Inside::Reserved))
        }
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            inside_v4(v4(high, low)).or(Some(Inside::Reserved))
        }
        // Teredo, which carries its server and, turned over, its client; examples, measurements, a dead end, and a local matter.
        [0x2001, 0 | 2 | 0x10..=0x2f | 0xdb8, ..]
        | [0x3fff, 0..=0x0fff, ..]
        | [0x5f00 | 0x64, ..]
        | [0x100, 0, 0, 0, ..] => Some(Inside::Reserved),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(Inside::Private),
        [0xfe80..=0xfebf, ..] => Some(Inside::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Inside::Multicast),
        // What is handed out to the world begins with these three bits; nothing else is reached.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Inside::Reserved),
    }
}

/// Whether an address is in a network. An IPv4 address that is mapped into an IPv6 one is the same address.
pub(super) fn is_in(address: IpAddr, net: IpAddr, prefix: u8) -> bool {
    match (address.to_canonical(), net) {
        (IpAddr::V4(address), IpAddr::V4(net)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            u32::from(address) & mask == u32::from(net) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(net)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            u128::from(address) & mask == u128::from(net) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 60: each kind of address, at both ends of its range, and its neighbours outside.
    #[test]
    fn each_kind_of_address_is_known_at_both_ends() {
        for (address, expected) in [
            ("0.0.0.0", Some(Inside::Unspecified)),
            ("0.255.255.255", Some(Inside::Unspecified)),
            ("1.0.0.0", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some(Inside::Private)),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Inside::Shared)),
            ("100.127.255.255", Some(Inside::Shared)),
            ("100.128.0.0", None),
            ("127.255.255.255", Some(Inside::Loopback)),
            ("169.254.169.254", Some(Inside::LinkLocal)),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Inside::Private)),
            ("172.31.255.255", Some(Inside::Private)),
            ("172.32.0.0", None),
            ("192.0.0.1", Some(Inside::Reserved)),
            ("192.0.2.1", Some(Inside::Reserved)),
            ("192.88.99.1", Some(Inside::Reserved)),
            ("192.168.255.255", Some(Inside::Private)),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(Inside::Reserved)),
            ("198.19.255.255", Some(Inside::Reserved)),
            ("198.51.100.9", Some(Inside::Reserved)),
            ("203.0.113.9", Some(Inside::Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.1", Some(Inside::Multicast)),
            ("240.0.0.1", Some(Inside::Reserved)),
            ("255.255.255.255", Some(Inside::Broadcast)),
            ("::", Some(Inside::Unspecified)),
            ("::1", Some(Inside::Loopback)),
            ("::ffff:127.0.0.1", Some(Inside::Loopback)),
            ("::ffff:1.1.1.1", None),
            ("::127.0.0.1", Some(Inside::Loopback)),
            ("::1.1.1.1", Some(Inside::Reserved)),
            ("::ffff:0:10.0.0.1", Some(Inside::Private)),
            ("64:ff9b::10.0.0.1", Some(Inside::Private)),
            ("64:ff9b::1.1.1.1", Some(Inside::Reserved)),
            ("64:ff9b:1::1", Some(Inside::Reserved)),
            ("2002:a9fe:a9fe::1", Some(Inside::LinkLocal)),
            ("2002:101:101::1", Some(Inside::Reserved)),
            ("2001:0:1::1", Some(Inside::Reserved)),
            ("2001:db8::1", Some(Inside::Reserved)),
            ("2001:4860:4860::8888", None),
            ("100::1", Some(Inside::Reserved)),
            ("fc00::1", Some(Inside::Private)),
            ("fdff::1", Some(Inside::Private)),
            ("fe80::1", Some(Inside::LinkLocal)),
            ("fec0::1", Some(Inside::Private)),
            ("ff02::1", Some(Inside::Multicast)),
            ("4000::1", Some(Inside::Reserved)),
        ] {
            assert_eq!(inside(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// Reliability 60: networks hold what they say, also the whole and a single address.
    #[test]
    fn a_network_holds_its_addresses() {
        let is_in =
            |address: &str, net: &str, prefix| is_in(address.parse().unwrap(), net.parse().unwrap(), prefix);
        assert!(is_in("10.255.0.1", "10.0.0.0", 8) && !is_in("11.0.0.0", "10.0.0.0", 8));
        assert!(is_in("1.2.3.4", "0.0.0.0", 0) && is_in("fd00::1", "::", 0));
        assert!(is_in("10.0.0.1", "10.0.0.1", 32) && !is_in("10.0.0.2", "10.0.0.1", 32));
        assert!(is_in("::ffff:10.0.0.1", "10.0.0.0", 8) && !is_in("fd00::1", "10.0.0.0", 8));
        assert!(is_in("fd12::1", "fd00::", 8) && !is_in("fe80::1", "fd00::", 8));
    }
}
