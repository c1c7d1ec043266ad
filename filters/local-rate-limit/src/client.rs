//! Who the client is: by the connection as Envoy sees it, or by `x-forwarded-for`.
//!
//! Each proxy appends the address that it was called from. So the entries at the end of `x-forwarded-for` are true
//! as far as the proxies that wrote them are trusted, and all before them are what a client made up.

use std::net::{IpAddr, SocketAddr};

use filter_api::{Attribute, Head, Host};
use ipnet::IpNet;
use smallvec::SmallVec;

/// Where a client's address is taken from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What Envoy takes for it: `source.address`.
    #[default]
    Connection,
    /// The entry of `x-forwarded-for` before so many at its end.
    Hops(usize),
    /// The last entry of `x-forwarded-for` that is in none of these networks.
    Proxies(Vec<IpNet>),
}

/// How many bits of an address tell clients apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mask {
    pub(crate) v4: u8,
    pub(crate) v6: u8,
}

/// A single address of version 4; of version 6 the network that one subscriber has.
impl Default for Mask {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

/// Whose request it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Client {
    /// Who has this address.
    Address(IpAddr),
    /// A peer without an IP address, such as a Unix domain socket: as Envoy names it.
    Other(Vec<u8>),
}

impl Client {
    /// The bytes that tell this client from others.
    pub(crate) fn key(&self, mask: Mask) -> SmallVec<[u8; 32]> {
        match self {
            Self::Address(IpAddr::V4(address)) => masked(&address.octets(), mask.v4),
            Self::Address(IpAddr::V6(address)) => masked(&address.octets(), mask.v6),
            Self::Other(name) => SmallVec::from_slice(name),
        }
    }

    /// Whether it is in one of these networks.
    pub(crate) fn is_in(&self, networks: &[IpNet]) -> bool {
        matches!(self, Self::Address(address) if contains(networks, *address))
    }
}

impl Origin {
    /// Whose request it is; none where nobody knows.
    pub(crate) fn client(&self, head: &impl Head, host: &impl Host) -> Option<Client> {
        match self {
            Self::Connection => None,
            Self::Hops(hops) => forwarded(head, |entries| entries.nth(*hops).and_then(address)),
            Self::Proxies(proxies) => forwarded(head, |entries| beyond(proxies, entries)),
        }
        .map(Client::Address)
        .or_else(|| of_connection(host))
    }
}

/// What Envoy takes for the client.
fn of_connection(host: &impl Host) -> Option<Client> {
    let peer = host.attribute(Attribute::SourceAddress)?;
    Some(match address(&peer) {
        Some(address) => Client::Address(address),
        None => Client::Other(peer),
    })
}

/// Looks at the entries of `x-forwarded-for`, the last first.
fn forwarded<'h, T>(
    head: &'h impl Head,
    look: impl FnOnce(&mut dyn Iterator<Item = &'h [u8]>) -> Option<T>,
) -> Option<T> {
    let lines: SmallVec<[&[u8]; 2]> = head.get_all("x-forwarded-for").collect();
    look(&mut lines.into_iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')))
}

/// The last entry that is no trusted proxy. Where one is no address at all, whoever wrote it is the last that is
/// known; where all are trusted, the first.
fn beyond(proxies: &[IpNet], entries: &mut dyn Iterator<Item = &[u8]>) -> Option<IpAddr> {
    let mut last = None;
    for entry in entries {
        let Some(address) = address(entry) else { break };
        last = Some(address);
        if !contains(proxies, address) {
            break;
        }
    }
    last
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// An address, with or without a port. One of version 4 that is written as one of version 6 is one of version 4.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
    };
    Some(address.to_canonical())
}

/// The first bits of an address.
fn masked(octets: &[u8], bits: u8) -> SmallVec<[u8; 32]> {
    let mut left = u32::from(bits);
    let masked = octets.iter().map(|octet| {
        let kept = left.min(8);
        left = left.saturating_sub(kept);
        octet & !0xff_u8.checked_shr(kept).unwrap_or(0)
    });
    masked.collect()
}

