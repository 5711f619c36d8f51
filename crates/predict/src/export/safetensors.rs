//! safetensors: eight bytes of header length, a header of JSON, then the values. It is written without a copy of the
//! model in memory. The metadata has v1's name of every parameter (`v1:NAME`) and, as JSON lists, the words of the rows
//! of those that have words (`rows:NAME`).

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ListedParameter, failed, written};
use crate::error::PredictError;
use crate::model::Model;

/// Writes all parameters of a model that was opened whole.
pub fn write(model: &Model, listed: &[ListedParameter], path: &Path) -> Result<(), PredictError> {
    let header = header(listed);
    written(path, |out| {
        let failed = |source| failed(path, source);
        out.write_all(&(header.len() as u64).to_le_bytes())
            .and_then(|()| out.write_all(header.as_bytes()))
            .map_err(failed)?;
        for each in listed {
            model.each_chunk(each.at, &mut |values| {
                values
                    .iter()
                    .try_for_each(|value| out.write_all(&value.to_le_bytes()))
                    .map_err(failed)
            })?;
        }
        Ok(())
    })
}

fn header(listed: &[ListedParameter]) -> String {
    let mut header = Map::new();
    let mut metadata = Map::new();
    metadata.insert("format".into(), json!("canoe"));
    let mut start = 0;
    for each in listed {
        metadata.insert(format!("v1:{}", each.readable), json!(each.name));
        if let Some(words) = &each.rows {
            let words = serde_json::to_string(words.words()).unwrap_or_default();
            metadata.insert(format!("rows:{}", each.readable), json!(words));
        }
        let end = start + 4 * each.shape.iter().product::<usize>();
        let entry = json!({"dtype": "F32", "shape": each.shape, "data_offsets": [start, end]});
        header.insert(each.readable.clone(), entry);
        start = end;
    }
    header.insert("__metadata__".into(), Value::Object(metadata));
    let mut text = Value::Object(header).to_string();
    // The values are aligned.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_one_that_the_library_accepts() {
        let listed = |at, name: &str, shape: &[usize]| ListedParameter {
            at,
            name: format!("_{name}"),
            readable: name.to_owned(),
            shape: shape.to_vec(),
            rows: None,
        };
        let all = [listed(0, "b", &[3]), listed(1, "a", &[2, 2])];
        let header = header(&all);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend([0; 28]);
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("a").unwrap().shape(), [2, 2]);
        let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = metadata.metadata().clone().unwrap();
        assert_eq!(metadata["v1:a"], "_a");
    }
}
