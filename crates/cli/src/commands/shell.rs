//! `canoe completions SHELL` and `canoe man DIR`: completions for a shell and manual pages. Flags in the form of v1,
//! which clap does not parse, are added from their tables.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Arg, Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::flags::{Flag, FlagTable};
use crate::pipe;
use crate::v1_flags::{COMMON, PSERVER, TRAIN};

/// Arguments of `canoe completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell: bash, zsh, fish, elvish or powershell.
    shell: Shell,
}

/// Arguments of `canoe man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages; it is created.
    directory: PathBuf,
}

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs, program: Command) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole(program), "canoe", &mut text);
    pipe::print(&text).context("print the completions")?;
    Ok(Exit::Success)
}

/// Writes one page per command.
pub(crate) fn man(args: &ManArgs, program: Command) -> anyhow::Result<Exit> {
    let folder = &args.directory;
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(whole(program), folder)
        .with_context(|| format!("write pages into {}", folder.display()))?;
    println!("{}", folder.display());
    Ok(Exit::Success)
}

/// The commands of clap, with the flags of v1 added.
fn whole(program: Command) -> Command {
    let add = |command: Command, tables: &[FlagTable]| {
        let flags = tables.iter().copied().flatten();
        let known: Vec<&Flag> = flags.filter(|flag| flag.ignored.is_none()).collect();
        known.into_iter().fold(command, |command, flag| {
            command.arg(
                Arg::new(flag.name)
                    .long(flag.name)
                    .help(flag.help)
                    .value_name("VALUE"),
            )
        })
    };
    program
        .mut_subcommand("train", |command| add(command, &[COMMON, TRAIN]))
        .mut_subcommand("pserver", |command| add(command, &[COMMON, PSERVER]))
}
