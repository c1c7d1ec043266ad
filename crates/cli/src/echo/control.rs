//! How a request asks for an answer other than the plain echo.
//!
//! Each control is a query parameter (`?status=503`) or a header (`x-echo-status: 503`):
//! - `status`: 200 to 599;
//! - `delay`: milliseconds before the answer, at most [`MAX_DELAY_MS`];
//! - `size`: answer with exactly that many bytes instead of the JSON, at most [`MAX_SIZE`];
//! - `close`: `before` drops the connection without an answer; `during` sends half of the body, then
//!   breaks off (HTTP/1.1 closes the connection, HTTP/2 resets the stream); `after` answers and then
//!   closes (HTTP/1.1 says `connection: close`, HTTP/2 sends GOAWAY);
//! - `x-echo-header: name: value` (header only, repeatable): a header of the answer.
//!
//! Rules:
//! 1. A header wins over the query parameter; of several equal ones the last wins.
//! 2. Query values are read as they are, without percent-decoding. Other parameters are not looked at.
//! 3. A value that cannot be followed is an error, which the server answers with 400 and the message.

use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, Uri};

/// The largest body that `size` may ask for: 1 GiB.
pub const MAX_SIZE: u64 = 1 << 30;

/// The longest wait that `delay` may ask for: 10 minutes.
pub const MAX_DELAY_MS: u64 = 600_000;

/// When the connection is to be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Without an answer.
    Before,
    /// After half of the body.
    During,
    /// After the whole answer.
    After,
}

/// What a request asks for. The default is the plain echo.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The status of the answer; 200 without.
    pub status: Option<StatusCode>,
    /// How long to wait before the answer.
    pub delay: Option<Duration>,
    /// Bytes of body instead of the JSON.
    pub size: Option<u64>,
    /// Whether and when to break off.
    pub close: Option<Close>,
    /// Headers of the answer, in the order given.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Control {
    /// Reads the controls of a request, or says which value cannot be followed and why.
    pub fn of_request(uri: &Uri, headers: &HeaderMap) -> Result<Self, String> {
        let mut control = Self::default();
        for pair in uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            control.set(name, value)?;
        }
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix("x-echo-") else { continue };
            if name == "header" {
                control.headers.push(response_header(value)?);
            } else {
                let text =
                    value.to_str().map_err(|_| format!("x-echo-{name}: {value:?} is not plain text"))?;
                control.set(name, text.trim())?;
            }
        }
        Ok(control)
    }

    /// Follows one control; names that are none are ignored.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "status" => self.status = Some(status(value)?),
            "delay" => self.delay = Some(Duration::from_millis(number("delay", value, MAX_DELAY_MS)?)),
            "size" => self.size = Some(number("size", value, MAX_SIZE)?),
            "close" => {
                self.close = Some(match value {
                    "before" => Close::Before,
                    "during" => Close::During,
                    "after" => Close::After,
                    _ => return Err(format!("close: {value:?} is none of before, during, after")),
                });
            }
            _ => {}
        }
        Ok(())
    }
}

fn status(value: &str) -> Result<StatusCode, String> {
    let problem = || format!("status: {value:?} is not a number from 200 to 599");
    let number: u16 = value.parse().map_err(|_| problem())?;
    if !(200..=599).contains(&number) {
        return Err(problem());
    }
    StatusCode::from_u16(number).map_err(|_| problem())
}

fn number(name: &str, value: &str, max: u64) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(format!("{name}: {value:?} is not a number from 0 to {max}")),
    }
}

/// Splits `name: value`. The value may hold any bytes that HTTP allows, UTF-8 or not.
fn response_header(text: &HeaderValue) -> Result<(HeaderName, HeaderValue), String> {
    let problem = |why: &str| format!("x-echo-header: {text:?}: {why}");
    let mut parts = text.as_bytes().splitn(2, |byte| *byte == b':');
    let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
        return Err(problem("not of the form \"name: value\""));
    };
    let name = HeaderName::from_bytes(name.trim_ascii()).map_err(|_| problem("not a header name"))?;
    // These describe the message itself: the server sets them, and a wrong one would break the connection.
    if [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(&name) {
        return Err(problem("the server sets this header itself"));
    }
    let value = HeaderValue::from_bytes(value.trim_ascii()).map_err(|_| problem("not a header value"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str, headers: &[(&str, &str)]) -> Result<Control, String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        Control::of_request(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn reads_query_and_headers() {
        assert_eq!(read("/", &[]), Ok(Control::default()));
        assert_eq!(read("/?a=1&&status", &[]), Err("status: \"\" is not a number from 200 to 599".into()));
        let control = read("/x?status=503&delay=20&size=7&close=after&other=?", &[]).unwrap();
        assert_eq!(control.status, Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(control.delay, Some(Duration::from_millis(20)));
        assert_eq!((control.size, control.close), (Some(7), Some(Close::After)));
        let control = read(
            "/?status=503",
            &[("x-echo-status", "404"), ("x-echo-header", "A:b: c"), ("x-echo-header", "a:  d")],
        )
        .unwrap();
        assert_eq!(control.status, Some(StatusCode::NOT_FOUND));
        let headers: Vec<_> = control.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        assert_eq!(headers, [("a", &b"b: c"[..]), ("a", &b"d"[..])]);
    }

    #[test]
    fn refuses_what_it_cannot_follow() {
        for (target, headers) in [
            ("/?status=100", &[][..]),
            ("/?status=600", &[]),
            ("/?status=2e2", &[]),
            ("/?delay=-1", &[]),
            ("/?delay=600001", &[]),
            ("/?size=1073741825", &[]),
            ("/?size=", &[]),
            ("/?close=never", &[]),
            ("/", &[("x-echo-close", "Before")]),
            ("/", &[("x-echo-header", "no colon")]),
            ("/", &[("x-echo-header", "bad name: x")]),
            ("/", &[("x-echo-header", "content-length: 3")]),
        ] {
            assert!(read(target, headers).is_err(), "{target} {headers:?}");
        }
    }
}
