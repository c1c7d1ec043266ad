//! A share of requests, as Envoy's `FractionalPercent` has it or as a plain number of percent.

use serde_json::Value;

use super::{Node, Object};

const MILLION: u32 = 1_000_000;

/// How a share may be written.
#[derive(Debug, Clone, Copy)]
pub struct FractionalPercent {
    /// Whether a number of percent must be a whole number of millionths; else it is rounded to one.
    pub in_steps: bool,
    /// The numerator where none is given; none where one must be.
    pub numerator: Option<u64>,
}

impl FractionalPercent {
    /// Reads `12.5` (percent), `{numerator, denominator}` or `{default_value: {...}, runtime_key}`, in millionths: from 0
    /// to 1,000,000.
    pub fn read(self, node: &Node<'_>) -> Option<u32> {
        // Envoy makes a text of a fraction that is written in YAML.
        match node.value() {
            Value::Number(number) => return self.percent(node, number.as_f64()),
            Value::String(text) => return self.percent(node, text.parse().ok()),
            _ => {}
        }
        let object = node.object()?;
        if let Some(key) = object.get("runtime_key") {
            key.warning("has no effect here: a module cannot read Envoy's runtime; the default value counts");
        }
        let millionths = match object.get("default_value") {
            Some(inner) => {
                let object = inner.object()?;
                let millionths = self.fraction(&object);
                object.finish();
                millionths
            }
            None => self.fraction(&object),
        };
        object.finish();
        millionths
    }

    fn percent(self, node: &Node<'_>, percent: Option<f64>) -> Option<u32> {
        let millionths =
            percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent * 10_000.0);
        let fits = |millionths: &f64| !self.in_steps || (millionths - millionths.round()).abs() <= 1e-6;
        let Some(millionths) = millionths.filter(fits) else {
            let steps = if self.in_steps { " in steps of 0.0001" } else { "" };
            node.error(format!("{} is not a number of percent from 0 to 100{steps}", node.quoted()));
            return None;
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
        Some(millionths.round() as u32)
    }

    fn fraction(self, object: &Object<'_>) -> Option<u32> {
        let of = match object.get("denominator") {
            None => 100,
            Some(node) => match node.string()? {
                "HUNDRED" => 100,
                "TEN_THOUSAND" => 10_000,
                "MILLION" => MILLION,
                other => {
                    node.error(format!("{other:?} must be HUNDRED, TEN_THOUSAND or MILLION"));
                    return None;
                }
            },
        };
        let numerator = match self.numerator {
            Some(usual) => object.get("numerator").map_or(Some(usual), |node| node.integer(0, of.into())),
            None => object.required("numerator")?.integer(0, of.into()),
        }?;
        let each = MILLION.checked_div(of)?;
        Some(u32::try_from(numerator).ok()?.saturating_mul(each))
    }
}
