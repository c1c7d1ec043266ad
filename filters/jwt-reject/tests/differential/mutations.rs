//! What is done to tokens: each kind of mutation has a name, and is counted by it.

use proptest::prelude::Rng;
use proptest::test_runner::TestRng;

use crate::draft::{Draft, below, pick};
use crate::judges::Set;
use crate::keys::{Key, encode, mac};

/// A good token and what it was made of, for a mutation to begin with.
pub(crate) struct Base<'s> {
    pub(crate) set: &'s Set,
    pub(crate) key: &'s Key,
    pub(crate) algorithm: &'static str,
    pub(crate) draft: Draft,
    pub(crate) now: u64,
    /// Good tokens of the same set.
    pub(crate) others: &'s [Vec<u8>],
}

type Mutation = fn(&mut TestRng, &Base<'_>) -> Vec<u8>;

/// Every kind, with how often it is drawn, of all weights.
pub(crate) const KINDS: &[(&str, u32, Mutation)] = &[
    ("signed anew", 12, |_, base| base.good()),
    ("seen before", 4, |random, base| base.others[below(random, base.others.len())].clone()),
    ("bit of the token flipped", 10, |random, base| {
        let mut token = base.other(random);
        let place = below(random, token.len());
        token[place] ^= 1 << below(random, 8);
        token
    }),
    ("bit of a decoded part flipped", 10, flip_decoded),
    ("byte inserted", 6, |random, base| {
        let mut token = base.other(random);
        let place = below(random, token.len() + 1);
        let any = random.next_u32().to_le_bytes()[0];
        let bytes = [b' ', b'=', b'.', b'A', b'\n', b',', any];
        token.insert(place, bytes[below(random, bytes.len())]);
        token
    }),
    ("byte removed", 6, |random, base| {
        let mut token = base.other(random);
        token.remove(below(random, token.len()));
        token
    }),
    ("parts of several tokens", 6, |random, base| {
        let part = |random: &mut TestRng, place: usize| parts(&base.other(random))[place].clone();
        [part(random, 0), part(random, 1), part(random, 2)].join(".").into_bytes()
    }),
    ("parts encoded in another way", 6, encode_otherwise),
    ("number of parts", 2, |random, base| {
        let token = String::from_utf8(base.other(random)).unwrap();
        let parts = parts(token.as_bytes());
        match below(random, 6) {
            0 => format!("{token}."),
            1 => format!(".{token}"),
            2 => format!("{}.{}", parts[0], parts[1]),
            3 => format!("{token}.{}", parts[2]),
            4 => format!("{}..{}", parts[0], parts[2]),
            _ => format!(
                "{{\"protected\":\"{}\",\"payload\":\"{}\",\"signature\":\"{}\"}}",
                parts[0], parts[1], parts[2]
            ),
        }
        .into_bytes()
    }),
    ("algorithm changed, not signed again", 5, |random, base| {
        let mut draft = base.draft.clone();
        let signature = base.key.sign(base.algorithm, draft.signed().as_bytes());
        draft.set_header("alg", pick(random, ALGORITHMS));
        let signature = if below(random, 3) == 0 { String::new() } else { encode(signature) };
        format!("{}.{signature}", draft.signed()).into_bytes()
    }),
    ("algorithm changed, signed again", 5, |random, base| {
        let mut draft = base.draft.clone();
        draft.set_header("alg", pick(random, ALGORITHMS));
        draft.token(base.key, base.algorithm)
    }),
    ("member twice", 4, |random, base| {
        let mut draft = base.draft.clone();
        let twice = |random: &mut TestRng, members: &mut Vec<(String, String)>| {
            let (mut name, mut value) = members[below(random, members.len())].clone();
            if below(random, 2) == 0 {
                let first = name.remove(0);
                name = format!("\\u{:04x}{name}", u32::from(first));
            }
            if below(random, 2) == 0 {
                value = "\"x\"".to_owned();
            }
            members.insert(below(random, members.len() + 1), (name, value));
        };
        if below(random, 2) == 0 {
            twice(random, &mut draft.header);
        } else {
            twice(random, &mut draft.claims);
        }
        draft.token(base.key, base.algorithm)
    }),
    ("time", 6, |random, base| {
        let mut draft = base.draft.clone();
        let (past, ahead) = (base.now - 3600, base.now + 3600);
        let values = [
            String::new(),
            past.to_string(),
            ahead.to_string(),
            format!("{past}.5"),
            format!("{ahead}.5"),
            format!("\"{ahead}\""),
            format!("[{ahead}]"),
            format!("-{ahead}"),
            format!("{ahead}000"),
            format!("{ahead}e3"),
        ];
        let others = [
            "0",
            "-0",
            "1e9",
            "1e10",
            "1e308",
            "1e999",
            "true",
            "null",
            "{}",
            "253402300799",
            "0x7fffffff",
            "NaN",
        ];
        let choice = below(random, values.len() + others.len());
        let value = values.get(choice).map_or_else(|| others[choice - values.len()], String::as_str);
        draft.set_claim(pick(random, &["exp", "exp", "nbf", "iat"]), value);
        draft.token(base.key, base.algorithm)
    }),
    ("claim", 5, |random, base| {
        let mut draft = base.draft.clone();
        let value = pick(
            random,
            &[
                "",
                "null",
                "7",
                "\"API\"",
                "\"api\"",
                "[\"api\"]",
                "[]",
                "[\"x\"]",
                "[\"api\",7]",
                "{\"api\":1}",
                "\"https://issuer.example\"",
                "[\"https://issuer.example\"]",
                "\"https://issuer.example/\"",
                "\"\\ud800\"",
            ],
        );
        draft.set_claim(pick(random, &["iss", "aud", "sub", "jti", "other"]), value);
        draft.token(base.key, base.algorithm)
    }),
    ("header member", 5, |random, base| {
        let mut draft = base.draft.clone();
        let names = ["crit", "b64", "jwk", "jku", "x5u", "x5c", "typ", "cty", "enc", "zip", "x5t", "other"];
        let values = [
            "true",
            "false",
            "null",
            "7",
            "\"x\"",
            "[]",
            "[\"exp\"]",
            "[\"b64\"]",
            "{}",
            "{\"kty\":\"oct\",\"k\":\"\"}",
        ];
        draft.set_header(pick(random, &names), pick(random, &values));
        draft.token(base.key, base.algorithm)
    }),
    ("kid", 5, |random, base| {
        let mut draft = base.draft.clone();
        let own = base.set.keys[below(random, base.set.keys.len())].id.unwrap_or("none");
        let own = format!("{own:?}");
        let values = [
            "",
            "\"\"",
            "null",
            "7",
            "\"unknown\"",
            "\"../../dev/null\"",
            "[\"rsa\"]",
            own.as_str(),
            own.as_str(),
        ];
        draft.set_header("kid", pick(random, &values));
        draft.token(base.key, base.algorithm)
    }),
    ("signature", 8, change_signature),
    ("public key taken for a secret", 5, |random, base| {
        let mut draft = base.draft.clone();
        let algorithm = pick(random, &["HS256", "HS384", "HS512"]);
        draft.set_header("alg", &format!("{algorithm:?}"));
        let key = &base.set.keys[below(random, base.set.keys.len())];
        let secret = &key.public[below(random, key.public.len())];
        let signed = draft.signed();
        format!("{signed}.{}", encode(mac(secret, algorithm, signed.as_bytes()))).into_bytes()
    }),
    ("text around the JSON", 3, |random, base| {
        let (mut header, mut claims) =
            (base.draft.header_text().into_bytes(), base.draft.claims_text().into_bytes());
        let text = if below(random, 2) == 0 { &mut header } else { &mut claims };
        let before: &[u8] =
            [b" ".as_slice(), b"\n\t", b"\xef\xbb\xbf", b"\0", b"[", b"null", b""][below(random, 7)];
        let after: &[u8] = [b" ".as_slice(), b"\r\n", b"{}", b"\0", b"]", b",", b"\xff"][below(random, 7)];
        *text = [before, text.as_slice(), after].concat();
        let signed = format!("{}.{}", encode(header), encode(claims));
        format!("{signed}.{}", encode(base.key.sign(base.algorithm, signed.as_bytes()))).into_bytes()
    }),
];

/// Values of `alg`, in JSON.
const ALGORITHMS: &[&str] = &[
    "\"none\"",
    "\"None\"",
    "\"NONE\"",
    "\"\"",
    "\"HS256\"",
    "\"HS384\"",
    "\"HS512\"",
    "\"RS256\"",
    "\"RS384\"",
    "\"RS512\"",
    "\"PS256\"",
    "\"PS384\"",
    "\"PS512\"",
    "\"ES256\"",
    "\"ES384\"",
    "\"ES512\"",
    "\"EdDSA\"",
    "\"hs256\"",
    "\"HS256 \"",
    "\"H\\u0053256\"",
    "null",
    "7",
    "[\"HS256\"]",
    "\"A256GCM\"",
];

impl Base<'_> {
    fn good(&self) -> Vec<u8> {
        self.draft.token(self.key, self.algorithm)
    }

    /// A good token: mostly one of those that were signed before, which costs nothing.
    fn other(&self, random: &mut TestRng) -> Vec<u8> {
        self.others[below(random, self.others.len())].clone()
    }
}

