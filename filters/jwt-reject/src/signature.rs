//! Checking a signature: by the host's cryptography where it has it, by our own otherwise.
//!
//! The host checks RSASSA-PKCS1-v1_5 and ECDSA some ten times faster than code in the VM.
//! It has no PSS and no Ed25519, and a secret is better not handed over; those are checked here.

pub(crate) mod rsa;

use ecdsa_signatures::Ecdsa;
use filter_api::{Host, HostVerdict, SignatureCheck};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384, Sha512};

use crate::algorithm::{Algorithm, Family};
use crate::keys::{Key, Material};
use crate::reason::CheckedBy;
use crate::verify::Means;

/// Whether this is the key's signature of the text, and who checked it. A signature that is of the
/// wrong length for its algorithm, or out of range, is wrong without a check. Nothing where it would have to
/// be checked here and the budget for that is spent; a secret's check costs next to nothing and takes none.
pub(crate) fn check(
    key: &Key,
    algorithm: Algorithm,
    text: &[u8],
    signature: &[u8],
    means: &Means<'_, impl Host>,
) -> Option<(bool, CheckedBy)> {
    let by_host = |spki: &[u8], signature: &[u8]| {
        means.host.verify_signature(&SignatureCheck {
            hash: algorithm.hash(),
            public_key: spki,
            signature,
            text,
        })
    };
    let verdict = match key.material() {
        Material::Rsa { public, spki } if algorithm.family() == Family::RsaPkcs1 => {
            if signature.len() != public.size() {
                return Some((false, CheckedBy::Module));
            }
            by_host(spki, signature)
        }
        Material::P256 { spki, .. } => match p256::ecdsa::Signature::der_of(signature) {
            Some(der) => by_host(spki, &der),
            None => return Some((false, CheckedBy::Module)),
        },
        Material::P384 { spki, .. } => match p384::ecdsa::Signature::der_of(signature) {
            Some(der) => by_host(spki, &der),
            None => return Some((false, CheckedBy::Module)),
        },
        Material::P521 { spki, .. } => match p521::ecdsa::Signature::der_of(signature) {
            Some(der) => by_host(spki, &der),
            None => return Some((false, CheckedBy::Module)),
        },
        _ => HostVerdict::Unavailable,
    };
    match verdict {
        HostVerdict::Valid => Some((true, CheckedBy::Host)),
        HostVerdict::Invalid => Some((false, CheckedBy::Host)),
        HostVerdict::Unavailable => {
            let cheap = algorithm.family() == Family::Hmac;
            let allowed = cheap || means.budget.take(|| means.host.moment().unix_nanos);
            allowed.then(|| (check_here(key.material(), algorithm, text, signature), CheckedBy::Module))
        }
    }
}

fn check_here(material: &Material, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
    use p256::ecdsa::signature::Verifier;
    match material {
        Material::Hmac(secret) => match algorithm {
            Algorithm::HS256 => hmac::<Hmac<Sha256>>(secret, text, signature),
            Algorithm::HS384 => hmac::<Hmac<Sha384>>(secret, text, signature),
            Algorithm::HS512 => hmac::<Hmac<Sha512>>(secret, text, signature),
            _ => false,
        },
        Material::Rsa { public, .. } => public.verify(algorithm, text, signature),
        Material::P256 { public, .. } => p256::ecdsa::Signature::from_slice(signature)
            .is_ok_and(|signature| public.verify(text, &signature).is_ok()),
        Material::P384 { public, .. } => p384::ecdsa::Signature::from_slice(signature)
            .is_ok_and(|signature| public.verify(text, &signature).is_ok()),
        Material::P521 { public, .. } => p521::ecdsa::Signature::from_slice(signature)
            .is_ok_and(|signature| public.verify(text, &signature).is_ok()),
        // The strict check (no small-order points, canonical encodings) has one verdict for one
        // signature everywhere; the lax one does not.
        Material::Ed25519(public) => public.as_ref().is_some_and(|public| {
            ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| public.verify_strict(text, &signature).is_ok())
        }),
    }
}

/// Compares in constant time.
fn hmac<M: Mac + KeyInit>(secret: &[u8], text: &[u8], signature: &[u8]) -> bool {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(secret) else { return false };
    mac.update(text);
    mac.verify_slice(signature).is_ok()
}

mod ecdsa_signatures {
    //! JWS writes an ECDSA signature as r and s side by side; the host wants DER.

    pub(super) trait Ecdsa: Sized {
        /// The DER form of r || s; none where the length is not exactly that of the curve, or r or
        /// s is zero or not below the curve's order.
        fn der_of(raw: &[u8]) -> Option<Vec<u8>>;
    }

    macro_rules! ecdsa {
        ($($signature:ty)*) => {$(
            impl Ecdsa for $signature {
                fn der_of(raw: &[u8]) -> Option<Vec<u8>> {
                    Some(Self::from_slice(raw).ok()?.to_der().as_bytes().to_vec())
                }
            }
        )*};
    }

    ecdsa!(p256::ecdsa::Signature p384::ecdsa::Signature p521::ecdsa::Signature);
}
