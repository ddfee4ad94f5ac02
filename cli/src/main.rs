//! Changes the schema of live MySQL tables.
//!
//! This program is glue: it reads options, composes the library crates into
//! jobs, and turns errors into one line and an exit code.

mod args;
mod cleanup;
mod comparing;
mod config;
mod control;
mod ctl;
mod failure;
mod job;
mod log;
mod migrate;
mod moving;
mod source;
mod verify;

use std::{ffi::OsString, process::ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::{
    args::{Cli, Command, ConfigCommand, LogFormat, PlanCommand},
    failure::Failure,
    log::Log,
};

fn main() -> ExitCode {
    let (cli, settings) = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let log = Log::start(log_format(&cli.command));
    match run(cli.command, &settings, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command, settings: &[String], log: &Log) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(oxferry_schema::Remedy::Bug, error))?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Migrate(args) => migrate::run(*args, log).await,
            Command::Move(args) => moving::run(*args, log).await,
            Command::Plan {
                job: PlanCommand::Migrate(args),
            } => migrate::plan(*args).await,
            Command::Plan {
                job: PlanCommand::Move(args),
            } => moving::plan(*args).await,
            Command::Cleanup(args) => cleanup::run(&args).await,
            Command::Ctl(args) => {
                print(&[ctl::run(&args).await?]);
                Ok(())
            }
            Command::Verify(args) => verify::run(args).await,
            Command::Config(_) => {
                print(settings);
                Ok(())
            }
        }
    });
    // A question that nobody answers must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// Reads the command line, and the settings file that it may name; also
/// returns the effective settings as lines, for `config --print`.
fn parse() -> Result<(Cli, Vec<String>), ExitCode> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let mut matches = Cli::command()
        .try_get_matches_from(&words)
        .map_err(|e| usage(&e))?;
    let command = Cli::command();
    let (taker, given) = option_taker(&command, &matches);
    let file = given
        .try_get_one::<std::path::PathBuf>("config")
        .ok()
        .flatten();
    let mut from_file = Vec::new();
    if let Some(file) = file {
        from_file = config::options_from_file(file, taker, given).map_err(|f| f.report_early())?;
        words.extend(from_file.iter().cloned());
        matches = Cli::command()
            .try_get_matches_from(&words)
            .map_err(|e| usage(&e))?;
    }
    let (taker, given) = option_taker(&command, &matches);
    let settings = config::lines(taker, given, &from_file);
    let cli = Cli::from_arg_matches(&matches).map_err(|e| usage(&e))?;
    Ok((cli, settings))
}

/// Returns the innermost subcommand that was called, and its options.
fn option_taker<'a>(
    command: &'a clap::Command,
    matches: &'a ArgMatches,
) -> (&'a clap::Command, &'a ArgMatches) {
    match matches.subcommand() {
        Some((name, inner)) => match command.find_subcommand(name) {
            Some(subcommand) => option_taker(subcommand, inner),
            None => (command, matches),
        },
        None => (command, matches),
    }
}

/// Help and version are no errors; everything else is a wrong call.
fn usage(error: &clap::Error) -> ExitCode {
    let shown = error.print();
    if error.use_stderr() || shown.is_err() {
        ExitCode::from(failure::exit_code(oxferry_schema::Remedy::Usage))
    } else {
        ExitCode::SUCCESS
    }
}

const fn log_format(command: &Command) -> LogFormat {
    match command {
        Command::Migrate(args)
        | Command::Plan {
            job: PlanCommand::Migrate(args),
        } => args.run.log,
        Command::Move(args)
        | Command::Plan {
            job: PlanCommand::Move(args),
        } => args.run.log,
        Command::Cleanup(args) => args.log,
        Command::Ctl(_) => LogFormat::Text,
        Command::Verify(args) => args.log,
        Command::Config(args) => match &args.job {
            Some(ConfigCommand::Move(args)) => args.moving.run.log,
            None => args.migrate.run.log,
        },
    }
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
fn print(lines: &[String]) {
    for line in lines {
        println!("{line}");
    }
}
