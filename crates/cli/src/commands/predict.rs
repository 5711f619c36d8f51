//! `canoe predict MODEL [INPUT…]`: samples in, outputs out, in the same order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use predict::model::OpenedProvider;
use predict::pipeline::{self, PipelinePlan, PipelineWork};
use predict::read::{self, Cutter, Parser};
use predict::{Model, PredictError, write};

use super::opening::OpenArgs;
use crate::command_output::{self, CommandOutput};
use crate::exit::Exit;

/// Arguments of `canoe predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Files with samples; without one, or with -, standard input.
    inputs: Vec<PathBuf>,
    /// How the samples are written; by default what the file's ending says (.csv, .tsv, .jsonl), else text.
    #[arg(long, value_enum)]
    input_format: Option<InputFormat>,
    /// How outputs are written; by default what the ending of --to says, else as the input, and CSV for text.
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// The file to write; it appears when it is complete, and is compressed if its name ends with .gz. By default, or
    /// with -, standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    /// The character between the fields of CSV, read and written; \t is a tab. By default a comma, and a tab for .tsv.
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    separator: Option<u8>,
    /// Write the fields of the input before the outputs.
    #[arg(long)]
    keep: bool,
    /// Samples per batch; by default that of the configuration, and at least 32. It does not change results.
    #[arg(long)]
    batch_size: Option<usize>,
    /// Number of threads; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// One sample per line, for networks with one input: words, ids or numbers, separated by blanks.
    Text,
    /// With a header that names the data layers.
    Csv,
    /// A JSON object per line, with the data layers as keys.
    Jsonl,
    /// What the configuration's own data provider reads; without INPUT, the files of its test list.
    Provider,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A header, then a record per sample.
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// The lines of v1's --predict_output_dir.
    V1,
}

pub(crate) fn run(args: PredictArgs) -> anyhow::Result<Exit> {
    let given = input_format(&args)?;
    let model = args.open.open()?;
    let threads = args
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let format = match args.format {
        Some(OutputFormat::Csv) => write::OutputFormat::Csv,
        Some(OutputFormat::Jsonl) => write::OutputFormat::JsonLines,
        Some(OutputFormat::V1) => write::OutputFormat::V1,
        None => match args.to.as_deref().and_then(by_ending) {
            Some(InputFormat::Jsonl) => write::OutputFormat::JsonLines,
            Some(_) => write::OutputFormat::Csv,
            None if given == InputFormat::Jsonl => write::OutputFormat::JsonLines,
            None => write::OutputFormat::Csv,
        },
    };
    let to = args
        .to
        .as_deref()
        .filter(|to| !command_output::is_standard(Some(to)));
    let same = |input: &&PathBuf| to.is_some_and(|to| is_same(to, input));
    if let Some(input) = args.inputs.iter().find(same) {
        anyhow::bail!(
            "--to {} would replace an input; choose another name (--keep writes the fields of the input too)",
            input.display()
        );
    }
    let tabs = |path: &Path| inner_ending(path).as_deref() == Some("tsv");
    let names = args.inputs.iter().map(PathBuf::as_path);
    let tabs = match args.inputs.is_empty() {
        true => to.is_some_and(tabs),
        false => names.into_iter().all(tabs),
    };
    let mut sink = CommandOutput::open(to)?;
    let job = Job {
        args: &args,
        model: &model,
        format,
        separator: args.separator.unwrap_or(if tabs { b'\t' } else { b',' }),
        threads,
        batch: args.batch_size.unwrap_or(model.batch_size.max(32)).max(1),
    };
    let samples = match given {
        InputFormat::Provider => job.provider(&mut sink)?,
        InputFormat::Text => job.lines(read::InputFormat::Text, &mut sink)?,
        InputFormat::Jsonl => job.lines(read::InputFormat::JsonLines, &mut sink)?,
        InputFormat::Csv => job.csv(&mut sink)?,
    };
    let failed = format!("write {}", sink.name());
    sink.close().context(failed)?;
    if let Some(file) = to {
        let plural = if samples == 1 { "" } else { "s" };
        eprintln!("{}: {samples} sample{plural}", file.display());
    }
    Ok(Exit::Success)
}

