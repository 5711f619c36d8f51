//! Evaluates files as users write them, in a real Python.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use config::command::{draw, summary};
use config::diagram::DiagramFormat;
use config::{
    ConfigError, EvaluateOptions, Failure, FailureKind, Prints, TrainerConfig, evaluate,
    evaluate_with_python,
};

/// A job directory with the given files; the first one is evaluated.
fn evaluated(files: &[(&str, &str)], args: &str) -> Result<TrainerConfig, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    evaluate(&options(directory.path(), files[0].0, args))
}

fn options(directory: &Path, file: &str, args: &str) -> EvaluateOptions {
    EvaluateOptions {
        args: args.to_owned(),
        directory: Some(directory.to_owned()),
        prints: Prints::Nowhere,
        ..EvaluateOptions::new(file)
    }
}

fn failure(files: &[(&str, &str)]) -> Failure {
    match evaluated(files, "") {
        Err(ConfigError::Script(failure)) => *failure,
        other => panic!("expected a failure of the script, found {other:?}"),
    }
}

const SMALL: &str = "\
from paddle.trainer_config_helpers import *
settings(batch_size=get_config_arg('batch', int, 32), learning_rate=0.1, learning_method=AdamOptimizer())
word = data_layer(name='word', size=10)
outputs(fc_layer(input=word, size=2, act=SoftmaxActivation()))
";

#[test]
fn a_small_network_comes_out_whole() {
    let config = evaluated(&[("trainer_config.py", SMALL)], "batch=7").unwrap();
    assert_eq!(config.opt_config.batch_size, 7);
    assert_eq!(config.opt_config.learning_method(), "adam");
    let model = config.model_config.unwrap();
    assert_eq!(model.input_layer_names, ["word"]);
    assert_eq!(model.layers[1].name, "__fc_layer_0__");
    assert_eq!(model.parameters[0].name, "___fc_layer_0__.w0");
    assert_eq!(model.parameters[0].dims, [10, 2]);
}

#[test]
fn files_that_print_and_import_their_neighbours_work() {
    let config = evaluated(
        &[
            (
                "configs/main.py",
                "print('hello')\nimport sys\nsys.stdout.write('x')\nfrom nearby import *\n",
            ),
            (
                "configs/nearby.py",
                SMALL
                    .replace("get_config_arg('batch', int, 32)", "3")
                    .as_str(),
            ),
            ("unused.py", ""),
        ],
        "",
    )
    .unwrap();
    assert_eq!(config.opt_config.batch_size, 3);
}

#[test]
fn python_2_files_work_where_python_3_can_read_them() {
    let text = format!(
        "import cPickle as pickle\nfrom StringIO import StringIO\n\
         sizes = {{'a': 8 / 2}}\n\
         for name, size in sizes.iteritems():\n    assert sizes.has_key(name) and isinstance(name, basestring)\n\
         assert reduce(lambda a, b: a + b, xrange(4)) == 6 and unicode('x') == 'x'\n{SMALL}\
         fc_layer(input=word, size=sizes['a'])\n"
    );
    let config = evaluated(&[("c.py", &text)], "").unwrap();
    assert_eq!(config.model_config.unwrap().layers[2].size(), 4);
}

#[test]
fn another_package_called_paddle_is_not_in_the_way() {
    let files = [
        ("c.py", SMALL),
        ("paddle/__init__.py", "raise RuntimeError('wrong one')"),
    ];
    assert!(evaluated(&files, "").is_ok());
}

#[test]
fn third_party_packages_are_found_when_asked_for() {
    let text = format!(
        "import os, sys\n\
         base = os.environ['PYTHONUSERBASE'] = os.path.abspath('base')\n\
         place = '%s/lib/python%d.%d/site-packages' % ((base,) + tuple(sys.version_info[:2]))\n\
         os.makedirs(place)\n\
         open(place + '/from_elsewhere.py', 'w').write('size = 5')\n\
         import from_elsewhere\n{SMALL}fc_layer(input=word, size=from_elsewhere.size)\n"
    );
    let config = evaluated(&[("c.py", &text)], "").unwrap();
    assert_eq!(config.model_config.unwrap().layers[2].size(), 5);
}

#[test]
fn bytes_that_are_not_text_are_explained_to_python_3_files() {
    let found = failure(&[(
        "c.py",
        "# python: 3\nopen('d', 'wb').write(b'\\xff')\nopen('d').read()\n",
    )]);
    assert_eq!(found.frames[0].line, 3);
    assert!(found.hint.contains("latin-1"), "{found}");
}

#[test]
fn misspelt_functions_and_arguments_are_guessed() {
    let start = "from paddle.trainer_config_helpers import *\nword = data_layer('word', 4)\n";
    for (line, meant) in [
        ("fc_layr(input=word, size=2)", "did you mean fc_layer?"),
        ("fc_layer(input=word, sise=2)", "did you mean size?"),
        ("settings(batch_sise=3)", "did you mean batch_size?"),
    ] {
        let found = failure(&[("c.py", &format!("{start}{line}\n"))]);
        assert_eq!(found.frames[0].line, 3);
        assert_eq!(found.hint, meant, "{found}");
    }
    let found = failure(&[("c.py", &format!("{start}quite_another_name()\n"))]);
    assert!(!found.hint.contains("did you mean"), "{found}");
}

