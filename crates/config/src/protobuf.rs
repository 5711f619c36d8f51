//! Protobuf's encoding of fields, as far as files of v1 need it.
//!
//! A field is a key (`number << 3 | wire type`, a varint) and a value: a varint, eight or four bytes, or a length and
//! that many bytes. Every length is checked before it is used; nothing is allocated.

/// Wire type of integers and booleans.
pub const VARINT: u32 = 0;
/// Wire type of doubles.
pub(crate) const EIGHT_BYTES: u32 = 1;
/// Wire type of text, messages and packed lists.
pub const BYTES: u32 = 2;
/// Wire type of floats.
pub const FOUR_BYTES: u32 = 5;

/// Bytes end inside a field, or a field has a form that no message of v1 uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes end inside a field, or are not a protocol buffer")]
pub struct Cut;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldValue<'a> {
    /// An integer, in two's complement if it is negative.
    Varint(u64),
    /// Eight bytes, little-endian.
    Eight([u8; 8]),
    /// Four bytes, little-endian.
    Four([u8; 4]),
    /// Text, a message or a packed list.
    Bytes(&'a [u8]),
}

impl<'a> FieldValue<'a> {
    /// Takes a value of the given wire type from the front of `bytes`; `None` if they do not hold one.
    pub fn take(wire_type: u32, bytes: &mut &'a [u8]) -> Option<Self> {
        match wire_type {
            VARINT => take_varint(bytes).map(FieldValue::Varint),
            EIGHT_BYTES => take_array(bytes).map(FieldValue::Eight),
            FOUR_BYTES => take_array(bytes).map(FieldValue::Four),
            BYTES => {
                let length = usize::try_from(take_varint(bytes)?).ok()?;
                let (piece, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                Some(FieldValue::Bytes(piece))
            }
            _ => None,
        }
    }
}

/// The fields of a message in the order in which they stand: number and value. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, FieldValue<'a>), Cut>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let key = take_varint(&mut self.0);
        let piece =
            key.and_then(|key| Some((key >> 3, FieldValue::take(key as u32 & 7, &mut self.0)?)));
        if piece.is_none() {
            self.0 = &[];
        }
        Some(piece.ok_or(Cut))
    }
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

/// Takes a varint of at most ten bytes from the front of `bytes`.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_and_a_cut_ends_them() {
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f,
        ];
        let read: Vec<_> = Fields(&bytes).map(Result::unwrap).collect();
        let want = [
            (1, FieldValue::Varint(150)),
            (2, FieldValue::Bytes(b"hi")),
            (3, FieldValue::Four(1.0f32.to_le_bytes())),
        ];
        assert_eq!(read, want);
        for end in [1, 2, 4, 6, 9] {
            assert_eq!(Fields(&bytes[..end]).last(), Some(Err(Cut)), "{end}");
        }
        // Groups, and a varint that never ends.
        assert_eq!(Fields(&[0x0b]).next(), Some(Err(Cut)));
        assert_eq!(Fields(&[0xff; 20]).next(), Some(Err(Cut)));
    }
}