#[cfg(test)]
mod tests {
    use filter_api::HeadMap;

    use super::*;
    use crate::tests::new_world;

    fn shown(origin: &Origin, forwarded: &[&str]) -> String {
        let head = forwarded.iter().fold(HeadMap::get("/"), |head, line| head.with("x-forwarded-for", line));
        let world = new_world();
        "192.0.2.9:4711".clone_into(&mut world.source_address.borrow_mut());
        match origin.client(&head, &world) {
            Some(Client::Address(address)) => address.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn hops_are_counted_from_the_end() {
        let rows: &[(usize, &[&str], &str)] = &[
            (0, &["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
            (1, &["1.1.1.1, 2.2.2.2"], "1.1.1.1"),
            (1, &["9.9.9.9,1.1.1.1", "2.2.2.2"], "1.1.1.1"),
            (2, &["1.1.1.1, 2.2.2.2"], "192.0.2.9"),
            (0, &[], "192.0.2.9"),
            (0, &[""], "192.0.2.9"),
            (0, &["1.1.1.1, junk"], "192.0.2.9"),
            (0, &["1.1.1.1:80"], "1.1.1.1"),
            (0, &["[2001:db8::1]:80"], "2001:db8::1"),
            (0, &["[2001:db8::1]"], "2001:db8::1"),
            (0, &["2001:db8::1"], "2001:db8::1"),
            (0, &["::ffff:1.1.1.1"], "1.1.1.1"),
            (0, &["::ffff:1.1.1.1:80"], "192.0.2.9"),
            (usize::MAX, &["1.1.1.1"], "192.0.2.9"),
        ];
        for (hops, forwarded, expected) in rows {
            assert_eq!(shown(&Origin::Hops(*hops), forwarded), *expected, "{hops} {forwarded:?}");
        }
        assert_eq!(shown(&Origin::Connection, &["1.1.1.1"]), "192.0.2.9");
    }

    #[test]
    fn trusted_proxies_are_passed_over() {
        let origin = Origin::Proxies(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
        let rows: &[(&[&str], &str)] = &[
            (&["6.6.6.6, 1.1.1.1, 10.0.0.1, 10.2.3.4"], "1.1.1.1"),
            (&["6.6.6.6, 1.1.1.1, 10.0.0.1", "2001:db8::7"], "1.1.1.1"),
            (&["1.1.1.1, 6.6.6.6"], "6.6.6.6"),
            (&["10.0.0.2, 10.0.0.1"], "10.0.0.2"),
            (&["1.1.1.1, unknown, 10.0.0.1"], "10.0.0.1"),
            (&["1.1.1.1, unknown"], "192.0.2.9"),
            (&["::ffff:10.0.0.1, ::ffff:10.0.0.2"], "10.0.0.1"),
            (&[], "192.0.2.9"),
        ];
        for (forwarded, expected) in rows {
            assert_eq!(shown(&origin, forwarded), *expected, "{forwarded:?}");
        }
    }

    #[test]
    fn a_mask_keeps_the_first_bits() {
        let key =
            |address: &str, v4, v6| Client::Address(address.parse().unwrap()).key(Mask { v4, v6 }).to_vec();
        assert_eq!(key("192.0.2.255", 24, 64), [192, 0, 2, 0]);
        assert_eq!(key("192.0.2.255", 32, 64), [192, 0, 2, 255]);
        assert_eq!(key("192.0.2.255", 30, 64), [192, 0, 2, 252]);
        assert_eq!(key("192.0.2.255", 0, 0), [0; 4]);
        assert_eq!(key("2001:db8::ff", 24, 64), [&[0x20, 1, 0xd, 0xb8][..], &[0; 12]].concat());
        assert_eq!(key("ffff::1", 24, 128).last(), Some(&1));
        assert_eq!(Client::Other(b"@/unix".to_vec()).key(Mask::default()).to_vec(), b"@/unix");
        assert!(!Client::Other(b"10.0.0.1x".to_vec()).is_in(&["0.0.0.0/0".parse().unwrap()]));
    }
}
