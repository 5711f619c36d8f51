//! Selective fully connected layer (`selective_fc`): only some columns of `y = act(x Wᵀ + b)` are computed.
//!
//! The sparse columns of the last input select them. The weight is `size × width`. The output of a row is what was
//! selected, in order, so every row must select equally many columns; when testing with
//! `selective_fc_pass_generation` it is a sparse row of the full width instead, and rows may differ. Without
//! `has_selected_colums` all columns are computed.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, BatchUse, Build, Forward, Layer};
use crate::layers::fc::FullyConnected;
use crate::layers::few_classes::FewClasses;
use crate::matrix::SparseRows;
use crate::output::OutputValues;
use crate::row_gradient::Term;

/// Computes the columns that its last input selects.
pub(crate) struct SelectiveFullyConnected {
    size: usize,
    weights: FewClasses,
    finish: Finish,
    /// Whether tests output sparse rows.
    generates: bool,
    terms: Vec<Term>,
}

/// Builds `selective_fc`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let (size, count) = (build.size(), build.input_sizes.len());
    if !build.config.has_selected_colums() {
        build.expect(count > 0, || "it has no input".to_owned())?;
        return Ok(Box::new(FullyConnected::new(build, &vec![true; count])?));
    }
    build.expect(count >= 2, || {
        "it needs an input and a selection".to_owned()
    })?;
    let (got, generates) = (
        build.input_sizes[count - 1],
        build.config.selective_fc_pass_generation(),
    );
    build.expect(got == size, || {
        format!("its selection has size {got}, but it has {size}")
    })?;
    let finish = build.finish_with(None)?;
    build.expect(!generates || finish.activation().is_gate(), || {
        format!(
            "activation '{}' cannot be used to generate",
            build.config.active_type()
        )
    })?;
    Ok(Box::new(SelectiveFullyConnected {
        size,
        weights: FewClasses::new(build, count - 1, size)?,
        finish,
        generates,
        terms: Vec::new(),
    }))
}

impl Layer for SelectiveFullyConnected {
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let last = pass.inputs.len() - 1;
        let rows = pass.inputs.get(0).data.rows();
        pass.inputs.check_rows(last, rows)?;
        let selection = match &pass.inputs.get(last).data {
            OutputValues::Sparse(selection) => selection.clone(),
            other => {
                return Err(LayerError::Kind {
                    input: last,
                    got: other.kind(),
                    want: "sparse rows",
                });
            }
        };
        self.terms = terms(&selection, self.size)?;
        let mut sums = self.weights.forward(pass, &self.terms)?;
        if self.generates && pass.pass == BatchUse::Test {
            let activation = self.finish.activation();
            sums.iter_mut().for_each(|sum| *sum = activation.at(*sum));
            pass.out.data = OutputValues::Sparse(SparseRows {
                values: sums,
                ..selection
            });
            return Ok(());
        }
        let width = sums.len().checked_div(rows).unwrap_or(1);
        if width == 0
            || selection
                .offsets
                .windows(2)
                .any(|range| (range[1] - range[0]) as usize != width)
        {
            return Err(LayerError::Value(
                "each row must select the same number of columns, at least one".to_owned(),
            ));
        }
        let out = pass.out.value_mut();
        out.resize(rows, width);
        out.values_mut().copy_from_slice(&sums);
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        for (term, grad) in self.terms.iter_mut().zip(pass.out.grad().values()) {
            term.scale = *grad;
        }
        self.weights.backward(pass, &self.terms);
    }
}

/// One term per selected column, row by row.
fn terms(selection: &SparseRows, size: usize) -> Result<Vec<Term>, LayerError> {
    if let Some(&id) = selection
        .columns
        .iter()
        .find(|&&column| column as usize >= size)
    {
        return Err(LayerError::Id { id, limit: size });
    }
    let rows = (0..selection.rows()).flat_map(|x| selection.range(x).map(move |entry| (x, entry)));
    let term = |(x, entry): (usize, usize)| Term {
        row: selection.columns[entry],
        scale: 0.0,
        x: x as u32,
    };
    Ok(rows.map(term).collect())
}

#[cfg(test)]
mod tests {
    use crate::gradient_check::{LayerBuilder, ModelBuilder};
    use crate::{
        Batch, BatchUse, ExecuteError, LayerError, Network, ParameterValues, Parameters, Slot,
        SlotData,
    };

    fn network(generates: bool) -> (Network, Parameters) {
        let layer = LayerBuilder::new("selective_fc", "y", 3)
            .weighted("x", &[3, 2])
            .input("s")
            .bias()
            .with(|c| c.selective_fc_pass_generation = Some(generates));
        let weight = ParameterValues::Full(vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let parameters = Parameters(vec![weight, ParameterValues::Full(vec![0.0, 10.0, 100.0])]);
        (
            Network::new(&ModelBuilder::new().data("x", 2).data("s", 3).layer(layer).0).unwrap(),
            parameters,
        )
    }

    fn batch(offsets: Vec<u32>, columns: Vec<u32>) -> Batch {
        let values = vec![1.0, 2.0, 3.0, 4.0];
        let slots = [
            SlotData::Dense { dim: 2, values },
            SlotData::Binary { offsets, columns },
        ];
        Batch {
            samples: 2,
            slots: slots.map(Slot::plain).to_vec(),
        }
    }

    #[test]
    fn chosen_columns_come_out_side_by_side() {
        let (mut network, parameters) = network(false);
        network
            .forward(
                &parameters,
                &batch(vec![0, 2, 4], vec![0, 2, 1, 2]),
                BatchUse::Test,
            )
            .unwrap();
        assert_eq!(
            network.output("y").unwrap().to_dense().unwrap(),
            [1.0, 103.0, 14.0, 107.0]
        );
        let error = network
            .forward(
                &parameters,
                &batch(vec![0, 2, 3], vec![0, 2, 1]),
                BatchUse::Test,
            )
            .unwrap_err();
        assert!(
            matches!(
                error,
                ExecuteError::Layer {
                    source: LayerError::Value(_),
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn generation_keeps_the_full_width() {
        let (mut network, parameters) = network(true);
        network
            .forward(
                &parameters,
                &batch(vec![0, 2, 3], vec![0, 2, 1]),
                BatchUse::Test,
            )
            .unwrap();
        let view = network.output("y").unwrap();
        let row = |row| view.sparse_row(row).unwrap().collect::<Vec<_>>();
        assert_eq!(
            (row(0), row(1), view.cols()),
            (vec![(0, 1.0), (2, 103.0)], vec![(1, 14.0)], 3)
        );
    }
}
