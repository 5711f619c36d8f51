//! The `canoe` binary.

mod commands;
mod data;
mod demo;

use clap::Parser;

#[derive(Parser)]
enum Canoe {
    /// Write a ready job directory, with data.
    Demo(commands::demo::DemoArgs),
    /// Split, fetch and look at data.
    Data(commands::data::DataArgs),
}

fn main() -> anyhow::Result<()> {
    match Canoe::parse() {
        Canoe::Demo(args) => commands::demo::run(args),
        Canoe::Data(args) => commands::data::run(args),
    }
}
