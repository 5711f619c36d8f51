//! Writes the values of a safetensors or npz file into a pass directory, to start from a model of another program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::names;
use crate::error::PredictError;

/// The arrays of a file, by name.
pub type Arrays = BTreeMap<String, Array>;

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedFile {
    /// Arrays of floats.
    pub arrays: Arrays,
    /// Other arrays, with the type of their elements: counters and texts are no parameters.
    pub others: BTreeMap<String, String>,
}

/// One array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Vec<f32>,
}

fn bad(path: &Path, reason: impl Into<String>) -> PredictError {
    PredictError::Import {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Reads all arrays of numbers of a file; its ending says the format.
pub fn read(path: &Path) -> Result<ImportedFile, PredictError> {
    let ending = path
        .extension()
        .map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("safetensors") => read_safetensors(path),
        Some("npz") => read_npz(path),
        _ => Err(bad(path, "the ending must be .safetensors or .npz")),
    }
}

fn read_safetensors(path: &Path) -> Result<ImportedFile, PredictError> {
    let bytes = std::fs::read(path).map_err(|source| PredictError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| bad(path, error.to_string()))?;
    let mut read = ImportedFile::default();
    for (name, view) in file.tensors() {
        let data = view.data();
        let values = match view.dtype() {
            Dtype::F32 => floats::<4>(data, f32::from_le_bytes),
            Dtype::F64 => floats::<8>(data, |b| f64::from_le_bytes(b) as f32),
            Dtype::F16 => floats::<2>(data, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => floats::<2>(data, |b| bf16::from_le_bytes(b).to_f32()),
            other => {
                read.others.insert(name, format!("{other:?}"));
                continue;
            }
        };
        let shape = view.shape().to_vec();
        read.arrays.insert(name, Array { shape, values });
    }
    Ok(read)
}

fn floats<const N: usize>(data: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    data.as_chunks::<N>()
        .0
        .iter()
        .map(|b| convert(*b))
        .collect()
}

fn read_npz(path: &Path) -> Result<ImportedFile, PredictError> {
    let file = File::open(path).map_err(|source| PredictError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut archive = zip::ZipArchive::new(file).map_err(|error| bad(path, error.to_string()))?;
    let mut read = ImportedFile::default();
    for at in 0..archive.len() {
        let mut entry = archive
            .by_index(at)
            .map_err(|error| bad(path, error.to_string()))?;
        let name = entry.name().map_err(|error| bad(path, error.to_string()))?;
        let name = name.trim_end_matches(".npy").to_owned();
        // An archive that unpacks to more than a thousand times its size is not a model.
        if entry.size() > size.saturating_mul(1000) {
            return Err(bad(
                path,
                format!("array '{name}' claims {} bytes", entry.size()),
            ));
        }
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .map_err(|error| bad(path, format!("array '{name}': {error}")))?;
        match npy(&bytes) {
            Ok(NpyContent::Floats(array)) => {
                read.arrays.insert(name, array);
            }
            Ok(NpyContent::Other(kind)) => {
                read.others.insert(name, kind);
            }
            Err(reason) => return Err(bad(path, format!("array '{name}': {reason}"))),
        }
    }
    Ok(read)
}

/// What an npy file has.
#[derive(Debug, PartialEq)]
enum NpyContent {
    Floats(Array),
    /// Elements of another type, by NumPy's name for it.
    Other(String),
}

/// An npy file.
fn npy(bytes: &[u8]) -> Result<NpyContent, String> {
    let version = bytes.get(6).copied();
    if !bytes.starts_with(b"\x93NUMPY") || bytes.len() < 12 {
        return Err("it is not an array of NumPy".to_owned());
    }
    let (length, start): (usize, usize) = match version {
        Some(1) => (usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), 10),
        _ => {
            let four = [bytes[8], bytes[9], bytes[10], bytes[11]];
            (u32::from_le_bytes(four) as usize, 12)
        }
    };
    let header = bytes
        .get(start..start.saturating_add(length))
        .ok_or("its header is cut off")?;
    let header = String::from_utf8_lossy(header);
    let after = |key: &str| {
        header
            .split_once(key)
            .map(|(_, rest)| rest.trim_start_matches([':', ' ']))
    };
    let kind = after("'descr'")
        .and_then(|rest| rest.split('\'').nth(1))
        .unwrap_or("");
    if !["<f4", "<f8", "<f2"].contains(&kind) {
        return Ok(NpyContent::Other(kind.to_owned()));
    }
    if after("'fortran_order'").is_some_and(|rest| rest.starts_with("True")) {
        return Err("it is in Fortran order; save numpy.ascontiguousarray of it".to_owned());
    }
    let shape = after("'shape'").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
    let shape = shape.ok_or("its header has no shape")?;
    let shape: Result<Vec<usize>, _> = shape
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty())
        .map(str::parse)
        .collect();
    let shape = shape.map_err(|_| "its shape cannot be read".to_owned())?;
    let data = &bytes[start + length..];
    let values = match kind {
        "<f4" => floats::<4>(data, f32::from_le_bytes),
        "<f8" => floats::<8>(data, |b| f64::from_le_bytes(b) as f32),
        _ => floats::<2>(data, |b| f16::from_le_bytes(b).to_f32()),
    };
    let want = shape
        .iter()
        .try_fold(1usize, |n, size| n.checked_mul(*size));
    if want != Some(values.len()) {
        return Err(format!(
            "{} values do not have the shape {shape:?}",
            values.len()
        ));
    }
    Ok(NpyContent::Floats(Array { shape, values }))
}

/// A parameter that the model needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedParameter {
    /// v1's name.
    pub name: String,
    /// As the configuration describes it.
    pub shape: Vec<usize>,
}

