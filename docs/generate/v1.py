"""Which parts of v1 run: the names that v0.10.0 has, held against what the code of this version registers.

The lists are v0.10.0's own: what its modules export, its data providers, its evaluators and layers by type. A name that
the code no longer has, or has anew, changes the page, and `docs/reference.py --check` fails until it is written again.
"""
import re

# What `paddle.trainer_config_helpers` exports, apart from base classes and the layer functions' own tools.
LAYERS = '''data_layer embedding_layer fc_layer mixed_layer full_matrix_projection trans_full_matrix_projection identity_projection
table_projection dotmul_projection scaling_projection context_projection conv_projection dotmul_operator conv_operator
addto_layer concat_layer seq_concat_layer seq_reshape_layer repeat_layer expand_layer pooling_layer last_seq first_seq
lstmemory grumemory recurrent_layer lstm_step_layer gru_step_layer gru_step_naive_layer recurrent_group memory StaticInput
SubsequenceInput GeneratedInput beam_search get_output_layer eos_layer maxid_layer sampling_id_layer cos_sim hsigmoid nce_layer
img_conv_layer img_pool_layer spp_layer batch_norm_layer img_cmrnorm_layer cross_channel_norm_layer bilinear_interp_layer
block_expand_layer maxout_layer pad_layer priorbox_layer rotate_layer trans_layer scaling_layer power_layer
interpolation_layer slope_intercept_layer linear_comb_layer convex_comb_layer sum_to_one_norm_layer conv_shift_layer
tensor_layer selective_fc_layer out_prod_layer print_layer classification_cost cross_entropy cross_entropy_with_selfnorm
multi_binary_label_cross_entropy mse_cost regression_cost rank_cost lambda_cost huber_cost sum_cost crf_layer
crf_decoding_layer ctc_layer warp_ctc_layer'''.split()
NETWORKS = '''sequence_conv_pool text_conv_pool simple_lstm bidirectional_lstm lstmemory_group lstmemory_unit simple_gru simple_gru2
bidirectional_gru gru_unit gru_group simple_attention simple_img_conv_pool img_conv_bn_pool img_conv_group small_vgg
vgg_16_network dropout_layer inputs outputs'''.split()
EVALUATORS = '''classification_error_evaluator auc_evaluator pnpair_evaluator precision_recall_evaluator ctc_error_evaluator
chunk_evaluator sum_evaluator column_sum_evaluator value_printer_evaluator gradient_printer_evaluator maxid_printer_evaluator
maxframe_printer_evaluator seqtext_printer_evaluator classification_error_printer_evaluator'''.split()
OPTIMIZERS = '''MomentumOptimizer AdamOptimizer AdamaxOptimizer AdaGradOptimizer DecayedAdaGradOptimizer RMSPropOptimizer
AdaDeltaOptimizer L2Regularization ModelAverage settings'''.split()
ACTIVATIONS = '''TanhActivation SigmoidActivation SoftmaxActivation IdentityActivation LinearActivation
SequenceSoftmaxActivation ExpActivation ReluActivation BReluActivation SoftReluActivation STanhActivation AbsActivation
SquareActivation LogActivation'''.split()
POOLINGS = 'MaxPooling AvgPooling SumPooling SquareRootNPooling CudnnMaxPooling CudnnAvgPooling'.split()

# Layer types that v0.10.0 registers and no function makes: raw configurations name them.
RAW_TYPES = '''auc-validation pnpair-validation data_norm concat2 cos_vm cudnn_conv cudnn_convt cudnn_batch_norm
featmap_expand mdlstmemory multiplex prelu resize smooth_l1 soft_binary_class_cross_entropy subseq'''.split()

# Types of data sources that v0.10.0 registers.
SOURCES = (
    ('py2', '`define_py_data_sources2`, `PyData2`', ''),
    ('proto', '`ProtoData`', 'binary files of samples, `.gz` too; slots of any size and text (`VAR_MDIM_*`, `STRING`) and '
                             '`usage_ratio` other than 1 are refused'),
    ('proto_sequence', '`ProtoData(type="proto_sequence")`', ''),
    ('proto_group', '`ProtoData` with a file group', 'files are read one after another'),
    ('proto_sequence_group', '`ProtoData` with a file group', 'files are read one after another'),
    ('simple', '`SimpleData`', ''),
    ('py', '`PyData`', 'the first generation of Python providers, with its own protocol; write a `@provider`'),
    ('multi', '`MultiData`', 'a mixture of sources; mix in one provider'),
    ('dummy', '', 'random values for tests of v1 itself'),
)

# The commands of v1's `paddle`.
COMMANDS = (
    ('train', 'jobs `train`, `test`, `checkgrad`, `time`'),
    ('pserver', 'other machines need `CANOE_JOB_TOKEN`; on loopback alone it is not needed'),
    ('merge_model', 'writes v1\'s file; `--init_model_path` and `canoe model` read it'),
    ('dump_config', '`[ARGUMENTS] [--whole]`, and `--binary` of later versions'),
    ('make_diagram', '`CONFIG OUT.dot [ARGUMENTS]`'),
    ('version', ''),
    ('usage', 'accepted and does nothing: nothing is reported to anybody'),
)

RUNS, DESCRIBED, REFUSED = 'runs', 'described only', 'refused'


