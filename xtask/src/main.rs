//! Builds, provisions, tests and measures oxferry.

mod bench;
mod cargo;
mod demo;
mod fuzz_migrate;
mod integration;
mod mysqld;
mod report;
mod simulate;
mod stress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::complain;

/// Everything around the code: `cargo xtask COMMAND`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a throwaway MySQL server in the foreground until Ctrl-C
    Mysqld(mysqld::Options),
    /// Run every test, real servers included, and print the closing counts
    Integration,
    /// Migrate a million rows under writers and compare every row
    Demo(demo::Options),
    /// Measure the tool
    #[command(subcommand)]
    Bench(Bench),
    /// Run the copy engine between simulated servers, seed by seed
    Simulate(simulate::Options),
    /// Run `oxferry migrate` on random tables, changes and writes, seed by seed
    FuzzMigrate(fuzz_migrate::Options),
    /// Run one test, or all that match, many times in a row
    Stress(stress::Options),
    /// Check the rules of the source tree
    Tidy,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// `oxferry migrate` and the server's own table copy, by turns
    Migrate(bench::Options),
    /// `oxferry move` and `mysqldump | mysql`, by turns
    Move(bench::moving::Options),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            complain(&report::chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Integration => integration::run(),
        Command::Tidy => cargo::run(&["test", "--package", "xtask", "--test", "tidy"]),
        Command::Simulate(options) => simulate::run(options),
        Command::Stress(options) => stress::run(&options),
        Command::Mysqld(options) => runtime()?.block_on(mysqld::run(options)),
        Command::Demo(options) => runtime()?.block_on(demo::run(options)),
        Command::FuzzMigrate(options) => runtime()?.block_on(fuzz_migrate::run(options)),
        Command::Bench(Bench::Migrate(options)) => runtime()?.block_on(bench::run(options)),
        Command::Bench(Bench::Move(options)) => runtime()?.block_on(bench::moving::run(options)),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}
