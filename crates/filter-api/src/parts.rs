//! The parts of a request's query and of its cookies, read in place.

use std::borrow::Cow;

/// The parameters of a `:path`'s query, as they were sent.
pub fn parameters(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let query = path.splitn(2, |byte| *byte == b'?').nth(1);
    query.into_iter().flat_map(|query| query.split(|byte| *byte == b'&')).map(name_and_value)
}

/// The cookies of a `cookie` line, without the space around them.
pub fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|byte| *byte == b';').map(|part| {
        let (name, value) = name_and_value(part);
        (name.trim_ascii(), value.trim_ascii())
    })
}

/// What stands before and after the first `=`; nothing after it where there is none.
pub fn name_and_value(part: &[u8]) -> (&[u8], &[u8]) {
    let mut halves = part.splitn(2, |byte| *byte == b'=');
    (halves.next().unwrap_or_default(), halves.next().unwrap_or_default())
}

/// A cookie's value without the quotes around it.
pub fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// Decodes `application/x-www-form-urlencoded`; what is no escape stays.
pub fn form_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let escaped = (*byte == b'%').then(|| digit(after.first()).zip(digit(after.get(1)))).flatten();
        match escaped {
            Some((high, low)) => {
                out.push(u8::try_from(high << 4 | low).unwrap_or_default());
                rest = after.get(2..).unwrap_or_default();
            }
            None => out.push(if *byte == b'+' { b' ' } else { *byte }),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_forms_write_it() {
        let path = b"/a?x=1&y=a%20b+c&x&=2&%78=%zz&z=%4".as_slice();
        let read: Vec<(String, String)> = parameters(path)
            .map(|(name, value)| {
                let text = |part| String::from_utf8(form_decoded(part).into_owned()).unwrap();
                (text(name), text(value))
            })
            .collect();
        let expected = [("x", "1"), ("y", "a b c"), ("x", ""), ("", "2"), ("x", "%zz"), ("z", "%4")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(parameters(b"/a").count(), 0);
    }

    #[test]
    fn cookies_are_read_with_their_values() {
        let read: Vec<_> = cookies(b"a=1;  b = \"2\" ;c").collect();
        assert_eq!(read, [(&b"a"[..], &b"1"[..]), (b"b", b"\"2\""), (b"c", b"")]);
        assert_eq!(unquoted(b"\"2\""), b"2");
        assert_eq!(unquoted(b"\""), b"\"");
    }
}
