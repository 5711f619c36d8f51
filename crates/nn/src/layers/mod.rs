//! The layers, one per file, and the table from type names to builders.

pub mod addto;
pub mod attention;
pub mod concat;
pub mod conv_shift;
pub mod convex_comb;
pub mod cos;
pub mod cost;
pub mod crf;
pub mod ctc;
pub mod data;
pub mod data_norm;
pub mod embedding;
pub mod expand;
pub mod fc;
pub mod featmap_expand;
mod few_classes;
#[cfg(test)]
mod golden;
pub mod group;
pub mod hsigmoid;
pub mod ids;
pub mod image;
pub mod interpolation;
pub mod maxid;
pub mod mixed;
pub mod multiplex;
pub mod nce;
pub mod out_prod;
pub mod pass_through;
pub mod pooling;
pub mod power;
pub mod prelu;
pub mod recurrent;
pub mod scaling;
pub mod selective_fc;
pub mod seqconcat;
pub mod seqreshape;
pub mod sequence_conv;
pub mod slope_intercept;
pub mod subseq;
pub mod sum_to_one_norm;
pub mod tail;
pub mod tensor;
pub mod trans;

use crate::error::BuildError;
use crate::layer::{Build, Layer};

/// Builds a layer from its description.
pub type Factory = fn(&mut Build<'_>) -> Result<Box<dyn Layer>, BuildError>;

/// Every type of layer that can be executed, except `data`, which the network itself reads.
pub const REGISTRY: &[(&str, Factory)] = &[
    ("addto", addto::build),
    ("average", pooling::average::build),
    ("batch_norm", image::batch_norm::build),
    ("bilinear_interp", image::bilinear::build),
    ("blockexpand", image::rearrange::build_block_expand),
    ("concat", concat::build),
    ("concat2", concat::build_projections),
    ("conv_shift", conv_shift::build),
    ("convex_comb", convex_comb::build),
    ("cos", cos::build),
    ("cos_vm", cos::build_many),
    ("crf", crf::cost::build),
    ("crf_decoding", crf::decoding::build),
    ("ctc", ctc::build),
    ("cudnn_batch_norm", image::batch_norm::build),
    ("cudnn_conv", image::conv::build),
    ("cudnn_convt", image::conv::build_transposed),
    ("data_norm", data_norm::build),
    ("eos_id", ids::build_eos),
    ("exconv", image::conv::build),
    ("exconvt", image::conv::build_transposed),
    ("expand", expand::build),
    ("fc", fc::build),
    ("featmap_expand", featmap_expand::build),
    ("gated_recurrent", recurrent::gru::build),
    ("get_output", pass_through::build_get_output),
    ("gru_step", recurrent::gru_step::build),
    ("hsigmoid", hsigmoid::build),
    ("huber", cost::huber::build),
    ("interpolation", interpolation::build),
    ("lambda_cost", cost::lambda::build),
    ("lstm_step", recurrent::lstm_step::build),
    ("lstmemory", recurrent::lstm::build),
    ("max", pooling::max::build),
    ("maxid", maxid::build),
    ("maxout", image::maxout::build),
    ("mdlstmemory", recurrent::multi_lstm::build),
    ("mixed", mixed::build),
    ("multi-class-cross-entropy", cost::cross_entropy::build),
    (
        "multi_binary_label_cross_entropy",
        cost::binary_cross_entropy::build,
    ),
    (
        "multi_class_cross_entropy_with_selfnorm",
        cost::self_norm::build,
    ),
    ("multiplex", multiplex::build),
    ("nce", nce::build),
    ("norm", image::response_norm::build),
    ("out_prod", out_prod::build),
    ("pad", image::rearrange::build_pad),
    ("pool", image::pool::build),
    ("power", power::build),
    ("prelu", prelu::build),
    ("print", pass_through::build),
    ("priorbox", image::prior_box::build),
    ("rank-cost", cost::rank::build),
    ("recurrent", recurrent::simple::build),
    (group::KIND, group::build),
    ("resize", seqreshape::build_resize),
    ("rotate", image::rearrange::build_rotate),
    ("sampling_id", ids::build_sampling),
    ("scaling", scaling::build),
    ("selective_fc", selective_fc::build),
    ("seqconcat", seqconcat::build),
    ("seqlastins", pooling::last::build),
    ("seqreshape", seqreshape::build),
    ("slope_intercept", slope_intercept::build),
    ("smooth_l1", cost::smooth_l1::build),
    (
        "soft_binary_class_cross_entropy",
        cost::binary_cross_entropy::build,
    ),
    ("spp", image::pool::build_pyramid),
    ("square_error", cost::square_error::build),
    ("subseq", subseq::build),
    ("sum_cost", cost::sum::build),
    ("sum_to_one_norm", sum_to_one_norm::build),
    ("tensor", tensor::build),
    ("trans", trans::build),
    ("warp_ctc", ctc::build_warp),
];

/// The builder of a layer type; `None` if it cannot be executed.
pub fn factory(kind: &str) -> Option<Factory> {
    if kind == attention::KIND {
        return Some(attention::build);
    }
    REGISTRY
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, factory)| *factory)
}
