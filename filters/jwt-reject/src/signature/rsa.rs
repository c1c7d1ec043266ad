//! RSA signatures: RSASSA-PKCS1-v1_5 and RSASSA-PSS (RFC 8017 section 8), checked in the module.
//!
//! The arithmetic is that of `crypto-bigint`, as in the crate `rsa`. That crate raises to any power alike,
//! so that it may be a secret one: a table of 16 powers, windows of 4 bits, 35 products for the usual
//! exponent of 65537. All is public here, and 17 products do. The tests hold the two against each other.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::algorithm::Algorithm;

/// The sizes of a modulus in bits: below, anyone can factor it; above, a check takes milliseconds.
const BITS: std::ops::RangeInclusive<usize> = 512..=8192;
/// The largest exponent: larger ones only make a check slow. Other libraries draw the same line.
const MAX_EXPONENT: u64 = (1 << 33) - 1;

/// A public key.
#[derive(Clone)]
pub(crate) struct PublicKey {
    /// The modulus, the highest byte first and not 0.
    bytes: Vec<u8>,
    bits: usize,
    modulus: BoxedMontyParams,
    exponent: u64,
}

/// The bytes of a number without leading zeros.
fn trimmed(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    number.get(start..).unwrap_or_default()
}

/// How many bits a number has, its bytes being without leading zeros.
fn width(trimmed: &[u8]) -> usize {
    let unused = trimmed.first().map_or(0, |highest| highest.leading_zeros());
    trimmed.len().saturating_mul(8).saturating_sub(unused as usize)
}

/// How many bits a modulus has, whatever zeros it begins with.
pub(crate) fn bits(modulus: &[u8]) -> usize {
    width(trimmed(modulus))
}

impl PublicKey {
    /// A key of this modulus and exponent, of bytes with the highest first.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn new(modulus: &[u8], exponent: &[u8]) -> Result<Self, &'static str> {
        let bytes = trimmed(modulus);
        let bits = width(bytes);
        if !BITS.contains(&bits) {
            return Err("the RSA modulus must have 512 to 8192 bits");
        }
        let exponent = trimmed(exponent);
        let value = exponent.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        // An exponent of 1 verifies anything, and an even one nothing.
        if value < 3 || value & 1 == 0 {
            return Err("the RSA exponent must be odd and at least 3");
        }
        if exponent.len() > 8 || value > MAX_EXPONENT {
            return Err("the RSA exponent must be less than 2^33");
        }
        let modulus = Odd::new(BoxedUint::from_be_slice_vartime(bytes)).into_option();
        let modulus = BoxedMontyParams::new_vartime(modulus.ok_or("the RSA modulus must be odd")?);
        Ok(Self { bytes: bytes.to_vec(), bits, modulus, exponent: value })
    }

    /// How many bytes a signature has.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether this is the key's signature of the text. Algorithms of other keys have none.
    pub(super) fn verify(&self, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        let Some(message) = self.message(signature) else { return false };
        match algorithm {
            Algorithm::RS256 => is_pkcs1::<Sha256>(&message, &SHA256, text),
            Algorithm::RS384 => is_pkcs1::<Sha384>(&message, &SHA384, text),
            Algorithm::RS512 => is_pkcs1::<Sha512>(&message, &SHA512, text),
            Algorithm::PS256 => is_pss::<Sha256>(&message, self.bits, text),
            Algorithm::PS384 => is_pss::<Sha384>(&message, self.bits, text),
            Algorithm::PS512 => is_pss::<Sha512>(&message, self.bits, text),
            _ => false,
        }
    }
}

impl PublicKey {
    /// The message that a signature stands for, in as many bytes (RFC 8017 sections 8.1.2 and 8.2.2,
    /// steps 1 and 2, and section 5.2.2). None where the signature is of another length than the modulus,
    /// or not below it.
    fn message(&self, signature: &[u8]) -> Option<Vec<u8>> {
        if signature.len() != self.size() || signature >= self.bytes.as_slice() {
            return None;
        }
        let number = BoxedUint::from_be_slice(signature, self.modulus.bits_precision()).ok()?;
        let base = BoxedMontyForm::new(number, &self.modulus);
        let mut power = base.clone();
        for bit in (0..self.exponent.checked_ilog2()?).rev() {
            power = power.square();
            if self.exponent.wrapping_shr(bit) & 1 == 1 {
                power = power.mul(&base);
            }
        }
        // Whole words: there may be zeros ahead.
        let bytes = power.retrieve().to_be_bytes();
        bytes.get(bytes.len().checked_sub(self.size())?..).map(<[u8]>::to_vec)
    }
}