#[test]
fn a_failure_shows_the_users_frames_only() {
    let found = failure(&[
        (
            "c.py",
            "from paddle.trainer_config_helpers import *\nfrom net import build\n\nbuild(data_layer('x', 4))\n",
        ),
        (
            "net.py",
            "from paddle.trainer_config_helpers import *\n\n\ndef build(x):\n    return lstmemory(input=fc_layer(input=x, size=6))\n",
        ),
    ]);
    assert_eq!(found.kind, FailureKind::Description);
    let places: Vec<(&str, u64, &str)> = found
        .frames
        .iter()
        .map(|frame| {
            let name = frame.file.rsplit('/').next().unwrap();
            (name, frame.line, frame.text.as_str())
        })
        .collect();
    assert_eq!(
        places,
        [
            ("c.py", 4, "build(data_layer('x', 4))"),
            (
                "net.py",
                5,
                "return lstmemory(input=fc_layer(input=x, size=6))"
            )
        ]
    );
    assert!(found.message.contains("multiple of 4"), "{}", found.message);
    let text = found.to_string();
    assert!(text.contains("net.py:5: "), "{text}");
    assert!(!text.contains("recurrent_layers.py"), "{text}");
}

#[test]
fn a_python_2_file_is_evaluated_with_its_meaning() {
    let net = "\
print 'building', 3
def width((first, second)):
    return first / second
try:
    raise ValueError, 'x'
except ValueError, e:
    factor = 0777 - 510L
widths = map(lambda n: n * factor, [7, 9])
";
    let text =
        format!("from net import *\n{SMALL}fc_layer(input=word, size=width((widths[0], 2)))\n");
    let config = evaluated(&[("c.py", &text), ("net.py", net)], "").unwrap();
    assert_eq!(config.model_config.unwrap().layers[2].size(), 3);
}

#[test]
fn an_undecided_division_names_the_line_and_the_way_out() {
    let found = failure(&[("c.py", "width = 10\nhalf = width / 4\n")]);
    assert_eq!(found.frames.len(), 1, "{found}");
    assert_eq!(found.frames[0].line, 2);
    assert!(found.to_string().contains("# python: 2"), "{found}");
    for (mark, size) in [("# python: 2", 2), ("import cPickle", 2)] {
        let text = format!("{mark}\n{SMALL}fc_layer(input=word, size=10 / 4)\n");
        let config = evaluated(&[("c.py", &text)], "").unwrap();
        assert_eq!(config.model_config.unwrap().layers[2].size(), size);
    }
}

#[test]
fn a_python_3_file_keeps_its_meaning() {
    let text = format!("{SMALL}half = f'{{10 / 4}}'\nassert half == '2.5'\n");
    assert!(evaluated(&[("c.py", &text)], "").is_ok());
    let found = failure(&[("c.py", "half = f'{1}'\nfor i in xrange(2):\n    pass\n")]);
    assert!(found.hint.contains("line 1"), "{found}");
}

#[test]
fn a_syntax_error_of_both_languages_names_its_line() {
    let found = failure(&[("c.py", "print 'x'\nx = = 2\n")]);
    assert_eq!(found.kind, FailureKind::Syntax);
    let last = found.frames.last().unwrap();
    assert_eq!((last.line, last.text.as_str()), (2, "x = = 2"));
}

#[test]
fn a_python_2_interpreter_is_not_needed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("c.py"), SMALL).unwrap();
    let options = EvaluateOptions {
        python: Some("no-such-directory/python2.7".into()),
        ..options(directory.path(), "c.py", "")
    };
    let evaluated = evaluate_with_python(&options).unwrap();
    assert_eq!(
        evaluated.instead_of,
        Some("no-such-directory/python2.7".into())
    );
    assert!(evaluated.python.is_absolute());
}

#[test]
fn a_python_that_does_not_work_is_not_needed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("c.py"), SMALL).unwrap();
    // A placeholder of a version manager, and a script that takes -S for the name of a file.
    for (name, text) in [
        ("python2.7", "#!/bin/sh\nexit 127\n"),
        ("python", "#!/bin/sh\nexec cat -- \"$@\"\n"),
    ] {
        let python = directory.path().join(name);
        fs::write(&python, text).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let options = EvaluateOptions {
            python: Some(python.clone()),
            ..options(directory.path(), "c.py", "")
        };
        let evaluated = evaluate_with_python(&options).unwrap();
        assert_eq!(evaluated.instead_of, Some(python));
    }
}

