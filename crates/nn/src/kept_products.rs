//! Products of a table's rows with a weight, kept from batch to batch, for models that are only applied.
//!
//! The product of an embedding's row with a weight is a function of the id. While neither table nor weight changes, a
//! word that occurred in an earlier batch needs no new product: an HTTP server that computes single samples adds rows
//! instead of multiplying. The bits are the same, because those of a row do not depend on the rows that are computed
//! with it.

use crate::domain::Units;
use crate::layer::{BatchUse, Forward};
use crate::matrix::Matrix;
use crate::output::OutputValues;
use crate::parameters::{ParameterIndex, SharedValues};

/// Values that a layer keeps at most: 32 MiB. When they are full, all are forgotten.
const MOST: usize = 8 << 20;

/// The rows of a table that an output's stored rows are.
#[derive(Debug)]
pub(crate) struct RowOrigin {
    pub table: ParameterIndex,
    /// Its row, for each stored row.
    pub ids: Vec<u32>,
}

/// The products of one layer.
#[derive(Debug, Default)]
pub(crate) struct KeptProducts {
    /// Table and weight.
    of: Option<(SharedValues, SharedValues)>,
    /// Numbers the ids by their row in `products`.
    known: Units,
    products: Matrix,
    /// Rows without a product yet.
    missing: Matrix,
    places: Vec<u32>,
}

impl KeptProducts {
    /// The products of the input's stored rows. `multiply` computes products of `width` values: rows, and where they go.
    /// `None` if the batch is not only to be applied, the parameters may change, or the rows are not those of a table.
    pub(crate) fn get(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        (weight, width): (ParameterIndex, usize),
        multiply: impl FnOnce(&Matrix, &mut [f32]),
    ) -> Option<FoundProducts<'_>> {
        let source = pass.inputs.get(input);
        let origin = source.origin.as_ref()?;
        let shared = |parameter| pass.parameters.shared(parameter);
        let (table, weight) = (shared(origin.table)?, shared(weight)?);
        let OutputValues::Dense(x) = &source.data else {
            return None;
        };
        let most = MOST / width.max(1);
        if pass.pass != BatchUse::Test || x.rows() != origin.ids.len() || x.rows() > most {
            return None;
        }
        let same = |(own_table, own_weight): &(SharedValues, SharedValues)| {
            own_table.is(table) && own_weight.is(weight)
        };
        let full = self.known.count() + x.rows() > most;
        if full || !self.of.as_ref().is_some_and(same) || self.products.cols() != width {
            self.of = Some((table.clone(), weight.clone()));
            self.known = Units::default();
            self.products.resize(0, width);
        }
        let before = self.known.count();
        self.missing.resize(0, x.cols());
        self.places.clear();
        for (id, row) in origin.ids.iter().zip(x.iter_rows()) {
            let count = self.known.count();
            let place = self.known.unit(u64::from(*id));
            if place as usize == count {
                self.missing.append(row);
            }
            self.places.push(place);
        }
        if self.missing.rows() > 0 {
            self.products.resize(self.known.count(), width);
            multiply(
                &self.missing,
                &mut self.products.values_mut()[before * width..],
            );
        }
        Some(FoundProducts {
            products: &self.products,
            places: &self.places,
        })
    }
}

/// Products of the stored rows of an input.
pub(crate) struct FoundProducts<'a> {
    pub(crate) products: &'a Matrix,
    /// For each stored row, the row of `products` that is its product.
    pub(crate) places: &'a [u32],
}

#[cfg(test)]
mod tests {
    use crate::batch::{Batch, Slot, SlotData};
    use crate::gradient_check::{LayerBuilder, ModelBuilder};
    use crate::noise::Noise;
    use crate::{BatchUse, Network, ParameterValues, Parameters, SharedValues};

    /// An embedding below a convolution with its maximum, and below a fully connected layer.
    fn model() -> config::ModelConfig {
        let model = ModelBuilder::new()
            .data("w", 50)
            .embedding("e", "w", 4)
            .layer(LayerBuilder::new("mixed", "c", 12).window("e", 4, -1, 3, 0))
            .fc("f", &["c"], 6, "tanh")
            .layer(LayerBuilder::new("max", "m", 6).input("f"))
            .fc("g", &["e"], 5, "tanh")
            .layer(LayerBuilder::new("max", "n", 5).input("g"))
            .fc("out", &["m", "n"], 3, "");
        model.0
    }

    fn batch(seed: u64) -> Batch {
        let noise = Noise::new(seed);
        let ids = (0..12).map(|at| (noise.uniform(at) * 50.0) as u32);
        Batch {
            samples: 2,
            slots: vec![Slot::sequence(
                SlotData::Ids(ids.collect()),
                &[0, 5, 12][..],
            )],
        }
    }

    #[test]
    fn kept_products_change_no_bit_and_follow_the_parameters() {
        let model = model();
        let values = |seed: u64| -> Vec<Vec<f32>> {
            let sizes = model.parameters.iter().map(|p| p.size as usize);
            let noise = Noise::new(seed);
            let draw = |size: usize| (0..size).map(|at| noise.uniform(at as u64) - 0.5).collect();
            sizes.map(draw).collect()
        };
        let mut keeping = Network::new(&model).unwrap();
        for seed in [1, 2] {
            let full = values(seed).into_iter().map(ParameterValues::Full);
            let full = Parameters(full.collect());
            let shared = values(seed)
                .into_iter()
                .map(|values| ParameterValues::Shared(SharedValues::new(values)));
            let shared = Parameters(shared.collect());
            for number in 0..20 {
                let batch = batch(number);
                let mut plain = Network::new(&model).unwrap();
                plain.forward(&full, &batch, BatchUse::Test).unwrap();
                keeping.forward(&shared, &batch, BatchUse::Test).unwrap();
                for layer in ["m", "n", "out"] {
                    let (want, got) =
                        (plain.output(layer).unwrap(), keeping.output(layer).unwrap());
                    for row in 0..2 {
                        assert_eq!(want.row(row), got.row(row), "{layer} of batch {number}");
                    }
                }
            }
        }
    }
}