/// What comes before the hash in a DER-encoded DigestInfo (RFC 8017 section 9.2, note 1).
const SHA256: [u8; 19] = *b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20";
const SHA384: [u8; 19] = *b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30";
const SHA512: [u8; 19] = *b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40";

/// EMSA-PKCS1-v1_5 (RFC 8017 section 9.2): the one encoding of the text's hash, and no other. It is made
/// and compared as a whole; nothing is read from what the signer wrote.
fn is_pkcs1<D: Digest>(message: &[u8], digest_info: &[u8], text: &[u8]) -> bool {
    let hash = D::digest(text);
    let rest = digest_info.len().saturating_add(hash.len());
    // Two bytes before the filling, at least eight of filling, and one after it.
    let Some(filling) = message.len().checked_sub(rest.saturating_add(3)).filter(|filling| *filling >= 8)
    else {
        return false;
    };
    let expected = [&[0, 1], vec![0xff; filling].as_slice(), &[0], digest_info, &hash].concat();
    message == expected
}

/// EMSA-PSS (RFC 8017 section 9.1.2), with MGF1 of the same hash and a salt as long as it (RFC 7518
/// section 3.5). The modulus has this many bits.
fn is_pss<D: Digest>(message: &[u8], modulus_bits: usize, text: &[u8]) -> bool {
    let length = <D as Digest>::output_size();
    let hash = D::digest(text);
    // The encoding has one bit less than the modulus, so its first byte may have bits that must be 0,
    // or all of the message's first byte must be 0.
    let bits = modulus_bits.saturating_sub(1);
    let bytes = bits.div_ceil(8);
    let spare_bits = u32::try_from(bytes.saturating_mul(8).saturating_sub(bits)).unwrap_or_default();
    let own = 0xff_u8.wrapping_shr(spare_bits);
    let Some((ahead, encoded)) = split_last(message, bytes) else { return false };
    let Some((0xbc, encoded)) = encoded.split_last() else { return false };
    let Some((masked, signed_hash)) = split_last(encoded, length) else { return false };
    if ahead.iter().any(|byte| *byte != 0) || masked.first().is_none_or(|first| first & !own != 0) {
        return false;
    }
    let mut data: Vec<u8> =
        masked.iter().zip(mask::<D>(signed_hash)).map(|(byte, mask)| byte ^ mask).collect();
    data.iter_mut().take(1).for_each(|first| *first &= own);
    let Some((filling, salt)) = split_last(&data, length) else { return false };
    let Some((1, zeros)) = filling.split_last() else { return false };
    let mut expected = D::new();
    expected.update([0; 8]);
    expected.update(&hash);
    expected.update(salt);
    zeros.iter().all(|byte| *byte == 0) && expected.finalize().as_slice() == signed_hash
}

/// What comes before the last `count` bytes, and these.
fn split_last(bytes: &[u8], count: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(bytes.len().checked_sub(count)?)
}

