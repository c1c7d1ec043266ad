//! Runs a filter of the contract in a proxy-wasm VM. The only crate that speaks proxy-wasm, and
//! the only one with unsafe code.
//!
//! A filter's crate becomes a module with one line:
//!
//! ```ignore
//! #[cfg(all(feature = "module", target_arch = "wasm32"))]
//! filter_host::module!(crate::JwtReject);
//! ```
//!
//! - [`configuration`]: a plugin's configuration, made into JSON
//! - [`metadata`]: dynamic metadata, read from the host's format
//! - [`pairs`]: the host's format for headers, read in place
//! - [`signature`]: the host's format for signature checks
//! - `module`: the life of a VM, of a configuration and of a request
//! - `perform`: a filter's decision, carried out
//! - `ask`: what a filter may ask for
//! - `calls`: the host calls, each with its status instead of a panic
//! - `metrics`: counters, defined once a VM
//!
//! What calls the host exists only where there is one, so that this crate's tests, and those of
//! every crate that depends on it, link natively.

// Unsafe code is at home here: each block says why it holds.
#![allow(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod configuration;
pub mod metadata;
pub mod pairs;
mod protobuf;
pub mod section;
pub mod signature;

#[cfg(target_arch = "wasm32")]
mod ask;
#[cfg(target_arch = "wasm32")]
mod calls;
#[cfg(target_arch = "wasm32")]
mod metrics;
#[cfg(target_arch = "wasm32")]
mod module;
#[cfg(target_arch = "wasm32")]
mod perform;
#[cfg(target_arch = "wasm32")]
mod vm;

#[cfg(target_arch = "wasm32")]
pub use module::Module;

/// Memory for what the host hands over: `proxy_on_memory_allocate`.
#[cfg(target_arch = "wasm32")]
pub fn allocate(length: usize) -> *mut u8 {
    calls::allocate(length)
}

/// Makes the calling crate a module that runs this filter: its entry points, and a custom section
/// from which the build learns which of them to keep.
#[macro_export]
macro_rules! module {
    ($filter:ty) => {
        #[allow(unsafe_code, missing_docs)]
        mod entry_points {
            use super::*;

            const LISTED: &[$crate::section::Callback] = <$filter as $crate::section::Filter>::CALLBACKS;

            #[used]
            #[unsafe(link_section = "foregate.callbacks")]
            static CALLBACKS: [u8; $crate::section::length(LISTED)] = $crate::section::bytes(LISTED);

            thread_local! {
                static MODULE: $crate::Module<$filter> = const { $crate::Module::new() };
            }

            unsafe extern "C" {
                fn __wasm_call_ctors();
            }

            #[unsafe(no_mangle)]
            extern "C" fn _initialize() {
                // SAFETY: the linker makes it, and the host calls this first and once.
                unsafe { __wasm_call_ctors() };
                MODULE.with(|module| module.start());
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_abi_version_0_2_1() {}

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_memory_allocate(length: usize) -> *mut u8 {
                $crate::allocate(length)
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_context_create(context: u32, root: u32) {
                MODULE.with(|module| module.on_context_create(context, root));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_delete(context: u32) {
                MODULE.with(|module| module.on_delete(context));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_configure(context: u32, _length: usize) -> bool {
                MODULE.with(|module| module.on_configure(context))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_tick(context: u32) {
                MODULE.with(|module| module.on_tick(context));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_http_call_response(
                context: u32,
                number: u32,
                headers: u32,
                body_length: usize,
                _trailers: u32,
            ) {
                MODULE.with(|module| module.on_http_call_response(context, number, headers, body_length));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_headers(stream: u32, _headers: u32, _end: bool) -> u32 {
                MODULE.with(|module| module.on_request_headers(stream))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_body(stream: u32, _length: usize, _end: bool) -> u32 {
                MODULE.with(|module| module.on_more_of_request(stream))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_response_headers(stream: u32, _headers: u32, _end: bool) -> u32 {
                MODULE.with(|module| module.on_response_headers(stream))
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_log(context: u32) {
                MODULE.with(|module| module.on_log(context));
            }

            #[unsafe(no_mangle)]
            extern "C" fn proxy_on_request_trailers(stream: u32, _trailers: u32) -> u32 {
                MODULE.with(|module| module.on_more_of_request(stream))
            }
        }
    };
}
