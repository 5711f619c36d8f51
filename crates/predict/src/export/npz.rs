//! npz, NumPy's archive: an array per parameter. `names` has pairs of readable name and v1's, and `NAME.rows` the words of
//! the rows of a parameter that has words.

use std::io::Write;
use std::path::Path;

use super::{ListedParameter, failed, written};
use crate::error::PredictError;
use crate::model::Model;

/// Writes all parameters of a model that was opened whole.
pub fn write(model: &Model, listed: &[ListedParameter], path: &Path) -> Result<(), PredictError> {
    written(path, |out| {
        let failed = |source: std::io::Error| failed(path, source);
        let mut archive = zip::ZipWriter::new(out);
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .large_file(true);
        let zipped = |error: zip::result::ZipError| failed(std::io::Error::other(error));
        for each in listed {
            archive
                .start_file(format!("{}.npy", each.readable), options)
                .map_err(zipped)?;
            archive
                .write_all(&header("<f4", &each.shape))
                .map_err(failed)?;
            model.each_chunk(each.at, &mut |values| {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                archive.write_all(&bytes).map_err(failed)
            })?;
            if let Some(words) = &each.rows {
                archive
                    .start_file(format!("{}.rows.npy", each.readable), options)
                    .map_err(zipped)?;
                let words: Vec<&str> = words.words().iter().map(String::as_str).collect();
                archive
                    .write_all(&text_array(&words, &[words.len()]))
                    .map_err(failed)?;
            }
        }
        archive.start_file("names.npy", options).map_err(zipped)?;
        let pairs = listed
            .iter()
            .flat_map(|e| [e.readable.as_str(), e.name.as_str()]);
        let pairs: Vec<&str> = pairs.collect();
        archive
            .write_all(&text_array(&pairs, &[listed.len(), 2]))
            .map_err(failed)?;
        archive.finish().map_err(zipped)?;
        Ok(())
    })
}

/// The header of a version 1.0 npy file, padded with blanks to a multiple of 64 bytes.
pub fn header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(u16::try_from(padded).unwrap_or(u16::MAX).to_le_bytes());
    header.extend(format!("{text:<width$}\n", width = padded - 1).bytes());
    header
}

/// Text as NumPy stores it: so many characters of four bytes each.
fn text_array(texts: &[&str], shape: &[usize]) -> Vec<u8> {
    let width = texts
        .iter()
        .map(|t| t.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let mut bytes = header(&format!("<U{width}"), shape);
    for text in texts {
        let padding = width - text.chars().count();
        let characters = text.chars().map(u32::from);
        let padded = characters.chain(std::iter::repeat_n(0, padding));
        bytes.extend(padded.flat_map(u32::to_le_bytes));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_npy_header_is_aligned() {
        for shape in [&[30001usize, 2][..], &[7], &[]] {
            let header = header("<f4", shape);
            assert_eq!(header.len() % 64, 0);
            assert_eq!(header.last(), Some(&b'\n'));
            let length = usize::from(u16::from_le_bytes([header[8], header[9]]));
            assert_eq!(length + 10, header.len());
        }
    }
}
