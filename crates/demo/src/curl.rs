//! A request as a `curl` line, for a shell.

use std::net::SocketAddr;

use real_envoy::client::Request;

/// The line that sends this request. Whatever is in it stays in its place in any POSIX shell.
pub(crate) fn line(address: SocketAddr, request: &Request) -> String {
    let mut line = format!("curl -si {}", quoted(&format!("http://{address}{}", request.path)));
    if request.method != "GET" {
        line += &format!(" -X {}", quoted(&request.method));
    }
    for (name, value) in &request.headers {
        line += &format!(" -H {}", quoted(&format!("{name}: {}", String::from_utf8_lossy(value))));
    }
    line
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_safe_to_paste() {
        let request = Request::new("POST", "/it's?a=$b&c").header("authorization", "Bearer x.y");
        assert_eq!(
            line("127.0.0.1:80".parse().unwrap(), &request),
            r"curl -si 'http://127.0.0.1:80/it'\''s?a=$b&c' -X 'POST' -H 'authorization: Bearer x.y'"
        );
    }
}
