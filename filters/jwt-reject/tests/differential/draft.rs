//! A token before it is signed: members as texts, so that they can be given twice, or be no JSON.

use proptest::prelude::Rng;
use proptest::test_runner::TestRng;

use crate::judges::{AUDIENCE, ISSUER};
use crate::keys::{Key, encode};

type Members = Vec<(String, String)>;

#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) header: Members,
    pub(crate) claims: Members,
    /// What stands between members.
    pub(crate) space: &'static str,
}

pub(crate) fn below(random: &mut TestRng, end: usize) -> usize {
    usize::try_from(random.next_u32()).unwrap() % end.max(1)
}

pub(crate) fn pick<'a, T: ?Sized>(random: &mut TestRng, list: &[&'a T]) -> &'a T {
    list[below(random, list.len())]
}

impl Draft {
    /// One that is good for the key, with what may vary varied.
    pub(crate) fn good(random: &mut TestRng, key: &Key, algorithm: &str, now: u64) -> Self {
        let mut draft = Self {
            header: vec![member("alg", &format!("{algorithm:?}"))],
            claims: vec![member("iss", &format!("{ISSUER:?}")), member("aud", &format!("{AUDIENCE:?}"))],
            space: pick(random, &["", "", " ", "\n  ", "\t\r\n"]),
        };
        if let Some(id) = key.id
            && below(random, 4) > 0
        {
            draft.header.push(member("kid", &format!("{id:?}")));
        }
        for (name, value) in
            [("typ", "\"JWT\""), ("cty", "\"x\""), ("jku", "\"https://evil.example\""), ("x", "[{}]")]
        {
            if below(random, 4) == 0 {
                draft.header.push(member(name, value));
            }
        }
        let ahead = now + 3600 + u64::from(random.next_u32() % 1000);
        let exp =
            [format!("{ahead}"), format!("{ahead}.5"), format!("{ahead}e0"), format!("{:e}", ahead as f64)];
        draft.claims.push(member("exp", &exp[below(random, exp.len())]));
        for (name, value) in [
            ("nbf", "1.5"),
            ("iat", "0"),
            ("sub", "\"al\\u0069ce\""),
            ("jti", "\"\""),
            ("n\\u00e9", "{\"a\":[[null,true,-0.0]]}"),
        ] {
            if below(random, 3) == 0 {
                draft.claims.push(member(name, value));
            }
        }
        if below(random, 3) == 0 {
            draft.set_claim("aud", &format!("[\"x\", {AUDIENCE:?}]"));
        }
        // So that no two are the same.
        draft.claims.push(member("r", &random.next_u64().to_string()));
        let turns = below(random, draft.claims.len());
        draft.claims.rotate_left(turns);
        draft
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        set(&mut self.header, name, value);
    }

    pub(crate) fn set_claim(&mut self, name: &str, value: &str) {
        set(&mut self.claims, name, value);
    }

    pub(crate) fn header_text(&self) -> String {
        text(&self.header, self.space)
    }

    pub(crate) fn claims_text(&self) -> String {
        text(&self.claims, self.space)
    }

    /// The two parts that are signed.
    pub(crate) fn signed(&self) -> String {
        format!("{}.{}", encode(self.header_text()), encode(self.claims_text()))
    }

    /// The token, signed by this key and algorithm.
    pub(crate) fn token(&self, key: &Key, algorithm: &str) -> Vec<u8> {
        let signed = self.signed();
        format!("{signed}.{}", encode(key.sign(algorithm, signed.as_bytes()))).into_bytes()
    }
}

pub(crate) fn member(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn set(members: &mut Members, name: &str, value: &str) {
    members.retain(|(own, _)| own != name);
    if !value.is_empty() {
        members.push(member(name, value));
    }
}

fn text(members: &Members, space: &str) -> String {
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{space}\"{name}\"{space}:{space}{value}")).collect();
    format!("{{{}{space}}}", members.join(","))
}
