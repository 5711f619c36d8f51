//! Reads one sample from JSON without a tree of values, which is fast; most requests to a server are such samples. Other
//! forms, and errors, are left to the general reader, which also explains what is wrong.

use nn::Batch;
use trainer::data::ElementKind;

use crate::sample::{Filling, InputField};

/// The batch of a body that is one object with exactly the inputs as keys; `None` if the general reader has to look at it.
pub fn fill_body(body: &[u8], fields: &[InputField]) -> Option<Batch> {
    let mut scan = Scan { bytes: body, at: 0 };
    let mut filling = Filling::new(fields);
    let (mut seen, mut ids, mut numbers) = (0u64, Vec::new(), Vec::new());
    if fields.is_empty() || fields.len() > 64 {
        return None;
    }
    scan.expect(b'{')?;
    for number in 0..fields.len() {
        if number > 0 {
            scan.expect(b',')?;
        }
        let name = scan.string()?;
        scan.expect(b':')?;
        let input = fields.iter().position(|field| field.slot.name == name)?;
        if seen & (1 << input) != 0 {
            return None;
        }
        seen |= 1 << input;
        let slot = &fields[input].slot;
        match (slot.kind, slot.level, scan.peek()?) {
            (ElementKind::Ids, 0 | 1, b'"') | (ElementKind::Binary, 0, b'"') => {
                filling.text(input, scan.string()?).ok()?;
            }
            (ElementKind::Ids, 0, _) => filling.ids(input, &[scan.id()?]).ok()?,
            (ElementKind::Ids, 1, _) | (ElementKind::Binary, 0, _) => {
                scan.list(&mut ids, Scan::id)?;
                filling.ids(input, &ids).ok()?;
            }
            (ElementKind::Dense, 0, b'[') => {
                scan.list(&mut numbers, Scan::number)?;
                filling.numbers(input, &numbers).ok()?;
            }
            (ElementKind::Dense, 0, _) => filling.numbers(input, &[scan.number()?]).ok()?,
            _ => return None,
        }
    }
    scan.expect(b'}')?;
    scan.blanks();
    if scan.at < body.len() {
        return None;
    }
    filling.end();
    Some(filling.finish())
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        if rest[length] != b'"' {
            return None;
        }
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).ok()
    }

    /// An integer that is not negative.
    fn id(&mut self) -> Option<i64> {
        self.blanks();
        let rest = &self.bytes[self.at..];
        let (mut value, mut length) = (0i64, 0);
        while let Some(digit @ b'0'..=b'9') = rest.get(length) {
            value = value * 10 + i64::from(digit - b'0');
            length += 1;
            if length > 18 {
                return None;
            }
        }
        let integer = !matches!(rest.get(length), Some(b'.' | b'e' | b'E'));
        if length == 0 || !integer || (length > 1 && rest[0] == b'0') {
            return None;
        }
        self.at += length;
        Some(value)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// A number as JSON writes it.
    fn number(&mut self) -> Option<f32> {
        self.blanks();
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let first = self.at;
        self.digits()?;
        if self.at - first > 1 && self.bytes[first] == b'0' {
            return None;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        // Parsed to 64 bits first, like the general reader, because rounding twice may differ from rounding once.
        text.parse::<f64>().ok().map(|number| number as f32)
    }

    fn list<T>(&mut self, values: &mut Vec<T>, one: impl Fn(&mut Self) -> Option<T>) -> Option<()> {
        values.clear();
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            values.push(one(self)?);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::{Dictionary, Unknown};
    use crate::read::fill_value;
    use proptest::prelude::*;
    use std::sync::Arc;
    use trainer::data::SlotType;

    fn fields() -> Vec<InputField> {
        let field = |name: &str, kind, level, dim, words: bool| InputField {
            slot: SlotType {
                name: name.into(),
                kind,
                level,
                dim,
                first: 0,
            },
            dictionary: words.then(|| {
                let words = ["unk", "good", "bad"].map(str::to_owned).to_vec();
                Arc::new(Dictionary::new(words, Unknown::Id(0)))
            }),
        };
        vec![
            field("w", ElementKind::Ids, 1, 9, true),
            field("i", ElementKind::Ids, 0, 9, false),
            field("d", ElementKind::Dense, 0, 2, false),
            field("b", ElementKind::Binary, 0, 9, false),
            field("one", ElementKind::Dense, 0, 1, false),
        ]
    }

    fn general(body: &[u8], fields: &[InputField]) -> Option<Batch> {
        let value = serde_json::from_slice(body).ok()?;
        let mut filling = Filling::new(fields);
        fill_value(&value, fields, &mut filling).ok()?;
        Some(filling.finish())
    }

    fn same(a: &Batch, b: &Batch) -> bool {
        a.samples == b.samples
            && a.slots.iter().zip(&b.slots).all(|(a, b)| {
                a.data == b.data && a.sequences == b.sequences && a.subsequences == b.subsequences
            })
    }

    #[test]
    fn simple_bodies_are_read_and_the_rest_is_left_to_the_general_reader() {
        let fields = fields();
        let good = [
            r#"{"w": [1, 2 ,0], "i": 3, "d": [1.5, -2e-1], "b": [], "one": 7}"#,
            " {\"one\":[0.1],\"d\":[0,1],\"i\":0,\"b\":[8,1],\"w\":\"good bad day\"}\r\n ",
        ];
        for body in good {
            let direct = fill_body(body.as_bytes(), &fields).unwrap();
            assert!(same(&direct, &general(body.as_bytes(), &fields).unwrap()));
        }
        for body in [
            "",
            "{",
            "{}",
            "[1]",
            r#"{"w": [1], "i": 3, "d": [1, 2], "b": []}"#,
            r#"{"w": [1], "i": 3, "d": [1, 2], "b": [], "one": 7, "more": 1}"#,
            r#"{"w": [1], "i": 3, "d": [1, 2], "b": [], "b": []}"#,
            r#"{"w": [9], "i": 3, "d": [1, 2], "b": [], "one": 7}"#,
            r#"{"w": [01], "i": 3, "d": [1, 2], "b": [], "one": 7}"#,
            r#"{"w": [1,], "i": 3, "d": [1, 2], "b": [], "one": 7}"#,
            r#"{"w": [1], "i": 3, "d": [1., 2], "b": [], "one": 7}"#,
            r#"{"w": [1], "i": 3, "d": [1e99, 2], "b": [], "one": 7}"#,
            r#"{"w": "a\n", "i": 3, "d": [1, 2], "b": [], "one": 7}"#,
            r#"{"w": [1], "i": 3, "d": [1, 2], "b": [], "one": 7} x"#,
        ] {
            assert!(fill_body(body.as_bytes(), &fields).is_none(), "{body}");
        }
    }

    proptest! {
        /// Whatever it accepts, the general reader accepts with the same result.
        #[test]
        fn it_agrees_with_the_general_reader(
            number in "-?[0-9]{1,4}(\\.[0-9]{0,3})?([eE][+-]?[0-9]{1,2})?",
            ids in "[0-9, ]{0,8}",
            text in "[a-z \\\\\"é\u{7f}]{0,6}",
            cut in 0..200usize,
            byte in any::<u8>(),
        ) {
            let fields = fields();
            let body = format!(
                r#"{{"w":"{text}","i":{},"d":[{number},1],"b":[{ids}],"one":{number}}}"#,
                ids.len()
            );
            let mut broken = body.clone().into_bytes();
            if let Some(place) = broken.get_mut(cut) {
                *place = byte;
            }
            for body in [body.as_bytes(), &broken[..]] {
                if let Some(direct) = fill_body(body, &fields) {
                    let general = general(body, &fields);
                    prop_assert!(general.is_some_and(|general| same(&direct, &general)));
                }
            }
        }
    }
}
