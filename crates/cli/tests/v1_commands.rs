//! v1's scripts as they stand: `paddle` in a directory of PATH, its commands, its files, its flags, its cluster on one
//! machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{CANOE, Folder, failed, said, succeeded};

/// A label that is declared with size 1, as v1's sentiment demo and its benchmarks have it.
const CONFIG: &str = "
from paddle.trainer_config_helpers import *
predict = get_config_arg('is_predict', bool, False)
define_py_data_sources2(None if predict else 'train.list', 'train.list', module='provider', obj='process')
settings(batch_size=8, learning_rate=0.05)
word = data_layer('word', size=9)
pooled = pooling_layer(input=embedding_layer(input=word, size=4), pooling_type=SumPooling())
y = fc_layer(input=pooled, size=3, act=SoftmaxActivation())
outputs(y if predict else classification_cost(input=y, label=data_layer('label', size=1)))
";

const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *

def hook(settings, input_order, **others):
    settings.input_types = [integer_value_sequence(9), integer_value(1)][:len(input_order)]
    settings.single = len(input_order) == 1

@provider(init_hook=hook)
def process(settings, name):
    for number in xrange(48):
        words, label = [number % 9, number % 3], number % 3
        yield words if settings.single else (words, label)
";

/// A job folder, and `paddle` in `bin`.
fn job() -> Folder {
    let folder = Folder::empty();
    fs::write(folder.path("c.py"), CONFIG).unwrap();
    fs::write(folder.path("provider.py"), PROVIDER).unwrap();
    fs::write(folder.path("train.list"), "none\n").unwrap();
    succeeded(&folder.canoe(&["paddle", "link", "bin", "--python"]));
    folder
}

