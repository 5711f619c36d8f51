//! The layers, one per file, and the table from type names to builders.

pub(crate) mod addto;
pub(crate) mod attention;
pub(crate) mod concat;
pub(crate) mod conv_shift;
pub(crate) mod convex_comb;
pub(crate) mod cos;
pub(crate) mod cost;
pub(crate) mod crf;
pub(crate) mod ctc;
pub mod data;
pub(crate) mod data_norm;
pub(crate) mod embedding;
pub(crate) mod expand;
pub(crate) mod fc;
pub(crate) mod featmap_expand;
mod few_classes;
#[cfg(test)]
mod golden;
pub(crate) mod group;
pub(crate) mod hsigmoid;
pub(crate) mod ids;
pub mod image;
pub(crate) mod interpolation;
pub(crate) mod maxid;
pub(crate) mod mixed;
pub(crate) mod multiplex;
pub(crate) mod nce;
pub(crate) mod out_prod;
pub(crate) mod pass_through;
pub(crate) mod pooling;
pub(crate) mod power;
pub(crate) mod prelu;
pub(crate) mod recurrent;
pub(crate) mod scaling;
pub(crate) mod selective_fc;
pub(crate) mod seqconcat;
pub(crate) mod seqreshape;
pub(crate) mod sequence_conv;
pub(crate) mod slope_intercept;
pub(crate) mod subseq;
pub(crate) mod sum_to_one_norm;
pub(crate) mod tail;
pub(crate) mod tensor;
pub(crate) mod trans;

use crate::error::BuildError;
use crate::layer::{Build, Layer};

/// Builds a layer from its description.
pub(crate) type Factory = fn(&mut Build<'_>) -> Result<Box<dyn Layer>, BuildError>;

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
pub(crate) fn factory(kind: &str) -> Option<Factory> {
    if kind == attention::KIND {
        return Some(attention::build);
    }
    REGISTRY
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, factory)| *factory)
}
