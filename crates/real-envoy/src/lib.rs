//! Starts a real Envoy with a shipped configuration, and always stops it.
//!
//! The files under `envoy-configs` hold literal ports, addresses and module paths, and work when
//! pasted. A test takes such a file, rewrites its structure (never its text), and runs it:
//!
//! ```no_run
//! use real_envoy::client::{self, Http, Request};
//! use real_envoy::{Config, Envoy, Options};
//!
//! # async fn example(upstream: std::net::SocketAddr) -> anyhow::Result<()> {
//! let config = Config::load("envoy-configs/jwt-reject/wasm.yaml")?
//!     .on_free_ports()?
//!     .upstream("upstream", upstream)?
//!     .modules(xtask::modules::ensure)?;
//! let envoy = Envoy::start(&config, &Options { component_log_levels: "wasm:debug", ..Options::default() }).await?;
//! let request = Request::get("/orders?page=2").over(Http::H2).header("authorization", "Bearer x");
//! let response = client::send(envoy.listener()?, &request).await?;
//! assert_eq!(response.status, 401);
//! assert_eq!(envoy.stat("http.ingress.downstream_rq_4xx").await?, 1);
//! assert!(!envoy.log().contains("Bearer"));
//! envoy.stop().await
//! # }
//! ```
//!
//! What is never true: a process outlives its [`Envoy`]; a wait is unbounded; a rewrite that finds
//! nothing to rewrite goes unnoticed; a server listens beyond loopback once [`Config::on_free_ports`]
//! was called.

pub mod client;

mod admin;
mod config;
mod envoy;
mod listener_updates;
mod process;
mod wait;

pub use config::Config;
pub use envoy::{Envoy, LOG_FOLLOWS, Options};
pub use listener_updates::Update;
