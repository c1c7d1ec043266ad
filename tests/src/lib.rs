//! The suite against the real Envoy is the test target `real_envoy`; its cases lie in `cases/`.
