//! Envoy's response flags: why a response is as it is, as access logs tell it.

/// The short names, in the order of their bits: `CoreResponseFlag` of Envoy 1.40.
const NAMES: [&str; 30] = [
    "LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "DI", "FI", "RL", "UAEX", "RLSE", "DC", "URX",
    "SI", "IH", "DPE", "UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DO", "DR", "UDO",
];

/// Response flags, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseFlags(pub u64);

impl ResponseFlags {
    /// The flag of this short name.
    pub fn named(name: &str) -> Option<Self> {
        let place = NAMES.iter().position(|known| *known == name)?;
        1_u64.checked_shl(u32::try_from(place).ok()?).map(Self)
    }

    /// Whether one of these is set.
    pub fn has_any_of(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// The short names of those that are set. One that this version does not know has none.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter_map(move |(place, name)| {
            let shifted = self.0.checked_shr(u32::try_from(place).ok()?)?;
            (shifted & 1 == 1).then_some(name)
        })
    }

    /// All names that there are.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits_are_each_others() {
        for name in ResponseFlags::all_names() {
            let flag = ResponseFlags::named(name).unwrap();
            assert_eq!(flag.names().collect::<Vec<_>>(), [name]);
        }
        assert_eq!(ResponseFlags::named("UF"), Some(ResponseFlags(0x20)));
        assert_eq!(ResponseFlags(0x4020).names().collect::<Vec<_>>(), ["UF", "DC"]);
        assert_eq!(ResponseFlags::named("XX"), None);
        assert_eq!(ResponseFlags(1 << 63).names().count(), 0);
    }
}