#[test]
fn other_failures_have_their_kind() {
    let cases = [
        (
            "import nowhere_to_be_found\n",
            FailureKind::Import,
            "nowhere_to_be_found",
        ),
        ("raise SystemExit(3)\n", FailureKind::Exit, "3"),
        (
            "import json\njson.loads('{')\n",
            FailureKind::Exception,
            "JSONDecodeError",
        ),
        (
            "open('data/dict.txt')\n",
            FailureKind::Exception,
            "data/dict.txt",
        ),
        (
            "Layer(name='a', type='nothing')\n",
            FailureKind::Description,
            "no layer type 'nothing'",
        ),
    ];
    for (text, kind, part) in cases {
        let found = failure(&[("c.py", text)]);
        assert_eq!(found.kind, kind, "{found}");
        assert!(found.to_string().contains(part), "{found}");
        assert_eq!(found.frames.len(), 1, "{found}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = evaluate(&EvaluateOptions::new("no/such/config.py")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "read configuration file no/such/config.py"
    );
}

#[test]
fn a_missing_interpreter_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("c.py"), SMALL).unwrap();
    let options = EvaluateOptions {
        python: Some("no-such-python".into()),
        ..options(directory.path(), "c.py", "")
    };
    let error = evaluate(&options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("start no-such-python: install Python 3.8"),
        "{error}"
    );
}

#[test]
fn an_interpreter_that_dies_is_reported() {
    let error = evaluated(&[("c.py", "import os\nos._exit(9)\n")], "").unwrap_err();
    assert!(error.to_string().contains("exit status: 9"), "{error}");
}

#[test]
fn a_file_that_does_not_end_is_ended_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let text = "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n\
                open('pid', 'w').write(str(child.pid))\ntime.sleep(600)\n";
    fs::write(directory.path().join("c.py"), text).unwrap();
    // On a busy machine the file does not come to its child in the first time limits.
    let limits = [3, 10, 30, 100, 300].map(Duration::from_secs);
    let pid = limits.into_iter().find_map(|deadline| {
        let options = EvaluateOptions {
            deadline,
            ..options(directory.path(), "c.py", "")
        };
        let error = evaluate(&options).unwrap_err();
        assert!(matches!(error, ConfigError::Deadline { .. }), "{error}");
        fs::read_to_string(directory.path().join("pid")).ok()
    });
    let pid = pid.expect("the file has started its child");
    let patience = Instant::now();
    while alive(&pid) {
        assert!(
            patience.elapsed() < Duration::from_secs(240),
            "process {pid} is still there"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs; a zombie does not.
fn alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn data_sources_are_those_of_v1() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "{SMALL}define_py_data_sources2(train_list=['a.txt', 'b.txt'], test_list='t.list', module=['m', 'n'],\n    \
         obj='process', args={{'dictionary': {{'the': 0}}}})\n"
    );
    fs::write(directory.path().join("c.py"), text).unwrap();
    let config = evaluate(&options(directory.path(), "c.py", "")).unwrap();
    let train = config.data_config.unwrap();
    assert_eq!(train.r#type, "py2");
    assert_eq!(train.own_files().unwrap(), ["a.txt", "b.txt"]);
    let written = directory.path().join("train.list");
    assert!(
        !written.exists(),
        "v1 wrote this file, over one of the user's"
    );
    assert_eq!(
        (train.load_data_module(), train.load_data_object()),
        ("m", "process")
    );
    assert!(
        train.load_data_args().starts_with("(dp0\n"),
        "{}",
        train.load_data_args()
    );
    let test = config.test_data_config.unwrap();
    assert_eq!(test.own_files(), None);
    assert_eq!(
        (test.files(), test.load_data_module(), test.for_test()),
        ("t.list", "n", true)
    );
}

#[test]
fn a_wrong_config_argument_is_refused() {
    let error = evaluated(&[("c.py", SMALL)], "batch").unwrap_err();
    assert!(error.to_string().contains("name=value"), "{error}");
}

#[test]
fn the_summary_tells_what_the_file_describes() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("c.py"), SMALL).unwrap();
    let evaluated = evaluate(&options(directory.path(), "c.py", "")).unwrap();
    let text = summary("c.py", &evaluated);
    let expected = "\
c.py: 2 layers, 2 parameters with 22 values (88 bytes)
inputs:  word
outputs: __fc_layer_0__
method:  adam, learning rate 0.1, batch size 32, sgd

layer           type  size  inputs
word            data    10
__fc_layer_0__  fc       2  word
";
    assert_eq!(text, expected);
}

#[test]
fn a_network_can_be_drawn() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("c.py"), SMALL).unwrap();
    let options = options(directory.path(), "c.py", "");
    let svg = draw(&options, DiagramFormat::Svg).unwrap();
    assert!(svg.contains("fc 2 softmax · 22"), "{svg}");
    let dot = draw(&options, DiagramFormat::Dot).unwrap();
    assert!(
        dot.contains("n0 -> n1 [label=\"___fc_layer_0__.w0\"];"),
        "{dot}"
    );
}
