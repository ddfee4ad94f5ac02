//! Every throttle keeps the contract, open and closed.

use std::time::{Duration, Instant};

use oxferry_throttle::{All, ByHand, FlagFile, LagGate, LagLimits, LoadGate, conformance};

#[test]
fn every_throttle_keeps_the_contract() {
    let now = Instant::now();
    let mut lag = LagGate::new(LagLimits::default());
    lag.watch("db2:3306", now);
    let mut load = LoadGate::new(8, now);
    let mut flag = FlagFile::new("/tmp/slow");
    let hand = ByHand::new();
    for high in [true, false] {
        lag.handle_sample("db2:3306", now, Duration::from_secs(9 * u64::from(high)));
        load.handle_sample(now, 9 * u64::from(high));
        flag.handle_sample(Some(high));
        if high {
            hand.pause();
        } else {
            hand.resume();
        }
        conformance::all(&lag, now);
        conformance::all(&load, now);
        conformance::all(&flag, now);
        conformance::all(&hand, now);
        let all = All::new()
            .with(lag.clone())
            .with(load.clone())
            .with(flag.clone())
            .with(hand.clone());
        conformance::all(&all, now);
    }
}
