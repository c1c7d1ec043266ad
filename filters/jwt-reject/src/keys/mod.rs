//! The keys of a provider: read once, when it is configured, into the forms that checking a
//! signature needs.

mod jwk;
mod pem;
mod spki;

use crate::algorithm::{Algorithm, Family};
use crate::signature::rsa;

/// The most keys that a set may have. Each may be tried for a token without `kid`.
pub const MAX_KEYS: usize = 100;

/// The least size of an RSA modulus in bits: below, a key can be factored.
const LEAST_RSA_BITS: usize = 2048;

/// A set of keys that can check signatures; at least one.
#[derive(Debug, Clone)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// A key: what it is made of, and what it may be used for.
#[derive(Clone)]
pub struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    material: Material,
    allow_weak: bool,
}

/// The key itself. Public keys carry their SubjectPublicKeyInfo too, which the host wants.
#[derive(Clone)]
pub(crate) enum Material {
    Hmac(Vec<u8>),
    Rsa {
        public: rsa::PublicKey,
        spki: Vec<u8>,
    },
    P256 {
        public: p256::ecdsa::VerifyingKey,
        spki: Vec<u8>,
    },
    P384 {
        public: p384::ecdsa::VerifyingKey,
        spki: Vec<u8>,
    },
    P521 {
        public: p521::ecdsa::VerifyingKey,
        spki: Vec<u8>,
    },
    /// Nothing where the bytes are no point of the curve: the key then verifies nothing.
    Ed25519(Option<ed25519_dalek::VerifyingKey>),
}

/// Why a text holds no set of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    /// Where in the text: `keys[2]`, or nothing for the whole.
    pub place: String,
    /// What is wrong, and the remedy. Never any part of a key.
    pub message: String,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

impl std::error::Error for KeyError {}

/// A key of a set that was passed over, and why.
pub type Skipped = KeyError;

/// Why a key of a text is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Not for us: of another type, for another use, or damaged. The rest of the set serves.
    Unusable(String),
    /// It would serve, and must not: the whole set is refused.
    Dangerous(String),
}

/// The keys of a text, each with its place in it.
pub(crate) type Found = Vec<(String, Result<Key, Unfit>)>;

impl Unfit {
    fn unusable(message: &str) -> Self {
        Self::Unusable(message.to_owned())
    }
}

impl KeySet {
    /// Reads a JWK set (RFC 7517), or public keys in PEM. What cannot check signatures is passed
    /// over and returned beside the set; a set with nothing left is an error, and so is one with a
    /// weak key where those are not allowed.
    ///
    /// # Errors
    /// Everything that is wrong, at least one.
    pub fn parse(text: &str, allow_weak: bool) -> Result<(Self, Vec<Skipped>), Vec<KeyError>> {
        let found = if text.trim_start().starts_with("-----BEGIN") {
            pem::read(text, allow_weak)
        } else {
            jwk::read(text, allow_weak)
        };
        let found = found.map_err(|error| vec![error])?;
        let (mut keys, mut skipped, mut dangerous) = (Vec::new(), Vec::new(), Vec::new());
        for (place, key) in found {
            match key {
                Ok(key) => keys.push(key),
                Err(Unfit::Unusable(message)) => skipped.push(KeyError { place, message }),
                Err(Unfit::Dangerous(message)) => dangerous.push(KeyError { place, message }),
            }
        }
        if !dangerous.is_empty() {
            return Err(dangerous);
        }
        if keys.is_empty() {
            let whole =
                KeyError { place: String::new(), message: "holds no key that can check a signature".into() };
            return Err(std::iter::once(whole).chain(skipped).collect());
        }
        Ok((Self { keys }, skipped))
    }

    /// The keys that may check a token with this `kid` and `alg`. A token's `kid` fits keys with
    /// that `kid` and keys without one; a token without fits all.
    pub fn candidates<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a Key> {
        self.keys.iter().filter(move |key| {
            let named = match (id, key.id.as_deref()) {
                (Some(wanted), Some(own)) => wanted == own,
                _ => true,
            };
            named && key.serves(algorithm)
        })
    }

    /// Whether a key has this `kid`, whatever it is for.
    pub fn has_key_named(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none; a set that was read always has one.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether it holds secrets beside public keys: then only an explicit list of algorithms keeps
    /// one from being taken for the other.
    pub fn mixes_secrets_and_public_keys(&self) -> bool {
        let secrets = self.keys.iter().filter(|key| matches!(key.material, Material::Hmac(_))).count();
        secrets > 0 && secrets < self.keys.len()
    }

    /// Whether any key serves this algorithm.
    pub fn serves(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.serves(algorithm))
    }
}