fn parts(token: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(token).split('.').map(str::to_owned).collect()
}

fn decoded(part: &str) -> Vec<u8> {
    use base64ct::{Base64UrlUnpadded, Encoding as _};
    Base64UrlUnpadded::decode_vec(part).unwrap()
}

fn flip_decoded(random: &mut TestRng, base: &Base<'_>) -> Vec<u8> {
    let mut parts = parts(&base.other(random));
    let part = &mut parts[below(random, 3)];
    let mut bytes = decoded(part);
    let place = below(random, bytes.len());
    bytes[place] ^= 1 << below(random, 8);
    *part = encode(bytes);
    parts.join(".").into_bytes()
}

/// Padding, bits that belong to no byte, the other alphabet, white space; nothing of it signed again, but
/// the same bytes for a lenient reader.
fn encode_otherwise(random: &mut TestRng, base: &Base<'_>) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut parts = parts(&base.other(random));
    let part = &mut parts[below(random, 3)];
    let before = part.clone();
    match below(random, 6) {
        0 => {
            while !part.len().is_multiple_of(4) {
                part.push('=');
            }
        }
        1 => part.push('='),
        2 => {
            let last = part.pop().unwrap();
            let place = ALPHABET.iter().position(|byte| char::from(*byte) == last).unwrap();
            part.push(char::from(ALPHABET[place ^ (1 + below(random, 3))]));
        }
        3 => *part = part.replace('-', "+").replace('_', "/"),
        4 => part.insert_str(below(random, part.len()), pick(random, &[" ", "\n", "\t", "%20"])),
        _ => *part = part.replace('A', "%41"),
    }
    if *part == before {
        part.push('=');
    }
    parts.join(".").into_bytes()
}

