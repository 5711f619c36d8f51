//! The canoe binary that `canoe job submit` uploads when the job's image has none: its processor architecture and
//! SHA-256.
//!
//! Usually it is the binary that runs `canoe job submit`. On a laptop without Linux another file has to be named; its
//! architecture is read from its ELF header.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// Name of the file on the volume and in pods.
pub const FILE: &str = "canoe";

/// Processors that the program runs on, as Kubernetes labels machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// The value of the label `kubernetes.io/arch`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A program that pods run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
    /// Where it runs.
    pub architecture: Architecture,
}

/// Why a file cannot be the program of a job.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ProgramError {
    /// It cannot be read.
    #[error("read the program {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// It is not a 64-bit Linux program for x86-64 or ARM.
    #[error(
        "{path} is {what}, and pods need a Linux program: name the canoe of a Linux release (canoe-VERSION-x86_64-linux.tar.gz, unpacked) with --binary FILE, or an image that has it with `image`"
    )]
    NotLinux {
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
}

impl Program {
    /// Reads the architecture and the checksum of a file.
    pub fn of(path: &Path) -> Result<Self, ProgramError> {
        let failed = |source| ProgramError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut head = Vec::new();
        file.by_ref()
            .take(64)
            .read_to_end(&mut head)
            .map_err(failed)?;
        let architecture = architecture(&head).map_err(|what| ProgramError::NotLinux {
            path: path.to_owned(),
            what,
        })?;
        let mut sum = Context::new(&SHA256);
        sum.update(&head);
        let mut piece = vec![0; 1 << 18];
        loop {
            match file.read(&mut piece).map_err(failed)? {
                0 => break,
                count => sum.update(&piece[..count]),
            }
        }
        let sum = sum.finish();
        let sha256 = sum.as_ref().iter();
        Ok(Self {
            sha256: sha256.map(|byte| format!("{byte:02x}")).collect(),
            architecture,
        })
    }

    /// Where it is in the job's folder on the volume. The folder is hidden: nothing that lists data or output sees it.
    pub fn folder(&self) -> String {
        format!(".canoe/{}", self.sha256)
    }
}

/// The architecture according to the first bytes of a file; `Err` names what it is instead of a 64-bit Linux program.
fn architecture(head: &[u8]) -> Result<Architecture, &'static str> {
    match head.get(..4) {
        Some([0x7f, b'E', b'L', b'F']) => {}
        Some([0xcf | 0xce, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe]) => {
            return Err("a macOS program");
        }
        Some([b'M', b'Z', ..]) => return Err("a Windows program"),
        Some([0x1f, 0x8b, ..]) => return Err("an archive"),
        _ => return Err("no program"),
    }
    let byte = |at: usize| head.get(at).copied().unwrap_or_default();
    let is_elf64 = byte(4) == 2 && byte(5) == 1;
    let runs = matches!(byte(16), 2 | 3);
    match (is_elf64 && runs, byte(18), byte(19)) {
        (true, 62, 0) => Ok(Architecture::Amd64),
        (true, 183, 0) => Ok(Architecture::Arm64),
        _ => Err("a program for other processors than x86-64 and 64-bit ARM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        head[16] = 3;
        head[18] = machine;
        head
    }

    #[test]
    fn the_head_says_where_a_program_runs() {
        assert_eq!(architecture(&elf(62)), Ok(Architecture::Amd64));
        assert_eq!(architecture(&elf(183)), Ok(Architecture::Arm64));
        assert!(architecture(&elf(40)).unwrap_err().contains("x86-64"));
        let mut object = elf(62);
        object[16] = 1;
        assert!(architecture(&object).is_err());
        assert_eq!(
            architecture(&[0xcf, 0xfa, 0xed, 0xfe, 7]),
            Err("a macOS program")
        );
        assert_eq!(architecture(b"MZ\x90\0"), Err("a Windows program"));
        assert_eq!(architecture(b"#!/bin/sh\n"), Err("no program"));
        assert_eq!(architecture(b""), Err("no program"));
        assert!(architecture(b"\x7fELF").is_err());
    }

    #[test]
    fn what_is_no_linux_program_is_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("canoe");
        std::fs::write(&path, [0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1]).unwrap();
        let error = Program::of(&path).unwrap_err().to_string();
        assert!(
            error.contains("is a macOS program")
                && error.contains("--binary FILE")
                && error.contains("linux.tar.gz"),
            "{error}"
        );
        let own = Program::of(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.sha256.len(), 64);
        assert!(Program::of(&folder.path().join("none")).is_err());
        std::fs::write(&path, elf(62)).unwrap();
        let program = Program::of(&path).unwrap();
        assert_eq!(program.architecture.label(), "amd64");
        assert_eq!(program.folder(), format!(".canoe/{}", program.sha256));
    }
}
