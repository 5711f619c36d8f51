//! Data sources, field by field as in v1.

messages! {
    /// How many files are loaded together.
    FileGroupConf {
        optional uint32 queue_capacity = 1 [1];
        optional int32 load_file_count = 2 [1];
        optional int32 load_thread_num = 3 [1];
    }
    /// Where samples come from.
    DataConfig {
        required string r#type = 1;
        optional string files = 3;
        optional int32 feat_dim = 4;
        repeated int32 slot_dims = 5;
        optional int32 context_len = 6;
        optional uint64 buffer_capacity = 7;
        optional int64 train_sample_num = 8 [-1];
        optional int32 file_load_num = 9 [-1];
        optional bool async_load_data = 12 [false];
        optional bool for_test = 14 [false];
        optional FileGroupConf file_group_conf = 15;
        repeated int32 float_slot_dims = 16;
        repeated double constant_slots = 20;
        optional string load_data_module = 21;
        optional string load_data_object = 22;
        optional string load_data_args = 23;
        repeated DataConfig sub_data_configs = 24;
        optional int32 data_ratio = 25;
        optional bool is_main_data = 26 [true];
        optional double usage_ratio = 27 [1.0];
    }
}

impl DataConfig {
    /// The data files, if the configuration names them itself instead of a list file: one per line.
    pub fn own_files(&self) -> Option<Vec<String>> {
        let files = self.files();
        let names = || files.lines().filter(|name| !name.is_empty());
        files
            .contains('\n')
            .then(|| names().map(str::to_owned).collect())
    }
}
