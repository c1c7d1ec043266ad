//! Public keys in PEM: SubjectPublicKeyInfo, as `openssl pkey -pubout` writes it. Several may
//! follow one another.

use spki::der::pem;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use super::{Found, Key, KeyError, MAX_KEYS, Material, Unfit};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ELLIPTIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// Reads every block. Each with its place, in the order of the text.
pub(super) fn read(text: &str, allow_weak: bool) -> Result<Found, KeyError> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let place = format!("PEM block {}", found.len().saturating_add(1));
        let wrong = |message: &str| KeyError { place: place.clone(), message: message.to_owned() };
        if found.len() == MAX_KEYS {
            return Err(wrong("the most is 100 keys"));
        }
        let label = rest
            .strip_prefix("-----BEGIN ")
            .and_then(|begun| begun.split_once("-----"))
            .map(|(label, _)| label)
            .ok_or_else(|| wrong("text that belongs to no PEM block"))?;
        let closing = format!("-----END {label}-----");
        let (block, after) = rest.split_once(&closing).ok_or_else(|| wrong("the block does not end"))?;
        refuse_other_labels(label).map_err(|message| wrong(&message))?;
        let whole = format!("{}\n{closing}\n", block.trim_end());
        let (_, der) =
            pem::decode_vec(whole.as_bytes()).map_err(|error| wrong(&format!("no valid PEM: {error}")))?;
        found.push((place, read_spki(&der, allow_weak)));
        rest = after.trim_start();
    }
    Ok(found)
}

fn refuse_other_labels(label: &str) -> Result<(), String> {
    match label {
        "PUBLIC KEY" => Ok(()),
        "CERTIFICATE" => {
            Err("is a certificate; take its key: openssl x509 -in FILE -pubkey -noout".into())
        }
        "RSA PUBLIC KEY" => {
            Err("is a PKCS#1 key; convert it: openssl rsa -RSAPublicKey_in -in FILE -pubout".into())
        }
        private if private.contains("PRIVATE KEY") => Err(
            "is a private key, which a gateway must not have; take its public one: openssl pkey -in FILE -pubout"
                .into(),
        ),
        other => Err(format!("is a block of type {other:?}; it must be PUBLIC KEY")),
    }
}

fn read_spki(der: &[u8], allow_weak: bool) -> Result<Key, Unfit> {
    Key::new(None, None, material(der, allow_weak)?, allow_weak)
}

fn material(der: &[u8], allow_weak: bool) -> Result<Material, Unfit> {
    let no = Unfit::unusable;
    let info = SubjectPublicKeyInfoRef::try_from(der).map_err(|_| no("is no SubjectPublicKeyInfo"))?;
    let bits = info.subject_public_key.as_bytes().ok_or_else(|| no("is no SubjectPublicKeyInfo"))?;
    match info.algorithm.oid {
        RSA => {
            let key = pkcs1::RsaPublicKeyRef::try_from(bits).map_err(|_| no("is no RSA key"))?;
            Material::rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes(), allow_weak)
        }
        ELLIPTIC => {
            let curve = info.algorithm.parameters_oid().map_err(|_| no("names no curve"))?;
            let material = match curve {
                P256 => Material::p256(bits),
                P384 => Material::p384(bits),
                P521 => Material::p521(bits),
                _ => return Err(no("is on a curve that is not supported; P-256, P-384 and P-521 are")),
            };
            material.ok_or_else(|| {
                no("is no uncompressed point of its curve; if it is a compressed one: \
                    openssl ec -pubin -in FILE -conv_form uncompressed")
            })
        }
        ED25519 => Material::ed25519(bits).ok_or_else(|| no("is no Ed25519 key")),
        other => Err(Unfit::Unusable(format!("is a key of a kind that is not supported ({other})"))),
    }
}
