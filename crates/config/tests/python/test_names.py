"""Every name that v1's configuration files can use is there."""

import unittest

import paddle.trainer_config_helpers as helpers
from paddle.trainer import config_parser

LAYERS = '''
full_matrix_projection trans_full_matrix_projection table_projection identity_projection dotmul_projection
scaling_projection context_projection conv_projection dotmul_operator conv_operator mixed_layer data_layer
embedding_layer fc_layer selective_fc_layer grumemory lstmemory recurrent_layer pooling_layer last_seq first_seq
repeat_layer seq_reshape_layer seq_concat_layer concat_layer addto_layer expand_layer cos_sim hsigmoid img_conv_layer
img_pool_layer batch_norm_layer img_cmrnorm_layer cross_channel_norm_layer spp_layer pad_layer maxout_layer
block_expand_layer bilinear_interp_layer priorbox_layer lstm_step_layer gru_step_layer gru_step_naive_layer
recurrent_group memory get_output_layer beam_search maxid_layer eos_layer sampling_id_layer scaling_layer power_layer
interpolation_layer slope_intercept_layer sum_to_one_norm_layer trans_layer rotate_layer conv_shift_layer
tensor_layer linear_comb_layer convex_comb_layer out_prod_layer print_layer ctc_layer warp_ctc_layer crf_layer
crf_decoding_layer nce_layer classification_cost mse_cost regression_cost cross_entropy cross_entropy_with_selfnorm
multi_binary_label_cross_entropy sum_cost rank_cost lambda_cost huber_cost LayerOutput LayerType AggregateLevel
ExpandLevel StaticInput SubsequenceInput GeneratedInput BaseGeneratedInput layer_support
'''
OTHERS = '''
sequence_conv_pool text_conv_pool simple_lstm lstmemory_unit lstmemory_group bidirectional_lstm gru_unit gru_group
simple_gru simple_gru2 bidirectional_gru simple_attention simple_img_conv_pool img_conv_bn_pool img_conv_group
small_vgg vgg_16_network dropout_layer inputs outputs
evaluator_base classification_error_evaluator auc_evaluator pnpair_evaluator precision_recall_evaluator
ctc_error_evaluator chunk_evaluator sum_evaluator column_sum_evaluator value_printer_evaluator
gradient_printer_evaluator maxid_printer_evaluator maxframe_printer_evaluator seqtext_printer_evaluator
classification_error_printer_evaluator
TanhActivation SigmoidActivation SoftmaxActivation IdentityActivation LinearActivation SequenceSoftmaxActivation
ExpActivation ReluActivation BReluActivation SoftReluActivation STanhActivation AbsActivation SquareActivation
BaseActivation LogActivation
BasePoolingType MaxPooling AvgPooling CudnnMaxPooling CudnnAvgPooling SumPooling SquareRootNPooling
ParamAttr ExtraAttr ParameterAttribute ExtraLayerAttribute
Optimizer BaseSGDOptimizer MomentumOptimizer AdamaxOptimizer AdamOptimizer AdaGradOptimizer RMSPropOptimizer
DecayedAdaGradOptimizer AdaDeltaOptimizer BaseRegularization L2Regularization settings ModelAverage
define_py_data_sources2 parse_trainer_config parse_network_config parse_optimizer_config layer_math
'''
RAW = '''
Inputs Outputs HasInputsSet SubModelBegin SubModelEnd RecurrentLayerGroupBegin RecurrentLayerGroupEnd
RecurrentLayerGroupWithoutOutLinksBegin RecurrentLayerGroupSetOutLink model_type Bias Input Projection
IdentityProjection IdentityOffsetProjection DotMulProjection ScalingProjection TableProjection FullMatrixProjection
TransposedFullMatrixProjection ContextProjection ConvProjection ConvTransProjection Operator DotMulOperator
ConvOperator ConvTransOperator Conv BilinearInterp Pool SpatialPyramidPool Pad Norm Image BlockExpand MaxOut
SimpleData PyData ProtoData MultiData Data TrainData TestData Evaluator FCLayer MixedLayer LstmLayer Link Memory
SetMemoryInput Generator ExpressionLayer Layer ParameterHook Parameter default_initial_std default_initial_mean
default_initial_strategy default_initial_smart default_momentum default_decay_rate
default_num_batches_regularization default_gradient_clipping_threshold default_device default_update_hooks
default_compact_func Settings cluster_config EnableSubmodelSuffix get_config_arg Import
'''


class NamesTest(unittest.TestCase):
    def test_helpers_have_every_layer(self):
        self.assertEqual(len(LAYERS.split()), 87)
        for name in (LAYERS + OTHERS).split():
            self.assertTrue(hasattr(helpers, name), name)

    def test_star_import_brings_them(self):
        names = {}
        exec('from paddle.trainer_config_helpers import *', names)
        for name in (LAYERS + OTHERS).split():
            self.assertIn(name, names)

    def test_files_start_with_the_raw_names(self):
        names = config_parser.name_space('somewhere/config.py')
        for name in RAW.split():
            self.assertIn(name, names)

    def test_every_class_name_makes_a_known_layer_type(self):
        from paddle.core.layer import KINDS
        for name, type in config_parser.CLASSES.items():
            self.assertIn(type, KINDS, name)

    def test_every_layer_type_is_known(self):
        from paddle.core.layer import KINDS
        for name, type in vars(helpers.LayerType).items():
            if name.isupper() and type not in ('cost', 'memory'):
                self.assertIn(type, KINDS, name)


if __name__ == '__main__':
    unittest.main()
