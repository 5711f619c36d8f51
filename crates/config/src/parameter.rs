//! Parameters: names, shapes, initial values and per-parameter learning settings, field by field as in v1.

messages! {
    /// A hook that runs around the updates of one parameter.
    ParameterUpdaterHookConfig {
        required string r#type = 1;
        optional string purning_mask_filename = 2;
    }
    /// One parameter: shape, initial values, and what the optimizer does with it.
    ParameterConfig {
        required string name = 1;
        required uint64 size = 2;
        optional double learning_rate = 3 [1.0];
        optional double momentum = 4 [0.0];
        optional double initial_mean = 5 [0.0];
        optional double initial_std = 6 [0.01];
        optional double decay_rate = 7 [0.0];
        optional double decay_rate_l1 = 8 [0.0];
        repeated uint64 dims = 9;
        optional int32 device = 10 [-1];
        optional int32 initial_strategy = 11 [0];
        optional bool initial_smart = 12 [false];
        optional int32 num_batches_regularization = 13 [1];
        optional bool is_sparse = 14 [false];
        optional string format = 15 [""];
        optional bool sparse_remote_update = 16 [false];
        optional double gradient_clipping_threshold = 17 [0.0];
        optional bool is_static = 18 [false];
        optional uint64 para_id = 19;
        repeated ParameterUpdaterHookConfig update_hooks = 20;
        optional bool need_compact = 21 [false];
        optional bool sparse_update = 22 [false];
        optional bool is_shared = 23 [false];
        optional uint64 parameter_block_size = 24 [0];
    }
}
