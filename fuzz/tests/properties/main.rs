//! The laws of the fuzz targets over inputs that proptest makes up by structure.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod header_rewrite;
mod jwt_reject;
mod local_rate_limit;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A JSON value of any shape, up to deeper than what is read.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\r\n\t\0 ,.@:/-]{0,12}".prop_map(Value::from),
        (0_u64..4_000_000_000).prop_map(Value::from),
        (0_usize..40).prop_map(|depth| (0..depth).fold(json!(1), |inner, _| json!([inner]))),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map("[a-z.]{0,4}|roles|api", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// What a header line may hold.
fn head_value() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>().prop_filter("no such byte gets here", |byte| !matches!(byte, b'\r' | b'\n' | 0)), 0..60)
}
