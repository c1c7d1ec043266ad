//! The contract between a filter and whatever runs it: what a filter sees, and what it may answer.
//!
//! A filter decides and returns; its host performs. So a filter's logic can be tested natively in
//! milliseconds, several filters can share one module, and a second host can be added without
//! touching any of them. Nothing here, nor in the crates this one depends on, reads a clock, draws
//! a random number, or does input or output: time and chance come in as a [`Moment`], and what
//! else a filter needs from outside comes through [`Host`] and [`Background`].
//!
//! - [`Filter`]: what a filter implements
//! - [`Head`]: the request head it sees
//! - [`Outcome`], [`Effects`], [`LocalReply`]: what it answers
//! - [`Cells`]: what it shares with its other workers
//! - [`Background`]: what it may do between requests, and [`Work`], what it answers then
//! - [`matcher`]: which requests a rule is for, the same in every filter
//! - [`Edited`]: a head with edits over it
//! - [`template`]: texts with operators in them
//! - [`config`]: reading a configuration so that every problem in it is named with its path

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod background;
mod cells;
mod claim;
pub mod config;
mod edited;
mod effects;
mod fact;
mod filter;
mod head;
mod header;
mod host_map;
pub mod json;
pub mod matcher;
pub mod parts;
mod reply;
mod response_flags;
pub mod template;
mod text;

pub use background::{Background, Fetch, Fetched, Response, Work};
pub use cells::{CellMap, Cells, HostFailed, Over, SharedValue};
pub use claim::{ClaimPath, ClaimText};
pub use edited::{Edited, Line, Lines, OwnLines};
pub use effects::{
    Counter, CounterSet, Effects, HeaderOp, Level, LogLine, Outcome, Property, ResponseEffects,
};
pub use fact::{Fact, Facts};
pub use filter::{
    Attribute, Callback, Configured, Filter, Hash, Host, HostVerdict, Moment, NoHost, OnHostFailure,
    SignatureCheck, Waiting,
};
pub use head::{Head, HeadMap};
pub use header::{HeaderName, HeaderValue, InvalidHeader, is_token_byte};
pub use host_map::HostMap;
pub use reply::{GrpcStatus, LocalReply, Protocol};
pub use response_flags::ResponseFlags;
pub use text::Text;