/// MGF1 (RFC 8017 appendix B.2.1), without an end.
fn mask<D: Digest>(seed: &[u8]) -> impl Iterator<Item = u8> {
    (0_u32..).flat_map(move |counter| {
        let mut hash = D::new();
        hash.update(seed);
        hash.update(counter.to_be_bytes());
        hash.finalize().to_vec()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use getrandom::SysRng;
    use proptest::prelude::*;
    use rsa::traits::PublicKeyParts;
    use rsa::{BoxedUint, Pkcs1v15Sign, Pss};

    use super::*;

    const ALGORITHMS: [Algorithm; 6] = [
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
    ];
    const TEXT: &[u8] = b"header.payload";

    /// Keys of sizes that leave every number of bits unused in the first byte of an encoding.
    static KEYS: LazyLock<Vec<(rsa::PrivateKey, PublicKey)>> = LazyLock::new(|| {
        let sizes = (1088..=1096).chain([2048]);
        let key = |bits| {
            let private = rsa::PrivateKey::new(&mut SysRng, bits).unwrap();
            let public = PublicKey::new(&private.n_bytes(), &private.e_bytes()).unwrap();
            assert_eq!((public.bits, public.size()), (bits, private.size()));
            (private, public)
        };
        sizes.map(key).collect()
    });

    fn salt(algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::PS256 => 32,
            Algorithm::PS384 => 48,
            _ => 64,
        }
    }

    fn sign(key: &rsa::PrivateKey, algorithm: Algorithm, text: &[u8], salt: usize) -> Option<Vec<u8>> {
        let (sha256, sha384, sha512) = (Sha256::digest(text), Sha384::digest(text), Sha512::digest(text));
        let signature = match algorithm {
            Algorithm::RS256 => key.sign(Pkcs1v15Sign::new::<Sha256>(), &sha256),
            Algorithm::RS384 => key.sign(Pkcs1v15Sign::new::<Sha384>(), &sha384),
            Algorithm::RS512 => key.sign(Pkcs1v15Sign::new::<Sha512>(), &sha512),
            Algorithm::PS256 => key.sign_with_rng(&mut SysRng, Pss::<Sha256>::new_with_salt(salt), &sha256),
            Algorithm::PS384 => key.sign_with_rng(&mut SysRng, Pss::<Sha384>::new_with_salt(salt), &sha384),
            _ => key.sign_with_rng(&mut SysRng, Pss::<Sha512>::new_with_salt(salt), &sha512),
        };
        signature.ok()
    }

    fn another_library_verifies(
        key: &rsa::PublicKey,
        algorithm: Algorithm,
        text: &[u8],
        signature: &[u8],
    ) -> bool {
        let (sha256, sha384, sha512) = (Sha256::digest(text), Sha384::digest(text), Sha512::digest(text));
        let verified = match algorithm {
            Algorithm::RS256 => key.verify(Pkcs1v15Sign::new::<Sha256>(), &sha256, signature),
            Algorithm::RS384 => key.verify(Pkcs1v15Sign::new::<Sha384>(), &sha384, signature),
            Algorithm::RS512 => key.verify(Pkcs1v15Sign::new::<Sha512>(), &sha512, signature),
            Algorithm::PS256 => key.verify(Pss::<Sha256>::new_with_salt(32), &sha256, signature),
            Algorithm::PS384 => key.verify(Pss::<Sha384>::new_with_salt(48), &sha384, signature),
            _ => key.verify(Pss::<Sha512>::new_with_salt(64), &sha512, signature),
        };
        verified.is_ok()
    }

    /// What the private key makes of an encoding, whatever it is; it must be less than the modulus.
    fn sign_encoding(key: &rsa::PrivateKey, encoding: &[u8]) -> Vec<u8> {
        let number = BoxedUint::from_be_slice(encoding, key.n_bits_precision()).unwrap();
        let signature = rsa::hazmat::rsa_decrypt::<SysRng>(None, key, &number).unwrap().to_be_bytes();
        signature[signature.len() - key.size()..].to_vec()
    }

    #[test]
    fn what_another_library_signs_is_good_and_for_its_algorithm_and_text_only() {
        for (private, public) in KEYS.iter() {
            for algorithm in ALGORITHMS {
                let signature = sign(private, algorithm, TEXT, salt(algorithm)).unwrap();
                for other in ALGORITHMS {
                    assert_eq!(public.verify(other, TEXT, &signature), other == algorithm);
                }
                assert!(!public.verify(algorithm, b"header.other", &signature));
                assert!(!public.verify(Algorithm::HS256, TEXT, &signature));
                for length in [0, 1, signature.len() - 1] {
                    assert!(!public.verify(algorithm, TEXT, &signature[..length]));
                }
                assert!(!public.verify(algorithm, TEXT, &[&[0], signature.as_slice()].concat()));
            }
        }
    }

    /// Of moduli of all kinds, whether they have factors or not: the operation is the same.
    #[test]
    fn messages_are_those_of_another_library() {
        let patterned = |size: usize, step: usize| -> Vec<u8> {
            (0..size).map(|at| (at * step + 201) as u8 | u8::from(at + 1 == size)).collect()
        };
        let moduli =
            [vec![0xff; 64], patterned(65, 7), patterned(200, 31), vec![0x81; 257], patterned(1024, 3)];
        for modulus in moduli {
            for exponent in [3_u64, 5, 17, 65537, 65539, MAX_EXPONENT] {
                let public = PublicKey::new(&modulus, &exponent.to_be_bytes()).unwrap();
                let other = rsa::PublicKey::new_with_size_limits(
                    BoxedUint::from_be_slice_vartime(&modulus),
                    BoxedUint::from(exponent),
                    512..=8192,
                )
                .unwrap();
                let mut one_less = modulus.clone();
                *one_less.last_mut().unwrap() -= 1;
                let mut half = patterned(modulus.len(), 11);
                half[0] = modulus[0] / 2;
                for signature in [vec![0; modulus.len()], half, one_less] {
                    let number = BoxedUint::from_be_slice(&signature, other.n_bits_precision()).unwrap();
                    let expected = rsa::hazmat::rsa_encrypt(&other, &number).unwrap().to_be_bytes();
                    let expected = &expected[expected.len() - modulus.len()..];
                    assert_eq!(public.message(&signature).unwrap(), expected, "{exponent}");
                }
            }
        }
    }

    #[test]
    fn a_salt_of_another_length_is_wrong() {
        let (private, public) = KEYS.last().unwrap();
        for algorithm in [Algorithm::PS256, Algorithm::PS384, Algorithm::PS512] {
            for other in [0, 1, 20, salt(algorithm) - 1, salt(algorithm) + 1, 90] {
                let signature = sign(private, algorithm, TEXT, other).unwrap();
                assert!(!public.verify(algorithm, TEXT, &signature), "{algorithm:?} {other}");
            }
        }
    }

    /// The signature plus the modulus is the same number modulo it, and must not be taken for it.
    #[test]
    fn numbers_that_are_not_below_the_modulus_are_wrong() {
        let mut tried = 0;
        for (private, public) in KEYS.iter() {
            let signature = sign(private, Algorithm::RS256, TEXT, 0).unwrap();
            let mut carry = 0;
            let mut sum: Vec<u8> = Vec::new();
            for (a, b) in signature.iter().rev().zip(public.bytes.iter().rev()) {
                let byte = u16::from(*a) + u16::from(*b) + carry;
                sum.insert(0, byte as u8);
                carry = byte >> 8;
            }
            tried += usize::from(carry == 0);
            assert!(carry != 0 || !public.verify(Algorithm::RS256, TEXT, &sum));
            assert!(!public.verify(Algorithm::RS256, TEXT, &public.bytes));
            assert!(!public.verify(Algorithm::RS256, TEXT, &vec![0xff; public.size()]));
        }
        assert!(tried > 0);
    }

    #[test]
    fn keys_that_are_none() {
        let modulus = KEYS[0].1.bytes.clone();
        let mut even = modulus.clone();
        *even.last_mut().unwrap() &= 0xfe;
        let rows: [(&[u8], &[u8], &str); 9] = [
            (&modulus, &[], "the RSA exponent must be odd and at least 3"),
            (&modulus, &[1], "the RSA exponent must be odd and at least 3"),
            (&modulus, &[0, 0, 2], "the RSA exponent must be odd and at least 3"),
            (&modulus, &[2, 0, 0, 0, 1], "the RSA exponent must be less than 2^33"),
            (&modulus, &[1, 0, 0, 0, 0, 0, 0, 0, 3], "the RSA exponent must be less than 2^33"),
            (&even, &[3], "the RSA modulus must be odd"),
            (&[0xff; 63], &[3], "the RSA modulus must have 512 to 8192 bits"),
            (&[0xff; 1025], &[3], "the RSA modulus must have 512 to 8192 bits"),
            (&[], &[3], "the RSA modulus must have 512 to 8192 bits"),
        ];
        for (modulus, exponent, expected) in rows {
            assert_eq!(PublicKey::new(modulus, exponent).err(), Some(expected), "{exponent:?}");
        }
        assert!(
            PublicKey::new(&[&[0, 0], modulus.as_slice()].concat(), &[0, 1, 0xff, 0xff, 0xff, 0xff]).is_ok()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// Encodings with a byte changed, signed all the same: the verdict is that of the other library.
        #[test]
        fn damaged_encodings_have_the_verdict_of_another_library(
            number in 0_usize..10,
            algorithm in 0_usize..6,
            place in prop_oneof![0_usize..3, 0_usize..300, Just(usize::MAX), Just(usize::MAX - 1)],
            change in prop_oneof![Just(0_u8), Just(1), Just(0x80), any::<u8>()],
        ) {
            let ((private, public), algorithm) = (&KEYS[number], ALGORITHMS[algorithm]);
            let signature = sign(private, algorithm, TEXT, salt(algorithm)).unwrap();
            let mut encoding = public.message(&signature).unwrap();
            let place = if place > 300 { encoding.len() - 1 - (usize::MAX - place) } else { place % encoding.len() };
            encoding[place] ^= change;
            prop_assume!(encoding < public.bytes);
            let signature = sign_encoding(private, &encoding);
            let verdict = public.verify(algorithm, TEXT, &signature);
            let other = another_library_verifies(private.as_public_key(), algorithm, TEXT, &signature);
            prop_assert_eq!(verdict, other);
            prop_assert_eq!(verdict, change == 0);
        }
    }
}
