//! The command `streamweir`: verdicts about files, the demonstration, and what
//! this machine offers.

#![forbid(unsafe_code)]

mod audit;
mod checkpoint;
mod decode;
mod demo;
mod device;
mod doctor;
mod drawing;
mod exit;
mod paint;
mod place;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Failure;

/// CUDA graphs captured from several streams: memory that cannot alias, joins
/// that are written down, and a proof for each graph.
#[derive(Debug, Parser)]
#[command(name = "streamweir", version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Audit(audit::Options),
    Checkpoint(checkpoint::Options),
    Decode(Box<decode::Options>),
    Demo(demo::Options),
    Doctor(doctor::Options),
    Place(place::Options),
}

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return exit::usage(&error),
    };
    let done = match command.what {
        What::Audit(options) => audit::run(&options),
        What::Checkpoint(options) => checkpoint::run(&options),
        What::Decode(options) => decode::run(&options),
        What::Demo(options) => demo::run(&options),
        What::Doctor(options) => doctor::run(&options),
        What::Place(options) => place::run(&options),
    };
    done.unwrap_or_else(Failure::report)
}