/// The arrays of a file, matched with the parameters of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Matched {
    /// The values of every wanted parameter, with v1's name.
    pub found: Vec<(String, Vec<f32>)>,
    /// The arrays that no parameter wants.
    pub unused: Vec<String>,
}

/// Finds the values of every wanted parameter, by readable name or v1's.
pub fn matched(
    path: &Path,
    file: ImportedFile,
    wanted: &[WantedParameter],
) -> Result<Matched, PredictError> {
    let readable = names::readable(wanted.iter().map(|each| each.name.as_str()));
    let ImportedFile { mut arrays, others } = file;
    let mut found = Vec::new();
    for (each, readable) in wanted.iter().zip(&readable) {
        let names = [readable, &each.name];
        if arrays.contains_key(readable)
            && arrays.contains_key(&each.name)
            && readable != &each.name
        {
            let reason = format!(
                "arrays '{readable}' and '{}' are the same parameter; leave one of them out",
                each.name
            );
            return Err(bad(path, reason));
        }
        let array = names.iter().find_map(|name| arrays.remove(*name));
        let array = array.ok_or_else(|| {
            let other = names.iter().find_map(|name| Some((name, others.get(*name)?)));
            let reason = match other {
                Some((name, kind)) => format!(
                    "array '{name}' has elements of the type {kind}; save it as 32-bit floats (little-endian)"
                ),
                None => format!("it has no array '{readable}' (v1's name is {})", each.name),
            };
            bad(path, reason)
        })?;
        let squeezed = |shape: &[usize]| -> Vec<usize> {
            shape.iter().copied().filter(|size| *size != 1).collect()
        };
        if squeezed(&array.shape) != squeezed(&each.shape) {
            return Err(bad(
                path,
                format!(
                    "array '{readable}' has the shape {:?}, the parameter has {:?}; transpose it if it comes from a program that stores weights the other way around",
                    array.shape, each.shape
                ),
            ));
        }
        if array.values.iter().any(|value| !value.is_finite()) {
            let reason = format!(
                "array '{readable}' has a NaN, an infinity or a number that is too large for 32 bits"
            );
            return Err(bad(path, reason));
        }
        found.push((each.name.clone(), array.values));
    }
    Ok(Matched {
        found,
        unused: arrays.into_keys().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::npz::header;

    fn file(kind: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
        [header(kind, shape), data.to_vec()].concat()
    }

    #[test]
    fn arrays_of_numpy_are_read_and_wrong_ones_refused() {
        let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = Array {
            shape: vec![2, 1],
            values: vec![1.0, 2.0],
        };
        let got = npy(&file("<f4", &[2, 1], &data)).unwrap();
        assert_eq!(got, NpyContent::Floats(array));
        for kind in ["<U3", "<i8", ">f4", "|O"] {
            let got = npy(&file(kind, &[1], &[0; 12])).unwrap();
            assert_eq!(got, NpyContent::Other(kind.to_owned()));
        }
        assert!(npy(&file("<f4", &[3], &data)).is_err());
        assert!(npy(b"PK\x03\x04").is_err());
        let good = file("<f4", &[2], &data);
        for length in 0..good.len() {
            let _ = npy(&good[..length]);
        }
    }

    #[test]
    fn parameters_are_matched_by_either_name_and_by_shape() {
        let array = |shape: &[usize]| Array {
            shape: shape.to_vec(),
            values: vec![0.5; shape.iter().product()],
        };
        let wanted = [
            WantedParameter {
                name: "___fc_layer_0__.w0".into(),
                shape: vec![2, 3],
            },
            WantedParameter {
                name: "_b.wbias".into(),
                shape: vec![3],
            },
        ];
        let arrays = Arrays::from([
            ("fc_layer_0.weight".to_owned(), array(&[2, 3])),
            ("_b.wbias".to_owned(), array(&[1, 3])),
            ("step".to_owned(), array(&[1])),
        ]);
        let path = Path::new("m.npz");
        let matched = |arrays: Arrays| {
            let others = BTreeMap::from([("b.bias".to_owned(), "<i8".to_owned())]);
            matched(path, ImportedFile { arrays, others }, &wanted)
        };
        let Matched { found, unused } = matched(arrays.clone()).unwrap();
        assert_eq!((found.len(), unused), (2, vec!["step".to_owned()]));
        let mut turned = arrays.clone();
        turned.insert("fc_layer_0.weight".to_owned(), array(&[3, 2]));
        let error = matched(turned).unwrap_err().to_string();
        assert!(
            error.contains("[3, 2]") && error.contains("[2, 3]"),
            "{error}"
        );
        let mut twice = arrays.clone();
        twice.insert("b.bias".to_owned(), array(&[3]));
        let error = matched(twice).unwrap_err().to_string();
        assert!(
            error.contains("'b.bias' and '_b.wbias' are the same"),
            "{error}"
        );
        let mut large = arrays.clone();
        let array = large.get_mut("_b.wbias").unwrap();
        array.values[0] = 1e300f64 as f32;
        let error = matched(large).unwrap_err().to_string();
        assert!(error.contains("too large for 32 bits"), "{error}");
        let mut fewer = arrays.clone();
        fewer.remove("_b.wbias");
        let error = matched(fewer).unwrap_err().to_string();
        assert!(
            error.contains("'b.bias' has elements of the type <i8"),
            "{error}"
        );
        let mut fewer = arrays;
        fewer.remove("fc_layer_0.weight");
        let error = matched(fewer).unwrap_err().to_string();
        assert!(
            error.contains("it has no array 'fc_layer_0.weight'"),
            "{error}"
        );
    }
}