class State:
    """What the sources say."""

    def __init__(self, functions, read):
        self.functions = functions
        evaluators = read('crates/nn/src/evaluators/mod.rs').partition('match config.r#type.as_str() {')[2]
        printers = read('crates/nn/src/evaluators/printers.rs')
        self.evaluators = set(re.findall(r'"([\w-]+)"', evaluators)) | set(re.findall(r'"([\w-]+)" =>', printers))
        self.validations = set(re.findall(r'"([\w-]+-validation)"', read('crates/nn/src/evaluators/mod.rs')))
        opening = read('crates/trainer/src/data/mod.rs').partition('match config.r#type.as_str() {')[2]
        self.sources = set(re.findall(r'"(\w+)"', opening.partition('other =>')[0]))
        self.commands = set(re.findall(r'"(\w+)"', read('crates/cli/src/v1.rs').partition('#[cfg(test)]')[0]))
        self.special = {'data', 'memory', 'cost'}
        self.renamed = {'conv': 'exconv', 'convt': 'exconvt', 'seqfirstins': 'seqlastins'}

    def entry(self, name):
        for module in self.functions.modules.values():
            found = module.entries.get(module.aliases.get(name, name))
            if found is not None:
                return found
        return None

    def executes(self, kind):
        return kind in self.special or self.renamed.get(kind, kind) in self.functions.registry

    def function(self, name):
        """Status and reason of a function that makes layers."""
        entry = self.entry(name)
        if entry is None:
            return REFUSED, 'no such function'
        if name in getattr(self.functions, 'later', ()):
            return DESCRIBED, 'recurrent groups are not executed yet'
        kinds = [self.functions.types[each] for each in entry.layer_types]
        missing = [kind for kind in kinds if not self.executes(kind)]
        if missing:
            return DESCRIBED, 'layers of type %s are not executed' % ', '.join('`%s`' % each for each in missing)
        return RUNS, ''

    def evaluator(self, name, source):
        found = re.search(r"def %s\(.*?evaluator_base\(\s*input(?:=input)?,\s*(?:type=)?'([\w-]+)'" % name, source, re.S)
        if found is None:
            return REFUSED, 'no such function'
        kind = found.group(1)
        return (RUNS, '') if kind in self.evaluators else (DESCRIBED, 'type `%s` is not executed' % kind)

    def plain(self, name, modules):
        known = set()
        for module in modules:
            known |= set(self.functions.modules[module].entries) | set(self.functions.modules[module].aliases)
            known |= {each for names, _ in self.functions.modules[module].calls('_activation') for each in names}
        return (RUNS, '') if name in known else (REFUSED, 'no such name')

    def raw(self, kind):
        if self.executes(kind) or kind in self.validations:
            return RUNS, ''
        return DESCRIBED, 'not executed'


def counted(rows):
    states = [row[1] for row in rows]
    return ', '.join('%d %s' % (states.count(each), each) for each in (RUNS, DESCRIBED, REFUSED) if each in states)


def page(functions, read, table, flags):
    """The parts of the page."""
    state = State(functions, read)
    source = read('crates/config/python/paddle/trainer_config_helpers/evaluators.py')
    families = (
        ('Layer functions', [(name, *state.function(name)) for name in LAYERS]),
        ('Networks', [(name, *state.function(name)) for name in NETWORKS]),
        ('Evaluators', [(name, *state.evaluator(name, source)) for name in EVALUATORS]),
        ('Settings and optimizers', [(name, *state.plain(name, ['optimizers'])) for name in OPTIMIZERS]),
        ('Activations', [(name, *state.plain(name, ['activations'])) for name in ACTIVATIONS]),
        ('Poolings', [(name, *state.plain(name, ['poolings'])) for name in POOLINGS]),
        ('Layer types without a function', [(name, *state.raw(name)) for name in RAW_TYPES]),
    )
    parts = ['# Which parts of v1 run', 'The names of v0.10.0, and how this version handles them. **runs**: Canoe computes it. '
             '**described only**: Canoe evaluates a configuration with it (`canoe config dump`), but does not compute it. '
             '**refused**: the configuration ends with an error that gives the reason. How to run your v1 files: '
             '[from v1](../v1.md).']
    summary = []
    for title, rows in families:
        summary.append((title, counted(rows)))
    sources = [(kind, RUNS if kind in state.sources else REFUSED, how, note) for kind, how, note in SOURCES]
    commands = [(name, RUNS if name in state.commands else REFUSED, note) for name, note in COMMANDS]
    summary += [('Data sources', counted(sources)), ('Commands', counted(commands))]
    for command, (working, ignored) in flags.items():
        summary.append(('Flags of `%s`' % command, '%d with their effect, %d accepted without (each says why)' % (
            len(working), len(ignored))))
    parts.append(table(('what', 'how much of it'), summary))
    for title, rows in families:
        parts.append('## %s' % title)
        running = [name for name, status, _ in rows if status == RUNS]
        if running:
            parts.append('Run: %s.' % ', '.join('`%s`' % name for name in running))
        others = [(('`%s`' % name), status, why) for name, status, why in rows if status != RUNS]
        if others:
            parts.append(table(('name', '', 'why'), others))
    parts += ['## Data sources', table(('type', '', 'in a configuration', ''), [
        ('`%s`' % kind, status, how, note) for kind, status, how, note in sources])]
    parts += ['## Commands', 'After `canoe paddle`, or under the name `paddle` (`canoe paddle link DIR`).',
              table(('command', '', ''), [('`paddle %s`' % name, status, note) for name, status, note in commands])]
    parts += ['## Flags', 'Every flag of v0.10.0 is accepted; [flags](flags.md) lists them. `--flagfile`, `--fromenv`, '
              '`--tryfromenv` and `--undefok` work as gflags had them; `--helpshort` and its like print the help; options of '
              'glog (`--v`, `--logtostderr`, `--log_dir`, …) are accepted: the log goes to standard error. GPU, RDMA and '
              'placement flags are accepted without effect, because there is no such code.']
    return parts
