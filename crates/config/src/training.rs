//! Optimization settings and the whole configuration, field by field as in v1.

use crate::data::DataConfig;
use crate::model::ModelConfig;

messages! {
    /// Batch size, learning method and schedule.
    OptimizationConfig {
        required int32 batch_size = 3;
        required string algorithm = 4 ["async_sgd"];
        optional int32 num_batches_per_send_parameter = 5 [1];
        optional int32 num_batches_per_get_parameter = 6 [1];
        required double learning_rate = 7;
        optional double learning_rate_decay_a = 8 [0.0];
        optional double learning_rate_decay_b = 9 [0.0];
        optional double l1weight = 10 [0.1];
        optional double l2weight = 11 [0.0];
        optional double c1 = 12 [0.0001];
        optional double backoff = 13 [0.5];
        optional int32 owlqn_steps = 14 [10];
        optional int32 max_backoff = 15 [5];
        optional int32 l2weight_zero_iter = 17 [0];
        optional double average_window = 18 [0.0];
        optional int64 max_average_window = 19 [i64::MAX];
        optional string learning_method = 23 ["momentum"];
        optional double ada_epsilon = 24 [1e-6];
        optional bool do_average_in_cpu = 25 [false];
        optional double ada_rou = 26 [0.95];
        optional string learning_rate_schedule = 27 ["constant"];
        optional double delta_add_rate = 28 [1.0];
        optional int32 mini_batch_size = 29 [128];
        optional bool use_sparse_remote_updater = 30 [false];
        optional string center_parameter_update_method = 31 ["average"];
        optional double shrink_parameter_value = 32 [0.0];
        optional double adam_beta1 = 33 [0.9];
        optional double adam_beta2 = 34 [0.999];
        optional double adam_epsilon = 35 [1e-8];
        optional string learning_rate_args = 36 [""];
        optional double async_lagged_grad_discard_ratio = 37 [1.5];
    }
    /// Everything that one configuration file describes.
    TrainerConfig {
        optional ModelConfig model_config = 1;
        optional DataConfig data_config = 2;
        required OptimizationConfig opt_config = 3;
        optional DataConfig test_data_config = 4;
        repeated string config_files = 5;
        optional string save_dir = 6 ["./output/model"];
        optional string init_model_path = 7;
        optional int32 start_pass = 8 [0];
        optional string config_file = 9;
    }
}