impl Key {
    /// A key of this material. `algorithm` is what its JWK says, if it says.
    pub(crate) fn new(
        id: Option<String>,
        algorithm: Option<Algorithm>,
        material: Material,
        allow_weak: bool,
    ) -> Result<Self, Unfit> {
        if let Some(algorithm) = algorithm
            && !material.fits(algorithm)
        {
            return Err(Unfit::Unusable(format!(
                "`alg` {:?} does not go with its kind of key",
                algorithm.name()
            )));
        }
        if let Material::Hmac(secret) = &material {
            let least = algorithm.map_or(32, Algorithm::hash_bytes);
            if secret.is_empty() {
                return Err(Unfit::Dangerous("the secret is empty, so anyone can sign".into()));
            }
            if secret.len() < least && !allow_weak {
                return Err(Unfit::Dangerous(format!(
                    "the secret has {} bytes, fewer than the {least} of its hash (RFC 7518 section 3.2); \
                     use a longer one, or set allow_weak_keys",
                    secret.len()
                )));
            }
        }
        Ok(Self { id, algorithm, material, allow_weak })
    }

    /// What it is made of.
    pub(crate) fn material(&self) -> &Material {
        &self.material
    }

    /// Whether it may check a token of this algorithm: key type, curve and its own `alg` bind it.
    fn serves(&self, algorithm: Algorithm) -> bool {
        let own = self.algorithm.is_none_or(|own| own == algorithm);
        let strong = match &self.material {
            Material::Hmac(secret) => self.allow_weak || secret.len() >= algorithm.hash_bytes(),
            _ => true,
        };
        own && strong && self.material.fits(algorithm)
    }
}

/// Never shows a key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A key on a curve, of its point: the byte 4, x, y (SEC 1 section 2.3.4, uncompressed). Reading
/// compressed points would take 20 KB of code for square roots, and nobody writes them.
macro_rules! elliptic {
    ($curve:ident, $variant:ident, $algorithm:expr) => {
        pub(crate) fn $curve(point: &[u8]) -> Option<Self> {
            use $curve::elliptic_curve::point::AffineCoordinates;
            let spki = spki::key($algorithm, point);
            let (4, coordinates) = point.split_first()? else { return None };
            let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
            let point = $curve::AffinePoint::from_coordinates(&x.try_into().ok()?, &y.try_into().ok()?)
                .into_option()?;
            let public = $curve::ecdsa::VerifyingKey::from_affine(point).ok()?;
            Some(Self::$variant { public, spki })
        }
    };
}

impl Material {
    fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Hmac(_) => algorithm.family() == Family::Hmac,
            Self::Rsa { .. } => matches!(algorithm.family(), Family::RsaPkcs1 | Family::RsaPss),
            Self::P256 { .. } => algorithm == Algorithm::ES256,
            Self::P384 { .. } => algorithm == Algorithm::ES384,
            Self::P521 { .. } => algorithm == Algorithm::ES512,
            Self::Ed25519(_) => algorithm == Algorithm::EdDSA,
        }
    }

    /// An RSA key of this modulus and exponent, big-endian.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8], allow_weak: bool) -> Result<Self, Unfit> {
        let bits = rsa::bits(modulus);
        if bits < LEAST_RSA_BITS && !allow_weak {
            return Err(Unfit::Dangerous(format!(
                "the RSA key has {bits} bits, fewer than 2048; use a longer one, or set allow_weak_keys"
            )));
        }
        let public = rsa::PublicKey::new(modulus, exponent).map_err(Unfit::unusable)?;
        Ok(Self::Rsa { public, spki: spki::rsa(modulus, exponent) })
    }

    elliptic!(p256, P256, spki::P256);
    elliptic!(p384, P384, spki::P384);
    elliptic!(p521, P521, spki::P521);

    /// An Ed25519 key. One of small order, for which a signature can be good for any text, is none.
    /// Envoy's own loader takes any 32 bytes, so a set with a damaged key still serves; so here.
    pub(crate) fn ed25519(point: &[u8]) -> Option<Self> {
        match ed25519_dalek::VerifyingKey::from_bytes(point.try_into().ok()?) {
            Ok(public) => (!public.is_weak()).then_some(Self::Ed25519(Some(public))),
            Err(_) => Some(Self::Ed25519(None)),
        }
    }
}

#[cfg(test)]
mod tests;