/// The format that the user gave, otherwise the one that all file endings have in common.
fn input_format(args: &PredictArgs) -> anyhow::Result<InputFormat> {
    if let Some(format) = args.input_format {
        return Ok(format);
    }
    let of = |path: &PathBuf| by_ending(path).unwrap_or(InputFormat::Text);
    let mut formats: Vec<InputFormat> = args.inputs.iter().map(of).collect();
    formats.dedup();
    match formats[..] {
        [] => Ok(InputFormat::Text),
        [one] => Ok(one),
        _ => anyhow::bail!(
            "the inputs have different endings; give their format with --input-format"
        ),
    }
}

/// The ending of a file, in small letters; of a compressed one, that before `.gz`.
fn inner_ending(path: &Path) -> Option<String> {
    let ending = |path: &Path| Some(path.extension()?.to_string_lossy().to_lowercase());
    match ending(path)?.as_str() {
        "gz" => ending(&path.with_extension("")),
        plain => Some(plain.to_owned()),
    }
}

/// The format that the ending of a file says.
fn by_ending(path: &Path) -> Option<InputFormat> {
    match inner_ending(path)?.as_str() {
        "csv" | "tsv" => Some(InputFormat::Csv),
        "jsonl" | "ndjson" => Some(InputFormat::Jsonl),
        _ => None,
    }
}

fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [one] if !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("one ASCII character, or \\t, is expected".to_owned()),
    }
}

/// What all input formats need.
struct Job<'a> {
    args: &'a PredictArgs,
    model: &'a Model,
    format: write::OutputFormat,
    separator: u8,
    threads: usize,
    batch: usize,
}

