//! `${...}` in the texts of a case.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Fills in `${name}` from `values`, and `${1000*text}` with so many times the text.
pub(crate) fn fill(text: &str, values: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, begun)) = rest.split_once("${") {
        let (name, after) = begun.split_once('}').with_context(|| format!("no end of ${{ in {text:?}"))?;
        out.push_str(before);
        match (values.get(name), name.split_once('*')) {
            (Some(value), _) => out.push_str(value),
            (None, Some((times, repeated))) => {
                out.push_str(
                    &repeated.repeat(times.parse().with_context(|| format!("no number: {name:?}"))?),
                );
            }
            (None, None) => bail!("no value is named {name:?}"),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Fills in every text of a value.
pub(crate) fn fill_deep(
    value: &mut Value,
    fill: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    match value {
        Value::String(text) => *text = fill(text)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_deep(item, fill))?,
        Value::Object(members) => members.values_mut().try_for_each(|member| fill_deep(member, fill))?,
        _ => {}
    }
    Ok(())
}

#[test]
fn names_and_repetitions_are_filled_in() {
    let values = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(fill("x${a}y${3*ab}$z", &values).unwrap(), "x1yababab$z");
    assert!(fill("${b}", &values).is_err() && fill("${a", &values).is_err());
}
