//! Facts about the module file, pinned so that a change is a decision.

/// What a gateway must load, and keep for each worker.
const MOST_BYTES: u64 = 500_000;

/// Beside what every module has; each is a crossing into the VM in the life of a request or of a VM. Nothing is asked
/// for while a request is under way.
const EXPORTS: &[&str] = &["proxy_on_http_call_response", "proxy_on_log", "proxy_on_tick"];

#[test]
fn the_module_exports_what_it_needs_and_is_small() {
    crate::suite::check_module("sampled_log", EXPORTS, MOST_BYTES);
}
