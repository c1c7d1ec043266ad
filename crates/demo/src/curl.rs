//! A stop as a line for a shell, with `curl`.

use std::net::SocketAddr;

use real_envoy::client::Request;

use crate::stop::{Expected, REMAINING, RETRY_AFTER, Stop};

/// The line that makes this stop. Whatever is in it stays in its place in any POSIX shell.
pub(crate) fn line(address: SocketAddr, stop: &Stop) -> String {
    let wait = stop.wait.map_or_else(String::new, |seconds| format!("sleep {seconds}; "));
    let line = match &stop.expected {
        Expected::InTurn(answers) if answers.len() == 1 => {
            format!("curl -si {}", request(address, &stop.request, ""))
        }
        Expected::InTurn(answers) => format!(
            "for n in $(seq {}); do curl -si {} | grep -iE '^(HTTP|{REMAINING}|{RETRY_AFTER})'; done",
            answers.len(),
            request(address, &stop.request, "")
        ),
        Expected::Times(times, _) => format!(
            "curl -s -o /dev/null -w '%{{http_code}}\\n' {} | sort | uniq -c",
            request(address, &stop.request, &format!("#[1-{times}]"))
        ),
        // One curl, which makes many requests of the brackets: they go out one right after the other.
        Expected::Burst { times, .. } => format!(
            "curl -s -o /dev/null -w '%{{http_code}}\\n' {} | sort | uniq -c",
            request(address, &stop.request, &format!("#[1-{times}]"))
        ),
    };
    wait + &line
}

/// What curl must be told of the request; `range` is for the end of its URL.
fn request(address: SocketAddr, request: &Request, range: &str) -> String {
    let mut line = quoted(&format!("http://{address}{}{range}", request.path));
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
    use crate::stop::Answer;

    #[test]
    fn lines_are_safe_to_paste() {
        let request = Request::new("POST", "/it's?a=$b&c").header("authorization", "Bearer x.y");
        let expected = Expected::InTurn(vec![Answer::Passed]);
        let stop =
            Stop { title: "", remark: "", wait: Some(7), request, token: None, expected, logged: None };
        let line = |stop: &Stop| line("127.0.0.1:80".parse().unwrap(), stop);
        let curl = r"'http://127.0.0.1:80/it'\''s?a=$b&c' -X 'POST' -H 'authorization: Bearer x.y'";
        assert_eq!(line(&stop), format!("sleep 7; curl -si {curl}"));
        let several = Expected::InTurn(vec![Answer::Passed; 3]);
        let grep = "grep -iE '^(HTTP|x-ratelimit-remaining|retry-after)'";
        assert_eq!(
            line(&Stop { wait: None, expected: several, ..stop }),
            format!("for n in $(seq 3); do curl -si {curl} | {grep}; done")
        );
    }
}