fn change_signature(random: &mut TestRng, base: &Base<'_>) -> Vec<u8> {
    let mut parts = parts(&base.other(random));
    let mut signature = decoded(&parts[2]);
    let half = signature.len() / 2;
    match below(random, 12) {
        0 => signature.truncate(below(random, signature.len())),
        1 => signature.push(0),
        2 => signature.insert(0, 0),
        3 => signature.clear(),
        4 => signature.fill(0),
        5 => signature.fill(0xff),
        6 => signature.rotate_left(half),
        7 => signature[..half].fill(0),
        8 => signature[half..].fill(0),
        // The other signature of ECDSA, which is as good: s is replaced by the order of the curve less s.
        9 if signature.len() == 64 => subtract_from(&P256_ORDER, &mut signature[32..]),
        // S of Ed25519 with the order added: the same number for whoever does not look.
        10 if signature.len() == 64 => add_edwards_order(&mut signature[32..]),
        _ => {
            let half = signature.split_off(half);
            signature.truncate(half.len().saturating_sub(1));
            signature = [&[0x30, 0x44, 2, 0x20], signature.as_slice(), &[2, 0x20], half.as_slice()].concat();
        }
    }
    parts[2] = encode(signature);
    parts.join(".").into_bytes()
}

const P256_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa,
    0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Little-endian.
const EDWARDS_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// Big-endian: `number = from - number`, which is not negative.
fn subtract_from(from: &[u8; 32], number: &mut [u8]) {
    let mut borrow = 0;
    for (digit, from) in number.iter_mut().zip(from).rev() {
        let difference = i16::from(*from) - i16::from(*digit) - borrow;
        borrow = i16::from(difference < 0);
        *digit = u8::try_from(difference.rem_euclid(256)).unwrap();
    }
}

fn add_edwards_order(number: &mut [u8]) {
    let mut carry = 0;
    for (digit, order) in number.iter_mut().zip(EDWARDS_ORDER) {
        let sum = u16::from(*digit) + u16::from(order) + carry;
        carry = sum >> 8;
        *digit = u8::try_from(sum & 0xff).unwrap();
    }
}

/// Draws a kind.
pub(crate) fn kind(random: &mut TestRng) -> usize {
    let total: u32 = KINDS.iter().map(|(_, weight, _)| weight).sum();
    let mut left = random.next_u32() % total;
    KINDS
        .iter()
        .position(|(_, weight, _)| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })
        .unwrap()
}
