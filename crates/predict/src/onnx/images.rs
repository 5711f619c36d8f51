//! Layers that work on images. Rows are channels × height × width.

use config::LayerConfig;

use super::graph::Attribute;
use super::{Done, Export, Made, What};

impl Export<'_> {
    fn image(&mut self, name: &str, shape: [usize; 3]) -> String {
        let [channels, height, width] = shape.map(|size| size as i64);
        let shape = self.graph.ints(&[-1, channels, height, width]);
        self.graph.op("Reshape", &[name, &shape], &[])
    }

    fn row(&mut self, layer: &LayerConfig, name: &str) -> Made {
        let width = layer.size() as usize;
        let shape = self.graph.ints(&[-1, width as i64]);
        Made {
            name: self.graph.op("Reshape", &[name, &shape], &[]),
            width,
            sequence: None,
            what: What::Dense,
        }
    }

    pub(super) fn convolution(&mut self, layer: &LayerConfig) -> Done<Made> {
        let filters = layer.num_filters() as usize;
        let mut sum: Option<String> = None;
        for (at, input) in layer.inputs.iter().enumerate() {
            let Some(conf) = &input.conv_conf else {
                return self.refuse(layer, "an input has no geometry");
            };
            let source = self.dense_source(layer, at)?;
            let side = |value: Option<u32>, other: u32| value.unwrap_or(other) as usize;
            let shape = [
                conf.channels as usize,
                side(conf.img_size_y, conf.img_size),
                conf.img_size as usize,
            ];
            let (kernel_y, kernel_x) = (conf.filter_size_y as usize, conf.filter_size as usize);
            let weight = [filters, conf.filter_channels as usize, kernel_y, kernel_x];
            let weight = self.input_weight(layer, at, &weight)?;
            let image = self.image(&source.name, shape);
            let output = [side(conf.output_y, conf.output_x), conf.output_x as usize];
            let (pad_y, pad_x) = (i64::from(conf.padding_y), i64::from(conf.padding));
            let (stride_y, stride_x) = (i64::from(conf.stride_y), i64::from(conf.stride));
            // What the windows need behind the image, which may be more than the padding or less.
            let behind = |output: usize, stride: i64, kernel: usize, pad: i64, size: usize| {
                ((output as i64 - 1) * stride + kernel as i64 - pad - size as i64).max(0)
            };
            let pads = [
                pad_y,
                pad_x,
                behind(output[0], stride_y, kernel_y, pad_y, shape[1]),
                behind(output[1], stride_x, kernel_x, pad_x, shape[2]),
            ];
            let name = self.graph.op(
                "Conv",
                &[&image, &weight],
                &[
                    Attribute::Ints("kernel_shape", &[kernel_y as i64, kernel_x as i64]),
                    Attribute::Ints("strides", &[stride_y, stride_x]),
                    Attribute::Ints("pads", &pads),
                    Attribute::Int("group", i64::from(conf.groups)),
                ],
            );
            sum = Some(match sum {
                None => name,
                Some(sum) => self.graph.op("Add", &[&sum, &name], &[]),
            });
        }
        let Some(mut sum) = sum else {
            return self.refuse(layer, "it has no input");
        };
        if let Some(bias) = &layer.bias_parameter_name {
            if layer.shared_biases() {
                let bias = self.weight(layer, Some(bias), &[1, filters, 1, 1])?;
                sum = self.graph.op("Add", &[&sum, &bias], &[]);
            } else {
                let width = layer.size() as usize;
                let bias = self.weight(layer, Some(bias), &[width])?;
                let row = self.row(layer, &sum);
                let name = self.graph.op("Add", &[&row.name, &bias], &[]);
                return Ok(Made { name, ..row });
            }
        }
        Ok(self.row(layer, &sum))
    }

    pub(super) fn pool(&mut self, layer: &LayerConfig) -> Done<Made> {
        let Some(conf) = layer
            .inputs
            .first()
            .and_then(|input| input.pool_conf.clone())
        else {
            return self.refuse(layer, "its input has no geometry");
        };
        let source = self.dense_source(layer, 0)?;
        let side = |value: Option<u32>, other: u32| value.unwrap_or(other) as usize;
        let shape = [
            conf.channels as usize,
            side(conf.img_size_y, conf.img_size),
            conf.img_size as usize,
        ];
        let image = self.image(&source.name, shape);
        let kernel = [
            side(conf.size_y, conf.size_x) as i64,
            i64::from(conf.size_x),
        ];
        let strides = [
            side(conf.stride_y, conf.stride) as i64,
            i64::from(conf.stride),
        ];
        let pad_x = i64::from(conf.padding.unwrap_or(0));
        let pad_y = conf.padding_y.map_or(pad_x, i64::from);
        let pads = [pad_y, pad_x, pad_y, pad_x];
        let mut attributes = vec![
            Attribute::Ints("kernel_shape", &kernel),
            Attribute::Ints("strides", &strides),
            Attribute::Ints("pads", &pads),
            Attribute::Int("ceil_mode", 1),
        ];
        let kind = match conf.pool_type.as_str() {
            "max-projection" | "cudnn-max-pool" => "MaxPool",
            "avg-projection" | "cudnn-avg-pool" => {
                attributes.push(Attribute::Int("count_include_pad", 1));
                "AveragePool"
            }
            other => return self.refuse(layer, format!("pooling '{other}' has no equivalent")),
        };
        let name = self.graph.op(kind, &[&image], &attributes);
        Ok(self.row(layer, &name))
    }

    pub(super) fn batch_norm(&mut self, layer: &LayerConfig) -> Done<Made> {
        if layer.use_global_stats == Some(false) {
            return self.refuse(layer, "statistics of the batch have no equivalent");
        }
        let source = self.dense_source(layer, 0)?;
        let Some(conf) = layer
            .inputs
            .first()
            .and_then(|input| input.image_conf.clone())
        else {
            return self.refuse(layer, "its input has no geometry");
        };
        let channels = conf.channels as usize;
        let pixels = source.width / channels.max(1);
        let image = self.image(&source.name, [channels, pixels, 1]);
        let scale = self.input_weight(layer, 0, &[channels])?;
        let mean = self.input_weight(layer, 1, &[channels])?;
        let variance = self.input_weight(layer, 2, &[channels])?;
        let shift = match &layer.bias_parameter_name {
            Some(name) => self.weight(layer, Some(name), &[channels])?,
            None => self
                .graph
                .floats("shift", &[channels], &vec![0.0; channels]),
        };
        let name = self.graph.op(
            "BatchNormalization",
            &[&image, &scale, &shift, &mean, &variance],
            &[Attribute::Float("epsilon", 1e-5)],
        );
        Ok(self.row(layer, &name))
    }
}
