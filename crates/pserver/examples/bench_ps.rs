//! Runs the measurements of [`pserver::bench`] with settings from the command line, while they are worked on.
#![allow(clippy::print_stdout, reason = "an example prints")]

use pserver::bench::{Transport, dense::Dense, sparse::Sparse};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let prefix = format!("{name}=");
        arguments
            .iter()
            .find_map(|a| a.strip_prefix(&prefix)?.parse::<u64>().ok())
    };
    let tcp = arguments.iter().any(|a| a == "tcp");
    let transport = if tcp { Transport::Tcp } else { Transport::Unix };
    match arguments.first().map(String::as_str) {
        Some("dense") => {
            let plain = Dense::default();
            let tables = number("tables").map_or(plain.tables, |n| n as u32);
            let rounds = number("rounds").map_or(plain.rounds, |n| n as u32);
            println!(
                "{}",
                Dense {
                    transport,
                    tables,
                    rounds,
                    ..plain
                }
                .run()?
            );
        }
        Some("sparse") => {
            let plain = Sparse::default();
            let rows = number("rows").unwrap_or(plain.rows);
            println!(
                "{}",
                Sparse {
                    transport,
                    rows,
                    ..plain
                }
                .run()?
            );
        }
        Some("latency") => println!(
            "{}",
            Sparse {
                transport,
                ..Sparse::latency()
            }
            .run()?
        ),
        _ => println!("dense | sparse | latency   [tcp] [tables=N] [rounds=N] [rows=N]"),
    }
    Ok(())
}
