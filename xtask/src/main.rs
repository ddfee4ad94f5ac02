//! Builds, provisions, tests and measures oxferry.

fn main() {}