/// Runs a script with `paddle` and `python` on its PATH.
fn script(folder: &Folder, text: &str) -> Output {
    let path = format!(
        "{}:{}",
        folder.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    Command::new("bash")
        .args(["-c", &format!("set -e\n{text}")])
        .current_dir(folder.path("."))
        .env("PATH", path)
        .env("XDG_CACHE_HOME", folder.path("cache"))
        .env_remove("CANOE_JOB_TOKEN")
        .output()
        .unwrap()
}

/// As quick_start's train.sh and predict.sh: `set -e`, a log through tee, the report of usage, outputs that are moved.
#[test]
fn a_script_trains_reports_usage_predicts_and_moves_the_result() {
    let folder = job();
    let out = script(
        &folder,
        "paddle train --config=c.py --save_dir=./output --num_passes=2 --use_gpu=false --logtostderr --v=3 \
           --log_period=1 2>&1 | tee train.log
         paddle usage -l train.log -e $? -n quick_start >/dev/null 2>&1
         paddle train --config=c.py --job=test --init_model_path=output/pass-00001 --config_args=is_predict=1 \
           --predict_output_dir=. 2>&1 | tee predict.log
         paddle usage -l predict.log -e $? -n quick_start_predict >/dev/null 2>&1
         mv rank-00000 result.txt
         paddle version",
    );
    succeeded(&out);
    let result = fs::read_to_string(folder.path("result.txt")).unwrap();
    assert_eq!(result.lines().count(), 48, "{}", said(&out));
    assert!(said(&out).contains("--v has no effect"));
}

#[test]
fn an_id_is_refused_by_the_layer_that_uses_it() {
    let folder = job();
    let provider = PROVIDER.replace("number % 3\n", "number % 4\n");
    fs::write(folder.path("provider.py"), provider).unwrap();
    let text = failed(&script(
        &folder,
        "paddle train --config=c.py --num_passes=1",
    ));
    assert!(
        text.contains("id 3 is out of range, there are only 3"),
        "{text}"
    );
}

#[test]
fn a_merged_model_has_the_configuration_and_trains_and_tests_like_its_directory() {
    let folder = job();
    let out = script(
        &folder,
        "paddle train --config=c.py --save_dir=out --num_passes=1
         paddle merge_model --model_dir=out/pass-00000 --model_file=model.paddle --use_gpu=false
         paddle dump_config c.py trainer_id=0,local=1,with_cost=1,use_gpu=0,parallel_nn=0,cudnn_version=0 --binary > c.bin
         paddle train --config=c.py --job=test --init_model_path=model.paddle 2> merged.log
         paddle train --config=c.py --job=test --init_model_path=out/pass-00000 2> plain.log
         canoe model diff model.paddle out/pass-00000"
            .replace("canoe model", &format!("{CANOE} model"))
            .as_str(),
    );
    succeeded(&out);
    let merged = fs::read(folder.path("model.paddle")).unwrap();
    let length = u64::from_le_bytes(merged[..8].try_into().unwrap()) as usize;
    let config = config::binary::decode(&merged[8..8 + length]).unwrap();
    let dumped = config::binary::decode(&fs::read(folder.path("c.bin")).unwrap()).unwrap();
    assert_eq!(config.model_config, dumped.model_config);
    let names = config.model_config.unwrap().parameters;
    let parts: Vec<u8> = names
        .iter()
        .flat_map(|p| fs::read(folder.path("out/pass-00000").join(&p.name)).unwrap())
        .collect();
    assert_eq!(merged[8 + length..], parts);
    let costs = |name: &str| {
        let text = fs::read_to_string(folder.path(name)).unwrap();
        let lines = text.lines().filter_map(|l| l.split_once("Test samples"));
        lines.map(|(_, rest)| rest.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(costs("merged.log"), costs("plain.log"));
    assert!(!costs("plain.log").is_empty());
    let text = failed(&script(
        &folder,
        "paddle merge_model --model_dir=out/pass-00000",
    ));
    assert!(text.contains("--model_file is missing"), "{text}");
}

#[test]
fn a_diagram_is_written_to_the_file_that_is_named() {
    let folder = job();
    let out = script(&folder, "paddle make_diagram c.py net.dot is_predict=1");
    succeeded(&out);
    assert_eq!(said(&out), "");
    let dot = fs::read_to_string(folder.path("net.dot")).unwrap();
    assert!(
        dot.starts_with("digraph") && !dot.contains("label\""),
        "{dot}"
    );
}

#[test]
fn flags_come_from_files_and_variables() {
    let folder = job();
    fs::write(
        folder.path("flags"),
        "# v1\n--config=c.py\n--num_passes=1\n",
    )
    .unwrap();
    let out = script(
        &folder,
        "FLAGS_save_dir=out paddle train --flagfile=flags --fromenv=save_dir --undefok=gone --gone=1",
    );
    succeeded(&out);
    assert!(folder.path("out/pass-00000/done").exists());
    let text = failed(&script(&folder, "paddle train --flagfile=flags --gone=1"));
    assert!(text.contains("unknown flag --gone"), "{text}");
}

#[test]
fn only_the_newest_pass_stays_if_v1s_flag_says_so() {
    let folder = job();
    fs::write(folder.path("flags"), "--save_only_one\n").unwrap();
    succeeded(&script(
        &folder,
        "paddle train --config=c.py --num_passes=3 --save_dir=one --save_only_one
         paddle train --config=c.py --num_passes=3 --save_dir=two --flagfile=flags
         paddle train --config=c.py --num_passes=3 --save_dir=all --save_only_one=0
         paddle train --config=c.py --num_passes=3 --save_dir=last --save_only_one --keep=last:2",
    ));
    for (name, left) in [("one", 1), ("two", 1), ("all", 3), ("last", 2)] {
        let passes = fs::read_dir(folder.path(name)).unwrap();
        let names = passes.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let passes = names.filter(|entry| entry.starts_with("pass-"));
        assert_eq!(passes.count(), left, "{name}");
    }
}

#[test]
fn the_link_named_python_is_no_python_to_train_with() {
    let folder = job();
    for name in ["python", "python2.7"] {
        let out = script(
            &folder,
            &format!("paddle train --config=c.py --num_passes=1 --python_bin={name}"),
        );
        succeeded(&out);
        let text = said(&out);
        let told = format!("--python_bin={name} asks for Python 2, or is no working Python");
        assert!(text.contains(&told) && !text.contains("'-S'"), "{text}");
    }
}

#[test]
fn a_label_below_zero_is_named_as_it_was_written() {
    let folder = job();
    let provider = PROVIDER.replace("number % 3\n", "-1\n");
    fs::write(folder.path("provider.py"), provider).unwrap();
    let text = failed(&script(
        &folder,
        "paddle train --config=c.py --num_passes=1",
    ));
    assert!(
        text.contains("id -1 is out of range, there are only 3"),
        "{text}"
    );
}

#[test]
fn an_algorithm_that_does_not_exist_is_refused() {
    let folder = job();
    let settings = "Settings(algorithm='owlqn', batch_size=8, learning_rate=0.05)";
    let config = CONFIG.replace("settings(batch_size=8, learning_rate=0.05)", settings);
    fs::write(folder.path("c.py"), config).unwrap();
    let train = "paddle train --config=c.py --num_passes=1";
    let check = format!("{CANOE} config check c.py");
    for command in [train, &check] {
        let text = failed(&script(&folder, command));
        assert!(
            text.contains("settings has algorithm='owlqn', which does not exist"),
            "{text}"
        );
    }
}

#[test]
fn an_evaluator_names_the_layer_that_no_output_needs() {
    let folder = job();
    let evaluator = "weight = data_layer('weight', size=1)\n\
        classification_error_evaluator(input=y, label=data_layer('other', size=3), weight=weight)\n";
    fs::write(folder.path("c.py"), format!("{CONFIG}{evaluator}")).unwrap();
    let text = failed(&script(
        &folder,
        "paddle train --config=c.py --num_passes=1",
    ));
    assert!(
        text.contains("it reads layer 'other', which is not computed"),
        "{text}"
    );
    assert!(text.contains("name it in outputs("), "{text}");
}

#[test]
fn what_is_wrong_with_a_command_of_v1_is_said_of_that_command() {
    let folder = job();
    for (typed, want) in [
        (
            "paddle dump_config",
            "usage: paddle dump_config CONFIG [ARGUMENTS] [--whole] [--binary]",
        ),
        (
            "paddle make_diagram",
            "usage: paddle make_diagram CONFIG OUT.dot [ARGUMENTS]",
        ),
        (
            "paddle merge_model",
            "paddle merge_model: --model_dir is missing",
        ),
        ("paddle train --foo", "paddle train: unknown flag --foo"),
        ("paddle foo", "there is no command 'foo'"),
    ] {
        for typed in [typed.to_owned(), format!("{CANOE} {typed}")] {
            let out = script(&folder, &typed);
            assert_eq!(out.status.code(), Some(2), "{typed}");
            let text = said(&out);
            assert!(
                text.contains(want) && !text.contains("canoe config"),
                "{typed}: {text}"
            );
        }
    }
}

/// Python 2 in every way in which a script can hand it to the interpreter.
#[test]
fn python_of_scripts_means_python_2() {
    let folder = job();
    fs::write(
        folder.path("s.py"),
        "import sys\nprint 7 / 2, sys.argv[1:]\n",
    )
    .unwrap();
    let out = script(
        &folder,
        "echo 49 | python -c 'import math; print math.sqrt(float(raw_input())) / 2'
         python2.7 s.py a -b
         echo 'print 9 / 2' | python -
         python -m s c
         python -m paddle.utils.dump_config c.py | head -n 1",
    );
    succeeded(&out);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(text, "3.5\n3 ['a', '-b']\n4\n3 ['c']\ntype: \"nn\"\n");
}

/// A script with `py_paddle` in a folder with a network of one layer; what it prints. NumPy is not needed.
fn computed(text: &str) -> String {
    let folder = job();
    fs::write(
        folder.path("k.py"),
        "from paddle.trainer_config_helpers import *
settings(batch_size=4, learning_rate=0.1)
word, x = data_layer('word', size=3), data_layer('x', size=2)
weight = ParamAttr(name='w')
table = embedding_layer(input=word, size=1, param_attr=ParamAttr(name='table'))
outputs(fc_layer(input=x, size=1, act=LinearActivation(), bias_attr=False, param_attr=weight), table)
",
    )
    .unwrap();
    let head = "from py_paddle import DataProviderConverter, swig_paddle
from paddle.trainer.PyDataProvider2 import *
from paddle.trainer.config_parser import parse_config
machine = swig_paddle.GradientMachine.createFromConfigProto(parse_config('k.py', '').model_config)
named = dict((each.getName(), each) for each in machine.getParameters())
def values(name):
    return named[name].getBuf(swig_paddle.PARAMETER_VALUE)
def out(word, *x):
    found = swig_paddle.Arguments.createArguments(0)
    given = dict(word=word, x=x)
    types = dict(word=integer_value(3), x=dense_vector(2))
    converter = DataProviderConverter([types[name] for name in machine.inputs])
    machine.forward(converter([[given[name] for name in machine.inputs]]), found, swig_paddle.PASS_TEST)
    return [found.getSlotValue(at).getData()[0] for at in range(2)]
";
    fs::write(folder.path("s.py"), format!("{head}{text}")).unwrap();
    let done = script(&folder, "python s.py");
    succeeded(&done);
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn what_a_script_writes_into_a_parameter_is_computed_with() {
    let text = computed(
        "buffer = values('w')
buffer[0] = 7.0
buffer[1] = 1.0
print out(0, 1, 2)[0], values('w').getData()
del buffer
values('w').copyFrom(swig_paddle.Vector.create([2, 3]))
print out(0, 1, 2)[0], values('w').getData()
kept = values('w')
machine.randParameters()
print kept.getData() == [2, 3], out(0, 1, 0)[0] == kept.getData()[0]
named['w'].setBuf(swig_paddle.Vector.create([1, 1]))
print out(0, 1, 2)[0], kept.getData()
",
    );
    assert_eq!(
        text,
        "9.0 [7.0, 1.0]\n8.0 [2.0, 3.0]\nFalse True\n3.0 [1.0, 1.0]\n"
    );
}

#[test]
fn an_id_of_minus_one_has_a_row_of_zeros_in_a_script_as_in_training() {
    let text = computed(
        "values('table').copyFrom(swig_paddle.Vector.create([4, 5, 6]))
print out(2, 0, 0)[1], out(-1, 0, 0)[1]
try:
    out(-2, 0, 0)
except RuntimeError, error:
    print error
",
    );
    let (rows, refused) = text.split_once('\n').unwrap();
    assert_eq!(rows, "6.0 0.0");
    assert!(
        refused.contains("id -2 is out of range, there are only 3"),
        "{refused}"
    );
}

/// As quick_start/cluster: no token, servers and trainer on loopback, one sparse port that the trainer does not know.
#[test]
fn the_cluster_scripts_of_one_machine_need_no_token() {
    let folder = job();
    let port = run::local::ports::Reservation::new(2).unwrap().first();
    let common = format!("--nics=lo --port={port} --ports_num=1 --num_gradient_servers=1");
    let log = fs::File::create(folder.path("pserver.log")).unwrap();
    let mut server = Command::new(folder.path("bin/paddle"))
        .arg("pserver")
        .args(common.split(' '))
        .args(["--ports_num_for_sparse=1", "--comment=paddle_pserver"])
        .env("XDG_CACHE_HOME", folder.path("cache"))
        .env_remove("CANOE_JOB_TOKEN")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let out = script(
        &folder,
        &format!(
            "paddle train --config=c.py --local=0 {common} --pservers=127.0.0.1 --num_passes=1 --save_dir=out"
        ),
    );
    let begun = Instant::now();
    let mut ended = None;
    while ended.is_none() && begun.elapsed() < Duration::from_secs(240) {
        ended = server.try_wait().unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    // Has no effect on a server that has ended.
    let _ = server.kill();
    server.wait().unwrap();
    let log = fs::read_to_string(folder.path("pserver.log")).unwrap();
    assert!(out.status.success(), "{}\n{log}", said(&out));
    assert!(ended.is_some_and(|status| status.success()), "{log}");
    assert!(folder.path("out/pass-00000/done").exists());
    let secret = fs::metadata(folder.path("cache/canoe/loopback-token")).unwrap();
    assert_eq!(secret.permissions().mode() & 0o777, 0o600);
    let text = failed(&script(
        &folder,
        &format!("paddle train --config=c.py --local=0 {common} --pservers=10.255.255.1"),
    ));
    assert!(text.contains("CANOE_JOB_TOKEN is not set"), "{text}");
}

/// v1's text format of one label and a fixed number of values.
#[test]
fn simple_data_trains() {
    let folder = job();
    let lines: String = (0..40)
        .map(|n| format!("{} {} {} 1\n", n % 2, n % 2, f64::from(n) / 40.0))
        .collect();
    fs::write(folder.path("simple.txt"), lines).unwrap();
    fs::write(folder.path("simple.list"), "simple.txt\n").unwrap();
    fs::write(
        folder.path("simple.py"),
        "from paddle.trainer_config_helpers import *
TrainData(SimpleData(files='simple.list', feat_dim=3, context_len=0, buffer_capacity=1000000))
TestData(SimpleData(files='simple.list', feat_dim=3, context_len=0, buffer_capacity=1000000))
settings(batch_size=10, learning_rate=0.1)
x = data_layer('x', size=3)
y = fc_layer(input=x, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=y, label=data_layer('label', size=1)))
",
    )
    .unwrap();
    let out = script(
        &folder,
        "paddle train --config=simple.py --num_passes=3 --save_dir=out --log_period=1",
    );
    succeeded(&out);
    assert!(said(&out).contains("Test samples=40"), "{}", said(&out));
}
