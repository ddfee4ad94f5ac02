//! Changes the schema of live MySQL tables.

fn main() {}
