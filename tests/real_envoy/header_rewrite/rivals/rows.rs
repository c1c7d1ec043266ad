//! The rows: what is sent, and what upstream and client see of it.
//!
//! What is seen is one text: the request as it arrived, the lines of the headers that the row looks at, and behind
//! `=>` the status and lines of the answer. `-` stands for no request, or none that an HTTP library can read.

mod agreement;
mod differences;

use real_envoy::client::{Http, Request};

use super::implementation::HOST;

pub(super) use agreement::agreement;
pub(super) use differences::{differences_at_the_client, differences_upstream};

/// A row: what is sent, and what is seen of it.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) request: Request,
    pub(super) over: &'static [Http],
    /// The headers of the request that it looks at.
    pub(super) upstream: &'static [&'static str],
    /// The headers of the answer that it looks at.
    pub(super) client: &'static [&'static str],
    /// By native, Lua and ours.
    pub(super) expected: [&'static str; 3],
    /// Why they are not the same; empty where they are.
    pub(super) why: &'static str,
}

const H1: &[Http] = &[Http::H1];
const H2: &[Http] = &[Http::H2];
const BOTH: &[Http] = &[Http::H1, Http::H2];

fn get(path: &str) -> Request {
    Request::get(path).authority(HOST)
}

/// A GET whose answer has these lines.
fn answered(path: &str, lines: &[&str]) -> Request {
    lines.iter().fold(get(path), |request, line| request.header("x-echo-header", line))
}

/// A row that looks at these headers of the request.
fn upstream(what: &'static str, request: Request, names: &'static [&'static str]) -> Row {
    Row { what, request, over: BOTH, upstream: names, client: &[], expected: [""; 3], why: "" }
}

/// A row that looks at these headers of the answer.
fn client(what: &'static str, request: Request, names: &'static [&'static str]) -> Row {
    Row { client: names, ..upstream(what, request, &[]) }
}

impl Row {
    fn all(self, seen: &'static str) -> Self {
        Self { expected: [seen; 3], ..self }
    }

    fn each(self, native: &'static str, lua: &'static str, ours: &'static str, why: &'static str) -> Self {
        Self { expected: [native, lua, ours], why, ..self }
    }

    fn over(self, over: &'static [Http]) -> Self {
        Self { over, ..self }
    }
}

/// Names that several rows look at.
const PATH: &[&str] = &["x-envoy-original-path", "x-route"];
const USER: &[&str] = &["x-legacy-user", "x-user"];
