//! Where a command writes its result: standard output, or a file that appears when it is complete. A file whose name ends
//! with `.gz` is compressed.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use trainer::output_file::OutputFile;

/// Names of standard output.
const STANDARD: [&str; 2] = ["-", "/dev/stdout"];

/// An output of a command.
pub(crate) struct CommandOutput {
    out: BufWriter<OutputTarget>,
    name: String,
}

enum OutputTarget {
    Standard(Stdout),
    File(OutputFile),
    Packed(Box<GzEncoder<OutputFile>>),
}

impl Write for OutputTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File(out) => out.write(bytes),
            Self::Packed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File(out) => out.flush(),
            Self::Packed(out) => out.flush(),
        }
    }
}

/// Whether the value of `--to` means standard output: a name of [`STANDARD`], or no value.
pub(crate) fn is_standard(to: Option<&Path>) -> bool {
    to.is_none_or(|path| STANDARD.iter().any(|name| path == Path::new(name)))
}

impl CommandOutput {
    /// Opens the output that `--to` names.
    pub(crate) fn open(to: Option<&Path>) -> anyhow::Result<Self> {
        let (target, name) = match to.filter(|to| !is_standard(Some(to))) {
            None => (
                OutputTarget::Standard(io::stdout()),
                "standard output".into(),
            ),
            Some(path) => {
                let name = path.display().to_string();
                let file = OutputFile::create(path).with_context(|| format!("write {name}"))?;
                let target = match path.extension().is_some_and(|ending| ending == "gz") {
                    true => {
                        let packed = GzEncoder::new(file, Compression::default());
                        OutputTarget::Packed(Box::new(packed))
                    }
                    false => OutputTarget::File(file),
                };
                (target, name)
            }
        };
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, target),
            name,
        })
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Passes the result of a write on; ends the program silently if the output is a pipe whose reader has closed it.
    fn checked<T>(&self, written: io::Result<T>) -> io::Result<T> {
        match (written, self.out.get_ref()) {
            (Err(error), OutputTarget::Standard(_))
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                crate::pipe::nobody_reads()
            }
            (written, _) => written,
        }
    }

    /// Ends the output, which is complete; a file gets its name.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.flush()?;
        match self
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?
        {
            OutputTarget::Standard(_) => Ok(()),
            OutputTarget::File(file) => file.commit(),
            OutputTarget::Packed(packed) => packed.finish()?.commit(),
        }
    }
}

impl Write for CommandOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.checked(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.checked(flushed)
    }
}

/// Writes a text to where `--to` says.
pub(crate) fn write(to: Option<&Path>, text: &str) -> anyhow::Result<()> {
    let mut sink = CommandOutput::open(to)?;
    let failed = format!("write {}", sink.name());
    sink.write_all(text.as_bytes())
        .and_then(|()| sink.close())
        .context(failed)
}
