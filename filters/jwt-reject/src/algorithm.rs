//! Signature algorithms: a closed list (RFC 7518 section 3.1, RFC 8037 section 3.1). `none` is not
//! on it, in any spelling.

use filter_api::Hash;

/// An algorithm that a token may be signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the RFCs
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    ES512,
    EdDSA,
}

/// What kind of key an algorithm takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// HMAC with a shared secret.
    Hmac,
    /// RSASSA-PKCS1-v1_5.
    RsaPkcs1,
    /// RSASSA-PSS.
    RsaPss,
    /// ECDSA; each algorithm with its own curve.
    Ecdsa,
    /// Ed25519.
    Edwards,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 13] = [
        Self::HS256,
        Self::HS384,
        Self::HS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::ES512,
        Self::EdDSA,
    ];

    /// The name in a token's `alg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::ES512 => "ES512",
            Self::EdDSA => "EdDSA",
        }
    }

    /// The algorithm of this name. Names are compared with case: `hs256` is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The kind of key that it takes.
    pub fn family(self) -> Family {
        match self {
            Self::HS256 | Self::HS384 | Self::HS512 => Family::Hmac,
            Self::RS256 | Self::RS384 | Self::RS512 => Family::RsaPkcs1,
            Self::PS256 | Self::PS384 | Self::PS512 => Family::RsaPss,
            Self::ES256 | Self::ES384 | Self::ES512 => Family::Ecdsa,
            Self::EdDSA => Family::Edwards,
        }
    }

    /// The hash that it signs. Ed25519 hashes by itself; SHA-512 is the one it uses.
    pub fn hash(self) -> Hash {
        match self {
            Self::HS256 | Self::RS256 | Self::PS256 | Self::ES256 => Hash::Sha256,
            Self::HS384 | Self::RS384 | Self::PS384 | Self::ES384 => Hash::Sha384,
            Self::HS512 | Self::RS512 | Self::PS512 | Self::ES512 | Self::EdDSA => Hash::Sha512,
        }
    }

    /// The length of its hash in bytes: the least an HMAC key may have (RFC 7518 section 3.2).
    pub fn hash_bytes(self) -> usize {
        match self.hash() {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_closed_list() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        for name in
            ["none", "None", "nOnE", "NONE", "hs256", "HS256 ", "", "ES256K", "RS1", "A128KW", "EDDSA"]
        {
            assert_eq!(Algorithm::from_name(name), None, "{name:?}");
        }
    }
}
