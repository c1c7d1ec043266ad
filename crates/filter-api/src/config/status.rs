//! Statuses of responses, as conditions have them.

use serde_json::Value;

use super::Node;

/// Statuses from one to another, both among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    least: u16,
    most: u16,
}

impl StatusRange {
    /// Reads `404`, `"404"`, `"4xx"` or `"500-599"`.
    pub fn read(node: &Node<'_>) -> Option<Self> {
        Self::read_from(node, 100)
    }

    /// The same, where 0 says that there was no response.
    pub fn read_or_none(node: &Node<'_>) -> Option<Self> {
        Self::read_from(node, 0)
    }

    /// Whether a status is one of them.
    pub fn has(self, status: u64) -> bool {
        (u64::from(self.least)..=u64::from(self.most)).contains(&status)
    }

    fn read_from(node: &Node<'_>, least: u16) -> Option<Self> {
        let status = |text: &str| {
            let status = text.parse::<u16>().ok()?;
            (status == least || (100..=599).contains(&status)).then_some(status)
        };
        let range = match node.value() {
            Value::String(text) => match (text.split_once('-'), text.strip_suffix("xx")) {
                (Some((least, most)), _) => status(least).zip(status(most)),
                (None, Some(hundred)) => {
                    status(&format!("{hundred}00")).map(|least| (least, least.saturating_add(99)))
                }
                (None, None) => status(text).map(|one| (one, one)),
            },
            _ => {
                let one = u16::try_from(node.integer(least.into(), 599)?).ok()?;
                if status(&one.to_string()).is_none() {
                    node.error(format!("{one} is no status"));
                    return None;
                }
                Some((one, one))
            }
        };
        match range {
            Some((least, most)) if least <= most => Some(Self { least, most }),
            _ => {
                let Value::String(text) = node.value() else { return None };
                node.error(format!("{text:?} is no status; write 404, \"4xx\" or \"500-599\""));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_written_in_several_ways() {
        let range = |json: &str, or_none: bool| {
            let read = crate::config::read(format!("{{\"s\":{json}}}").as_bytes(), |root| {
                let node = root.required("s")?;
                if or_none { StatusRange::read_or_none(&node) } else { StatusRange::read(&node) }
            });
            read.ok().map(|(range, _)| (range.least, range.most))
        };
        let rows = [
            ("404", Some((404, 404))),
            ("404.0", Some((404, 404))),
            ("\"404\"", Some((404, 404))),
            ("\"4xx\"", Some((400, 499))),
            ("\"500-504\"", Some((500, 504))),
            ("\"504-500\"", None),
            ("\"6xx\"", None),
            ("\"40x\"", None),
            ("600", None),
            ("99", None),
            ("0", None),
            ("true", None),
        ];
        for (json, expected) in rows {
            assert_eq!(range(json, false), expected, "{json}");
        }
        assert_eq!(range("0", true), Some((0, 0)));
        assert_eq!(range("\"0\"", true), Some((0, 0)));
        assert_eq!(range("50", true), None);
    }
}
