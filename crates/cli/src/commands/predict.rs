//! `canoe predict MODEL [INPUT…]`: samples in, outputs out, in the same order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use predict::model::OpenedProvider;
use predict::pipeline::{self, PipelinePlan, PipelineWork};
use predict::read::{self, Cutter, Parser};
use predict::{Model, PredictError, write};

use super::opening::OpenArgs;
use crate::exit::Exit;

/// Arguments of `canoe predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Files with samples; without one, standard input.
    inputs: Vec<PathBuf>,
    /// How the samples are written; by default what the file's ending says (.csv, .jsonl), else text.
    #[arg(long, value_enum)]
    input_format: Option<InputFormat>,
    /// How outputs are written; by default as the input, and CSV for text.
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// The file to write; it appears when it is complete. By default standard output.
    #[arg(long, short = 'o', value_name = "FILE")]
    to: Option<PathBuf>,
    /// The character between the fields of CSV.
    #[arg(long, default_value = ",")]
    separator: String,
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
        None if given == InputFormat::Jsonl => write::OutputFormat::JsonLines,
        None => write::OutputFormat::Csv,
    };
    let mut sink = Sink::open(args.to.as_deref(), &args.inputs)?;
    let job = Job {
        args: &args,
        model: &model,
        format,
        threads,
        batch: args.batch_size.unwrap_or(model.batch_size.max(32)).max(1),
    };
    let samples = match given {
        InputFormat::Provider => job.provider(&mut sink)?,
        InputFormat::Text => job.lines(read::InputFormat::Text, &mut sink)?,
        InputFormat::Jsonl => job.lines(read::InputFormat::JsonLines, &mut sink)?,
        InputFormat::Csv => job.csv(&mut sink)?,
    };
    sink.close()?;
    if let Some(file) = &args.to {
        eprintln!("{}: {samples} samples", file.display());
    }
    Ok(Exit::Success)
}

/// What the user said, or what the endings of the files say.
fn input_format(args: &PredictArgs) -> anyhow::Result<InputFormat> {
    if let Some(format) = args.input_format {
        return Ok(format);
    }
    let of = |path: &PathBuf| {
        let plain = match path.extension().is_some_and(|ending| ending == "gz") {
            true => path.with_extension(""),
            false => path.clone(),
        };
        match plain.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => InputFormat::Csv,
            Some("jsonl" | "ndjson") => InputFormat::Jsonl,
            _ => InputFormat::Text,
        }
    };
    let mut formats: Vec<InputFormat> = args.inputs.iter().map(of).collect();
    formats.dedup();
    match formats[..] {
        [] => Ok(InputFormat::Text),
        [one] => Ok(one),
        _ => anyhow::bail!(
            "the inputs have different endings; say with --input-format how they are written"
        ),
    }
}

/// What all kinds of input need.
struct Job<'a> {
    args: &'a PredictArgs,
    model: &'a Model,
    format: write::OutputFormat,
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
            threads: self.threads,
            one_by_one: self.typed(),
        }
    }

    /// Whether somebody types the samples.
    fn typed(&self) -> bool {
        self.args.inputs.is_empty()
            && self.args.input_format != Some(InputFormat::Provider)
            && io::stdin().is_terminal()
    }

    fn sources(&self) -> Vec<Option<&Path>> {
        match &self.args.inputs[..] {
            [] => vec![None],
            files => files.iter().map(|file| Some(file.as_path())).collect(),
        }
    }

    fn lines(&self, format: read::InputFormat, sink: &mut Sink) -> anyhow::Result<u64> {
        let parser = Parser::new(format, &self.model.inputs, None)?;
        let name = self
            .model
            .inputs
            .first()
            .map(|input| input.slot.name.clone());
        let header: Vec<String> = name.into_iter().collect();
        let keep = self.args.keep.then_some(&header[..]);
        let batch = if self.typed() { 1 } else { self.batch };
        let mut samples = 0;
        for (at, path) in self.sources().into_iter().enumerate() {
            let mut cutter = Cutter::lines(&name_of(path), reader(path)?, batch);
            let mut next = || Ok(cutter.next_piece()?.map(PipelineWork::Piece));
            samples += self.stream(&self.plan(Some(&parser), keep), &mut next, sink, at)?;
        }
        Ok(samples)
    }

    fn csv(&self, sink: &mut Sink) -> anyhow::Result<u64> {
        let separator = match self.args.separator.as_bytes() {
            b"\\t" => b'\t',
            [one] => *one,
            _ => anyhow::bail!(
                "--separator {}: one character is expected",
                self.args.separator
            ),
        };
        let (mut samples, mut first) = (0, Vec::new());
        for (at, path) in self.sources().into_iter().enumerate() {
            let name = name_of(path);
            let (mut cutter, header) = Cutter::csv(&name, reader(path)?, separator, self.batch)?;
            let parser = Parser::new(read::InputFormat::Csv, &self.model.inputs, Some(&header))
                .with_context(|| name.clone())?;
            if at == 0 {
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

    fn provider(&self, sink: &mut Sink) -> anyhow::Result<u64> {
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
        sink: &mut Sink,
        at: usize,
    ) -> anyhow::Result<u64> {
        // Of several inputs only the first has a header.
        let mut header = at > 0 && plan.format == write::OutputFormat::Csv;
        let samples = pipeline::run(plan, next, &mut |text| {
            if std::mem::take(&mut header) {
                return Ok(());
            }
            sink.write(text, plan.one_by_one)
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
        // A terminal has nothing yet to look at.
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

/// Where outputs go: standard output, or a file that appears when it is complete.
struct Sink {
    out: BufWriter<Box<dyn Write>>,
    name: String,
    target: Option<(PathBuf, PathBuf)>,
}

impl Sink {
    fn open(to: Option<&Path>, inputs: &[PathBuf]) -> anyhow::Result<Self> {
        let same = |input: &&PathBuf| to.is_some_and(|to| is_same(to, input));
        if let Some(input) = inputs.iter().find(same) {
            anyhow::bail!(
                "--to {} would replace an input; choose another name (--keep writes the fields of the input too)",
                input.display()
            );
        }
        let (out, name, target): (Box<dyn Write>, _, _) = match to {
            None => (Box::new(io::stdout()), "standard output".to_owned(), None),
            Some(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let part = path.with_file_name(format!(".{name}.part"));
                let file =
                    File::create(&part).with_context(|| format!("write {}", part.display()))?;
                let target = Some((part, path.to_owned()));
                (Box::new(file), path.display().to_string(), target)
            }
        };
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, out),
            name,
            target,
        })
    }

    fn failed(&self, source: io::Error) -> PredictError {
        if self.target.is_none() && source.kind() == io::ErrorKind::BrokenPipe {
            crate::pipe::nobody_reads();
        }
        PredictError::Write {
            path: self.name.clone(),
            source,
        }
    }

    fn write(&mut self, text: &[u8], at_once: bool) -> Result<(), PredictError> {
        let written = self.out.write_all(text);
        let written = written.and_then(|()| if at_once { self.out.flush() } else { Ok(()) });
        written.map_err(|error| self.failed(error))
    }

    fn flush(&mut self) -> Result<(), PredictError> {
        let flushed = self.out.flush();
        flushed.map_err(|error| self.failed(error))
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Some((part, path)) = &self.target {
            std::fs::rename(part, path).with_context(|| format!("write {}", path.display()))?;
        }
        self.target = None;
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.target {
            // An incomplete file is of no use, and nobody would find it.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Whether two names are of one file, also through links.
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((file(a), file(b)), (Ok(a), Ok(b)) if a == b)
}
