//! What holds for every list and every request.

use std::thread;

use proptest::prelude::*;

use super::envoy::by_chain;
use super::separate::by_each;
use super::setups::{configuration, exchanges};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// A chain does what its filters would do one after the other, each in a module of its own. Either side runs in a
    /// thread of its own, which is what a worker keeps its state in.
    #[test]
    fn a_chain_does_what_its_filters_do_one_after_the_other(
        config in configuration(),
        exchanges in exchanges(),
        logs in any::<bool>(),
    ) {
        let (chain, each) = thread::scope(|scope| {
            let chain = scope.spawn(|| by_chain(&config, &exchanges, logs));
            let each = scope.spawn(|| by_each(&config, &exchanges, logs));
            (chain.join().unwrap(), each.join().unwrap())
        });
        for (place, (chain, each)) in chain.iter().zip(&each).enumerate() {
            prop_assert_eq!(chain, each, "exchange {}", place);
        }
    }
}
