//! The network: layers, their inputs and geometry, evaluators and sub-models, field by field as in v1.

use crate::parameter::ParameterConfig;

messages! {
    /// Layers that an external program feeds and reads.
    ExternalConfig {
        repeated string layer_names = 1;
        repeated string input_layer_names = 2;
        repeated string output_layer_names = 3;
    }
    /// A named activation function.
    ActivationConfig {
        required string r#type = 1;
    }
    /// Geometry of a convolution.
    ConvConfig {
        required uint32 filter_size = 1;
        required uint32 channels = 2;
        required uint32 stride = 3;
        required uint32 padding = 4;
        required uint32 groups = 5;
        required uint32 filter_channels = 6;
        required uint32 output_x = 7;
        required uint32 img_size = 8;
        required bool caffe_mode = 9 [true];
        required uint32 filter_size_y = 10;
        required uint32 padding_y = 11;
        required uint32 stride_y = 12;
        optional uint32 output_y = 13;
        optional uint32 img_size_y = 14;
    }
    /// Geometry of an image pooling.
    PoolConfig {
        required string pool_type = 1;
        required uint32 channels = 2;
        required uint32 size_x = 3;
        optional uint32 start = 4;
        required uint32 stride = 5 [1];
        required uint32 output_x = 6;
        required uint32 img_size = 7;
        optional uint32 padding = 8 [0];
        optional uint32 size_y = 9;
        optional uint32 stride_y = 10;
        optional uint32 output_y = 11;
        optional uint32 img_size_y = 12;
        optional uint32 padding_y = 13;
    }
    /// Spatial pyramid pooling.
    SppConfig {
        required ImageConfig image_conf = 1;
        required string pool_type = 2;
        required uint32 pyramid_height = 3;
    }
    /// Response normalisation over channels.
    NormConfig {
        required string norm_type = 1;
        required uint32 channels = 2;
        required uint32 size = 3;
        required double scale = 4;
        required double pow = 5;
        required uint32 output_x = 6;
        required uint32 img_size = 7;
        optional bool blocked = 8;
        optional uint32 output_y = 9;
        optional uint32 img_size_y = 10;
    }
    /// Cuts an image into a sequence of blocks.
    BlockExpandConfig {
        required uint32 channels = 1;
        required uint32 stride_x = 2;
        required uint32 stride_y = 3;
        required uint32 padding_x = 4;
        required uint32 padding_y = 5;
        required uint32 block_x = 6;
        required uint32 block_y = 7;
        required uint32 output_x = 8;
        required uint32 output_y = 9;
        required uint32 img_size_x = 10;
        required uint32 img_size_y = 11;
    }
    /// Maximum over groups of channels.
    MaxOutConfig {
        required ImageConfig image_conf = 1;
        required uint32 groups = 2;
    }
    /// One projection of a mixed layer.
    ProjectionConfig {
        required string r#type = 1;
        required string name = 2;
        required uint64 input_size = 3;
        required uint64 output_size = 4;
        optional int32 context_start = 5;
        optional int32 context_length = 6;
        optional bool trainable_padding = 7 [false];
        optional ConvConfig conv_conf = 8;
        optional int32 num_filters = 9;
        optional uint64 offset = 11 [0];
        optional PoolConfig pool_conf = 12;
    }
    /// One operator of a mixed layer: a function of two or more of its inputs.
    OperatorConfig {
        required string r#type = 1;
        repeated int32 input_indices = 2;
        repeated uint64 input_sizes = 3;
        required uint64 output_size = 4;
        optional double dotmul_scale = 5 [1.0];
        optional ConvConfig conv_conf = 6;
        optional int32 num_filters = 7;
    }
    /// Resizes an image.
    BilinearInterpConfig {
        required ImageConfig image_conf = 1;
        required uint32 out_size_x = 2;
        required uint32 out_size_y = 3;
    }
    /// Shape of an image.
    ImageConfig {
        required uint32 channels = 2;
        required uint32 img_size = 8;
        optional uint32 img_size_y = 9;
    }
    /// Prior boxes of a detector.
    PriorBoxConfig {
        repeated uint32 min_size = 1;
        repeated uint32 max_size = 2;
        repeated float aspect_ratio = 3;
        repeated float variance = 4;
    }
    /// Zero padding around an image.
    PadConfig {
        required ImageConfig image_conf = 1;
        repeated uint32 pad_c = 2;
        repeated uint32 pad_h = 3;
        repeated uint32 pad_w = 4;
    }
    /// One input of a layer, with the parameter on that edge.
    LayerInputConfig {
        required string input_layer_name = 1;
        optional string input_parameter_name = 2;
        optional ConvConfig conv_conf = 3;
        optional PoolConfig pool_conf = 4;
        optional NormConfig norm_conf = 5;
        optional ProjectionConfig proj_conf = 6;
        optional BlockExpandConfig block_expand_conf = 7;
        optional ImageConfig image_conf = 8;
        optional string input_layer_argument = 9;
        optional BilinearInterpConfig bilinear_interp_conf = 10;
        optional MaxOutConfig maxout_conf = 11;
        optional SppConfig spp_conf = 12;
        optional PriorBoxConfig priorbox_conf = 13;
        optional PadConfig pad_conf = 14;
    }
    LayerConfig {
        required string name = 1;
        required string r#type = 2;
        optional uint64 size = 3;
        optional string active_type = 4;
        repeated LayerInputConfig inputs = 5;
        optional string bias_parameter_name = 6;
        optional uint32 num_filters = 7;
        optional bool shared_biases = 8 [false];
        optional uint32 partial_sum = 9;
        optional double drop_rate = 10;
        optional uint32 num_classes = 11;
        optional int32 device = 12 [-1];
        optional bool reversed = 13 [false];
        optional string active_gate_type = 14;
        optional string active_state_type = 15;
        optional int32 num_neg_samples = 16 [10];
        repeated double neg_sampling_dist = 17;
        optional bool output_max_index = 19 [false];
        optional double softmax_selfnorm_alpha = 21 [0.1];
        repeated bool directions = 24;
        optional bool norm_by_times = 25;
        optional double coeff = 26 [1.0];
        optional string average_strategy = 27;
        optional double error_clipping_threshold = 28 [0.0];
        repeated OperatorConfig operator_confs = 29;
        optional int32 NDCG_num = 30;
        optional int32 max_sort_size = 31;
        optional double slope = 32;
        optional double intercept = 33;
        optional double cos_scale = 34;
        optional string data_norm_strategy = 36;
        optional uint32 bos_id = 37;
        optional uint32 eos_id = 38;
        optional uint32 beam_size = 39;
        optional bool select_first = 40 [false];
        optional string trans_type = 41 ["non-seq"];
        optional bool selective_fc_pass_generation = 42 [false];
        optional bool has_selected_colums = 43 [true];
        optional double selective_fc_full_mul_ratio = 44 [0.02];
        optional uint32 selective_fc_parallel_plain_mul_thread_num = 45 [0];
        optional bool use_global_stats = 46;
        optional double moving_average_fraction = 47 [0.9];
        optional uint32 bias_size = 48 [0];
        optional string user_arg = 49;
        optional uint64 height = 50;
        optional uint64 width = 51;
        optional uint32 blank = 52 [0];
        optional int32 seq_pool_stride = 53 [-1];
    }
    EvaluatorConfig {
        required string name = 1;
        required string r#type = 2;
        repeated string input_layers = 3;
        optional string chunk_scheme = 4;
        optional int32 num_chunk_types = 5;
        optional double classification_threshold = 6 [0.5];
        optional int32 positive_label = 7 [-1];
        optional string dict_file = 8;
        optional string result_file = 9;
        optional int32 num_results = 10 [1];
        optional bool delimited = 11 [true];
        repeated int32 excluded_chunk_types = 12;
        optional int32 top_k = 13 [1];
    }
    /// A sequence that enters or leaves a recurrent group.
    LinkConfig {
        required string layer_name = 1;
        required string link_name = 2;
        optional bool has_subseq = 3 [false];
    }
    /// A value that a recurrent group carries to its next step.
    MemoryConfig {
        required string layer_name = 1;
        required string link_name = 2;
        optional string boot_layer_name = 3;
        optional string boot_bias_parameter_name = 4;
        optional string boot_bias_active_type = 5;
        optional bool is_sequence = 6 [false];
        optional uint32 boot_with_const_id = 7;
    }
    /// How a recurrent group generates sequences.
    GeneratorConfig {
        required uint32 max_num_frames = 1;
        required string eos_layer_name = 2;
        optional int32 num_results_per_sample = 3 [1];
        optional int32 beam_size = 4 [1];
        optional bool log_prob = 5 [true];
    }
    /// A part of the network, such as a recurrent group.
    SubModelConfig {
        required string name = 1;
        repeated string layer_names = 2;
        repeated string input_layer_names = 3;
        repeated string output_layer_names = 4;
        repeated string evaluator_names = 5;
        optional bool is_recurrent_layer_group = 6 [false];
        optional bool reversed = 7 [false];
        repeated MemoryConfig memories = 8;
        repeated LinkConfig in_links = 9;
        repeated LinkConfig out_links = 10;
        optional GeneratorConfig generator = 11;
        optional int32 target_inlinkid = 12;
    }
    /// The network: layers in execution order, parameters, evaluators.
    ModelConfig {
        required string r#type = 1 ["nn"];
        repeated LayerConfig layers = 2;
        repeated ParameterConfig parameters = 3;
        repeated string input_layer_names = 4;
        repeated string output_layer_names = 5;
        repeated EvaluatorConfig evaluators = 6;
        repeated SubModelConfig sub_models = 8;
        optional ExternalConfig external_config = 9;
    }
}
