//! How values are written in a payload: as they are, or in 16 bits.
//!
//! `f32` is exact and the default. `f16` and `bf16` halve the bytes and round to nearest even; results are then
//! still reproducible, but no longer equal to those of one process.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// A number format of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Encoding {
    /// 32-bit floats, little-endian.
    #[default]
    F32 = 0,
    /// IEEE half precision: 11 significant bits, up to 65504.
    F16 = 1,
    /// bfloat16: 8 significant bits, the range of `f32`.
    Bf16 = 2,
}

impl Encoding {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::F32),
            1 => Some(Self::F16),
            2 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Bytes per value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Writes `values` into `out`, which holds `values.len()` 16-bit words. Only for the 16-bit encodings.
    pub(crate) fn narrow(self, values: &[f32], out: &mut [u16]) {
        match self {
            Self::F32 => unreachable!("f32 travels as it is"),
            Self::F16 => bytemuck::cast_slice_mut::<u16, f16>(out).convert_from_f32_slice(values),
            Self::Bf16 => bytemuck::cast_slice_mut::<u16, bf16>(out).convert_from_f32_slice(values),
        }
    }

    /// Reads 16-bit words back. Only for the 16-bit encodings.
    pub(crate) fn widen(self, words: &[u16], out: &mut [f32]) {
        match self {
            Self::F32 => unreachable!("f32 travels as it is"),
            Self::F16 => bytemuck::cast_slice::<u16, f16>(words).convert_to_f32_slice(out),
            Self::Bf16 => bytemuck::cast_slice::<u16, bf16>(words).convert_to_f32_slice(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_keep_what_they_can() {
        let values = [0.0_f32, 1.0, -2.5, 65504.0, 1.0e-3];
        for (encoding, bound) in [(Encoding::F16, 5.0e-4), (Encoding::Bf16, 4.0e-3)] {
            let mut words = [0_u16; 5];
            encoding.narrow(&values, &mut words);
            let mut back = [9.0_f32; 5];
            encoding.widen(&words, &mut back);
            for (was, is) in values.iter().zip(back) {
                assert!(
                    (was - is).abs() <= bound * was.abs(),
                    "{encoding:?}: {was} became {is}"
                );
            }
        }
    }
}
