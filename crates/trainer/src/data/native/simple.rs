//! v1's data source of type `simple`: lines of a label and a fixed number of values, separated by single blanks.
//!
//! The number of values is `feat_dim * (2 * context_len + 1)`. The first data layer gets the values, the second the label;
//! as in v1, the range of labels is checked by the layer that uses the label.

use config::DataConfig;

use super::format::{LineError, LineFormat, shown, slot};
use super::number;
use super::reader::Reader;
use crate::data::error::DataError;
use crate::data::list::FileList;
use crate::data::order::{OrderPlan, PoolLevel};
use crate::data::origin::SampleStream;
use crate::data::table::{Column, ElementKind, SlotType};
use crate::data::{DataInput, DataOptions};

/// Parses lines of the format.
struct Simple {
    slots: Vec<SlotType>,
    dim: usize,
}

/// Opens a source of type `simple`.
pub(crate) fn open(
    config: &DataConfig,
    list: FileList,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Box<dyn SampleStream>, DataError> {
    let refuse = |reason: String| DataError::Native {
        format: "simple".to_owned(),
        reason,
    };
    let (features, context) = (config.feat_dim(), config.context_len());
    let width = i64::from(features) * (2 * i64::from(context) + 1);
    let width = u32::try_from(width).ok().filter(|width| *width > 0);
    let Some(width) = width.filter(|_| features > 0 && context >= 0) else {
        let text = format!("feat_dim={features} and context_len={context} give no width");
        return Err(refuse(text));
    };
    let name = |at: usize| inputs.get(at).map_or("", |input| input.name.as_str());
    let labels = inputs.get(1).map_or(1, |input| input.size.max(1));
    let slots = [
        slot(name(0), ElementKind::Dense, 0, width),
        slot(name(1), ElementKind::Ids, 0, labels as u32),
    ];
    let format = Simple {
        slots: slots
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(refuse)?,
        dim: width as usize,
    };
    let plan = OrderPlan {
        shuffle: options.training,
        level: PoolLevel::Everything,
        cache: true,
        batch_size: options.batch_size.max(1),
        can_over_batch_size: true,
    };
    let directory = options.directory.clone();
    Ok(Box::new(Reader::new(
        Box::new(format),
        list,
        plan,
        directory,
    )))
}

impl LineFormat for Simple {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn header(&mut self, _line: &[u8]) -> Result<bool, LineError> {
        Ok(false)
    }

    fn sample(&self, line: &[u8], columns: &mut [Column]) -> Result<(), LineError> {
        let mut pieces = line.split(|byte| *byte == b' ');
        let label = pieces.next().unwrap_or_default();
        let read = number::integer(label).and_then(|label| i32::try_from(label).ok());
        let Some(read) = read else {
            let text = format!("the label {} is not an integer", shown(label));
            return Err(LineError::Form(text));
        };
        let mut count = 0;
        for piece in pieces {
            count += 1;
            let Some(value) = number::float(piece) else {
                let text = format!("{} is not a number", shown(piece));
                return Err(LineError::Form(text));
            };
            columns[0].values.push(value);
        }
        if count != self.dim {
            let text = format!("it has {count} values after the label, not {}", self.dim);
            return Err(LineError::Form(text));
        }
        columns[1].ids.push(read as u32);
        Ok(())
    }
}
