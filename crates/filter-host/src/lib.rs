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
//! - [`pairs`]: the host's format for headers, read in place
//! - [`signature`]: the host's format for signature checks
//! - `calls`: the host calls, each with its status instead of a panic
//! - `context`: the life of a VM, of a configuration and of a request
//! - `metrics`: counters, defined once a VM
//!
//! What calls the host exists only where there is one, so that this crate's tests, and those of
//! every crate that depends on it, link natively.

// Unsafe code is at home here: each block says why it holds.
#![allow(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod configuration;
pub mod pairs;
pub mod section;
pub mod signature;

#[cfg(target_arch = "wasm32")]
mod calls;
#[cfg(target_arch = "wasm32")]
mod context;
#[cfg(target_arch = "wasm32")]
mod metrics;

#[cfg(target_arch = "wasm32")]
pub use context::start;
#[doc(hidden)]
pub use proxy_wasm;

/// Makes the calling crate a module that runs this filter: its entry point, and a custom section
/// from which the build learns which exports to keep.
#[macro_export]
macro_rules! module {
    ($filter:ty) => {
        #[allow(unsafe_code, missing_docs)]
        mod entry_point {
            use super::*;

            const LISTED: &[$crate::section::Callback] = <$filter as $crate::section::Filter>::CALLBACKS;

            #[used]
            #[unsafe(link_section = "foregate.callbacks")]
            static CALLBACKS: [u8; $crate::section::length(LISTED)] = $crate::section::bytes(LISTED);

            $crate::proxy_wasm::main! {{ $crate::start::<$filter>(); }}
        }
    };
}
