//! Facts about the module file, pinned so that a change is a decision.

/// What a gateway must load, and keep for each worker.
const MOST_BYTES: u64 = 1_500_000;

/// Beside what every module has: all that one of the filters needs. A configuration whose filters do not need one of them
/// is not asked by the module, but entered by Envoy.
const EXPORTS: &[&str] = &[
    "proxy_on_http_call_response",
    "proxy_on_log",
    "proxy_on_request_body",
    "proxy_on_request_headers",
    "proxy_on_request_trailers",
    "proxy_on_response_headers",
    "proxy_on_tick",
];

#[test]
fn the_module_exports_what_it_needs_and_is_small() {
    crate::suite::check_module("foregate", EXPORTS, MOST_BYTES);
}
