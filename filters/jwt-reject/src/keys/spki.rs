//! SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7) in DER, which is how the host takes a key.
//!
//! The encoders of the key types' own crates would do the same with 20 KB more in the module.

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;

/// OID rsaEncryption and NULL (RFC 8017 appendix A.1).
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// OID id-ecPublicKey and that of the curve (RFC 5480 section 2.1.1).
pub(super) const P256: &[u8] =
    b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
pub(super) const P384: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";
pub(super) const P521: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23";

/// An RSA key, of its modulus and exponent, big-endian.
pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let numbers = [integer(modulus), integer(exponent)].concat();
    key(RSA, &element(SEQUENCE, &numbers))
}

/// A key of this algorithm, and these bits.
pub(super) fn key(algorithm: &[u8], bits: &[u8]) -> Vec<u8> {
    // A bit string begins with how many of its last bits are unused.
    let bits = element(BIT_STRING, &[&[0], bits].concat());
    element(SEQUENCE, &[element(SEQUENCE, algorithm), bits].concat())
}

/// A number that is not negative: its first bit is 0, and no byte is there in vain.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let mut content = bytes.get(start..).unwrap_or_default().to_vec();
    if content.first().is_none_or(|byte| byte & 0x80 != 0) {
        content.insert(0, 0);
    }
    element(INTEGER, &content)
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let start = length.iter().position(|byte| *byte != 0).unwrap_or(length.len());
    let length = length.get(start..).unwrap_or_default();
    match length {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or_default());
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use ::spki::SubjectPublicKeyInfoRef;

    use super::*;

    #[test]
    fn another_library_reads_what_is_written() {
        for (algorithm, length, curve) in
            [(P256, 65, "1.2.840.10045.3.1.7"), (P384, 97, "1.3.132.0.34"), (P521, 133, "1.3.132.0.35")]
        {
            let point = vec![4; length];
            let der = key(algorithm, &point);
            let read = SubjectPublicKeyInfoRef::try_from(der.as_slice()).unwrap();
            assert_eq!(read.algorithm.oid.to_string(), "1.2.840.10045.2.1");
            assert_eq!(read.algorithm.parameters_oid().unwrap().to_string(), curve);
            assert_eq!(read.subject_public_key.as_bytes(), Some(point.as_slice()));
        }
        for (modulus, exponent) in [
            (vec![0xff; 256], vec![1, 0, 1]),
            (vec![0x7f; 256], vec![3]),
            ([vec![0, 0], vec![0x80; 1024]].concat(), vec![0, 1, 0, 1]),
            (vec![1], vec![0x80]),
        ] {
            let der = rsa(&modulus, &exponent);
            let read = SubjectPublicKeyInfoRef::try_from(der.as_slice()).unwrap();
            assert_eq!(read.algorithm.oid.to_string(), "1.2.840.113549.1.1.1");
            let bits = read.subject_public_key.as_bytes().unwrap();
            let key = pkcs1::RsaPublicKeyRef::try_from(bits).unwrap();
            let trimmed =
                |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
            assert_eq!(key.modulus.as_bytes(), trimmed(&modulus));
            assert_eq!(key.public_exponent.as_bytes(), trimmed(&exponent));
        }
    }
}
