//! A line: one JSON object, whatever bytes its values hold.

/// Room at the end for what is written after all fields.
const RESERVE: usize = 128;

/// A line under way.
#[derive(Debug)]
pub(crate) struct Line {
    text: String,
    most: usize,
    is_truncated: bool,
}

impl Line {
    /// A line of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::with_capacity(512), most, is_truncated: false }
    }

    /// A member that is a number.
    pub(crate) fn number(&mut self, name: &str, digits: &str) {
        self.member(name, |text| text.push_str(digits));
    }

    /// A member that is a text.
    pub(crate) fn text(&mut self, name: &str, value: &[u8]) {
        self.member(name, |text| push_string(text, value));
    }

    /// A member that is missing.
    pub(crate) fn null(&mut self, name: &str) {
        self.member(name, |text| text.push_str("null"));
    }

    /// A member that is an object of texts.
    pub(crate) fn texts<'v>(&mut self, name: &str, values: impl Iterator<Item = (&'v str, &'v [u8])>) {
        self.member(name, |text| {
            text.push('{');
            for (place, (name, value)) in values.enumerate() {
                if place > 0 {
                    text.push(',');
                }
                push_string(text, name.as_bytes());
                text.push(':');
                push_string(text, value);
            }
            text.push('}');
        });
    }

    /// Notes that a value was cut.
    pub(crate) fn note_truncation(&mut self) {
        self.is_truncated = true;
    }

    /// The line, and whether anything is not in it.
    pub(crate) fn finish(mut self) -> (String, bool) {
        if self.is_truncated {
            self.most = usize::MAX;
            self.member("truncated", |text| text.push_str("true"));
        }
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        (self.text, self.is_truncated)
    }

    /// Writes a member, and takes it back where that makes the line too long.
    fn member(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        let before = self.text.len();
        self.text.push(if before == 0 { '{' } else { ',' });
        push_string(&mut self.text, name.as_bytes());
        self.text.push(':');
        write(&mut self.text);
        if self.text.len().saturating_add(RESERVE) > self.most {
            self.text.truncate(before);
            self.is_truncated = true;
        }
    }
}

/// Writes a string: what is no UTF-8 as `\xff`, and everything that a reader, a terminal or a line of text might take for
/// something else as an escape.
fn push_string(text: &mut String, value: &[u8]) {
    text.push('"');
    for chunk in value.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                other if other.is_control() || is_deceiving(other) => push_escape(text, u32::from(other)),
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            text.push_str("\\\\x");
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(digit), 16));
            }
        }
    }
    text.push('"');
}

/// Whether a letter ends a line to some, turns the direction of what follows, or is not seen at all.
fn is_deceiving(letter: char) -> bool {
    matches!(
        letter,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// Writes a character of the basic plane as `\u001b`.
fn push_escape(text: &mut String, letter: u32) {
    text.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        text.extend(char::from_digit(letter >> shift & 15, 16));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_byte_stays_within_its_string() {
        let mut line = Line::new(8192);
        line.text("a\"b", b"\r\n\t\x1b[31m\"\\\x7f\xff\x80 \xc3\xa9 \xe2\x80\xa8\xe2\x80\xae");
        line.number("n", "1.5");
        line.null("z");
        line.texts("h", [("x", &b"1"[..]), ("y", b"\xff")].into_iter());
        let (text, is_truncated) = line.finish();
        assert!(!is_truncated && !text.contains(|letter: char| letter.is_control()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({
                "a\"b": "\r\n\t\u{1b}[31m\"\\\u{7f}\\xff\\x80 é \u{2028}\u{202e}",
                "n": 1.5,
                "z": null,
                "h": { "x": "1", "y": "\\xff" },
            })
        );
        assert!(text.contains("\\u001b") && text.contains("\\u2028\\u202e") && text.contains("\\u007f"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let mut line = Line::new(256);
        line.text("a", b"1");
        line.text("b", &[b'x'; 200]);
        line.text("c", b"3");
        let (text, is_truncated) = line.finish();
        assert_eq!((text.as_str(), is_truncated), (r#"{"a":"1","c":"3","truncated":true}"#, true));
        assert_eq!(Line::new(256).finish().0, "{}");
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_line_of_json(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8),
            most in 200..2000_usize,
        ) {
            let mut line = Line::new(most);
            for (place, value) in values.iter().enumerate() {
                line.text(&format!("f{place}"), value);
            }
            let (text, _) = line.finish();
            prop_assert!(text.len() <= most);
            prop_assert!(!text.contains(|letter: char| letter.is_control()));
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert!(value.is_object());
        }
    }
}
