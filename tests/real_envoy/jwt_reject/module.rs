//! Facts about the module file, pinned so that a change is a decision.

/// What a gateway must load, and keep for each worker.
const MOST_BYTES: u64 = 800_000;

/// Each export is a crossing into the VM in the life of a request or of a VM.
const EXPORTS: &[&str] = &[
    // What Envoy asks of any module.
    "memory",
    "proxy_abi_version_0_2_1",
    "proxy_on_memory_allocate",
    // What every one of ours needs.
    "_initialize",
    "proxy_on_configure",
    "proxy_on_context_create",
    "proxy_on_delete",
    // What the filter declares.
    "proxy_on_http_call_response",
    "proxy_on_request_body",
    "proxy_on_request_headers",
    "proxy_on_request_trailers",
    "proxy_on_tick",
];

#[test]
fn the_module_exports_what_it_needs_and_is_small() {
    crate::suite::check_module("jwt_reject", EXPORTS, MOST_BYTES);
}