impl Job<'_> {
    fn plan<'a>(
        &'a self,
        parser: Option<&'a Parser>,
        keep: Option<&'a [String]>,
    ) -> PipelinePlan<'a> {
        PipelinePlan {
            model: self.model,
            parser,
            format: self.format,
            keep,
            separator: self.separator,
            threads: self.threads,
            one_by_one: self.typed(),
        }
    }

    /// Whether the samples come from a terminal.
    fn typed(&self) -> bool {
        self.sources() == [None]
            && self.args.input_format != Some(InputFormat::Provider)
            && io::stdin().is_terminal()
    }

    fn sources(&self) -> Vec<Option<&Path>> {
        match &self.args.inputs[..] {
            [] => vec![None],
            files => files
                .iter()
                .map(|file| Some(file.as_path()).filter(|file| *file != Path::new("-")))
                .collect(),
        }
    }

    fn lines(&self, format: read::InputFormat, sink: &mut CommandOutput) -> anyhow::Result<u64> {
        let parser = Parser::new(format, &self.model.inputs, None)?;
        let first = self.model.inputs.first();
        let name = first.map(|input| input.slot.name.clone());
        let mut header: Vec<String> = name.into_iter().collect();
        let by_keys = format == read::InputFormat::JsonLines;
        let batch = if self.typed() { 1 } else { self.batch };
        let mut samples = 0;
        for (at, path) in self.sources().into_iter().enumerate() {
            let mut cutter = Cutter::lines(&name_of(path), reader(path)?, batch);
            let mut begin = match self.args.keep && at == 0 {
                true => cutter.next_piece()?,
                false => None,
            };
            if by_keys && let Some(piece) = &begin {
                header = piece.keys();
            }
            if at == 0 && !(by_keys && self.format == write::OutputFormat::JsonLines) {
                self.check_kept(&header)?;
            }
            let keep = self.args.keep.then_some(&header[..]);
            let mut next = || {
                let piece = match begin.take() {
                    None => cutter.next_piece()?,
                    begin => begin,
                };
                Ok(piece.map(PipelineWork::Piece))
            };
            samples += self.stream(&self.plan(Some(&parser), keep), &mut next, sink, at)?;
        }
        Ok(samples)
    }

    fn csv(&self, sink: &mut CommandOutput) -> anyhow::Result<u64> {
        let (mut samples, mut first) = (0, Vec::new());
        for (at, path) in self.sources().into_iter().enumerate() {
            let name = name_of(path);
            let (mut cutter, header) =
                Cutter::csv(&name, reader(path)?, self.separator, self.batch)?;
            let parser = Parser::new(read::InputFormat::Csv, &self.model.inputs, Some(&header))
                .with_context(|| name.clone())?;
            if at == 0 {
                self.check_kept(&header)?;
                first.clone_from(&header);
            } else if self.args.keep && header != first {
                anyhow::bail!(
                    "{name} has another header than the first input; --keep needs equal ones"
                );
            }
            let keep = self.args.keep.then_some(&header[..]);
            let mut next = || Ok(cutter.next_piece()?.map(PipelineWork::Piece));
            samples += self.stream(&self.plan(Some(&parser), keep), &mut next, sink, at)?;
        }
        Ok(samples)
    }

    /// With `--keep`, no column of the input may have the name of a column of the result.
    fn check_kept(&self, header: &[String]) -> anyhow::Result<()> {
        let outputs = &self.model.outputs;
        let twice = |column: &&String| match self.format {
            write::OutputFormat::Csv => outputs.iter().any(|output| output.has_column(column)),
            write::OutputFormat::JsonLines => outputs.iter().any(|output| output.name == **column),
            write::OutputFormat::V1 => false,
        };
        match header.iter().find(twice).filter(|_| self.args.keep) {
            None => Ok(()),
            Some(column) => anyhow::bail!(
                "--keep: the input's column '{column}' has the name of one of the result; rename it, or leave out --keep"
            ),
        }
    }

    fn provider(&self, sink: &mut CommandOutput) -> anyhow::Result<u64> {
        if self.sources().contains(&None) && !self.args.inputs.is_empty() {
            anyhow::bail!("--input-format provider reads files, not standard input: name a file");
        }
        let files = self.args.inputs.iter().map(|file| {
            // Providers run in the job folder.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            file.to_string_lossy().into_owned()
        });
        let OpenedProvider { mut source, slots } = self.model.provider(files.collect())?;
        source.start_pass(0, 0);
        let mut first = 1;
        let mut next = || {
            let Some(mut batch) = source.next_batch()? else {
                return Ok(None);
            };
            batch.slots = slots.iter().map(|at| batch.slots[*at].clone()).collect();
            let number = first;
            first += batch.samples as u64;
            Ok(Some(PipelineWork::Batch(number, batch)))
        };
        self.stream(&self.plan(None, None), &mut next, sink, 0)
    }

    fn stream(
        &self,
        plan: &PipelinePlan<'_>,
        next: &mut dyn FnMut() -> Result<Option<PipelineWork>, PredictError>,
        sink: &mut CommandOutput,
        at: usize,
    ) -> anyhow::Result<u64> {
        // Of several inputs only the first has a header.
        let mut header = at > 0 && plan.format == write::OutputFormat::Csv;
        let samples = pipeline::run(plan, next, &mut |text| {
            if std::mem::take(&mut header) {
                return Ok(());
            }
            let written = sink.write_all(text);
            let written = written.and_then(|()| {
                if plan.one_by_one {
                    sink.flush()
                } else {
                    Ok(())
                }
            });
            written.map_err(|source| PredictError::Write {
                path: sink.name().to_owned(),
                source,
            })
        });
        if samples.is_err() {
            sink.flush()?;
        }
        Ok(samples?)
    }
}

fn name_of(path: Option<&Path>) -> String {
    path.map_or("standard input".to_owned(), |path| {
        path.display().to_string()
    })
}

/// Opens an input; what gzip compressed is unpacked, whatever its name is.
fn reader(path: Option<&Path>) -> anyhow::Result<Box<dyn BufRead>> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    let mut plain: Box<dyn BufRead> = match path {
        // On a terminal nothing has been typed yet that could be inspected.
        None if io::stdin().is_terminal() => return Ok(Box::new(io::stdin().lock())),
        None => Box::new(io::stdin().lock()),
        Some(path) => {
            let file = File::open(path).with_context(|| format!("read {}", path.display()))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        }
    };
    let begin = plain
        .fill_buf()
        .with_context(|| format!("read {}", name_of(path)))?;
    Ok(match begin.starts_with(GZIP) {
        true => Box::new(BufReader::with_capacity(
            1 << 20,
            flate2::bufread::MultiGzDecoder::new(plain),
        )),
        false => plain,
    })
}

/// Whether two paths lead to the same file, also through links.
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((file(a), file(b)), (Ok(a), Ok(b)) if a == b)
}
