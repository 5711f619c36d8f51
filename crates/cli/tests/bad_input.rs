//! What users get wrong: each case ends with a message that names the thing, a failure code, and earlier passes intact.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::process::Command;

use common::{Folder, failed, said, succeeded};

const LR: &str = "trainer_config.lr.py";

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "«{word}» is not in:\n{text}");
    }
}

/// A job with a configuration and a provider of our own.
fn job(config: &str, provider: &str) -> Folder {
    let folder = Folder::empty();
    fs::create_dir_all(folder.path("job/quick_start")).unwrap();
    fs::create_dir_all(folder.path("job/data")).unwrap();
    fs::write(folder.path("job/quick_start/c.py"), config).unwrap();
    fs::write(folder.path("job/quick_start/p.py"), provider).unwrap();
    fs::write(folder.path("job/data/train.list"), "data/x.txt\n").unwrap();
    fs::write(folder.path("job/data/x.txt"), "1\n2\n3\n").unwrap();
    folder
}

const CONFIG: &str = "
from paddle.trainer_config_helpers import *
define_py_data_sources2('data/train.list', None, module='p', obj='process')
settings(batch_size=2, learning_rate=RATE)
x = data_layer('x', size=4)
y = data_layer('y', size=1)
outputs(mse_cost(input=fc_layer(input=x, size=1, act=LinearActivation()), label=y))
";

const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *
@provider(input_types=[dense_vector(4), dense_vector(1)], should_shuffle=False)
def process(settings, file_name):
    for number, line in enumerate(open(file_name)):
        SAMPLE
";

fn provider(sample: &str) -> String {
    PROVIDER.replace("SAMPLE", sample)
}

#[test]
fn a_missing_configuration_is_named() {
    let folder = Folder::empty();
    let text = failed(&folder.canoe(&["train", "--config=nowhere.py"]));
    assert_says(&text, &["nowhere.py"]);
    let text = failed(&folder.canoe(&["train"]));
    assert_says(&text, &["--config"]);
}

#[test]
fn an_error_in_the_configuration_shows_the_users_line() {
    let folder = job(
        "from paddle.trainer_config_helpers import *\nsettings(batch_size=1)\nx = undefined_name\n",
        "",
    );
    let text = failed(&folder.train("c.py", "out", &[]));
    assert_says(&text, &["c.py:3", "undefined_name"]);
}

#[test]
fn unknown_flags_name_the_nearest() {
    let folder = Folder::empty();
    let out = folder.canoe(&["train", "--num_pass=3"]);
    assert_eq!(out.status.code(), Some(2));
    assert_says(&failed(&out), &["--num_pass", "--num_passes"]);
}

#[test]
fn missing_lists_and_data_files_are_named() {
    let folder = Folder::with_demo(100);
    fs::write(folder.path("job/data/train.list"), "data/absent.txt\n").unwrap();
    let text = failed(&folder.train(LR, "out", &[]));
    assert_says(&text, &["absent.txt"]);
    fs::remove_file(folder.path("job/data/train.list")).unwrap();
    let text = failed(&folder.train(LR, "out", &[]));
    assert_says(&text, &["train.list"]);
}

#[test]
fn data_without_samples_and_empty_lists_are_refused() {
    let folder = job(
        &CONFIG.replace("RATE", "0.1"),
        &provider("yield [1.0] * 4, [1.0]"),
    );
    fs::write(folder.path("job/data/x.txt"), "").unwrap();
    let text = failed(&folder.train("c.py", "out", &[]));
    assert_says(&text, &["pass 0 has no samples"]);
    assert!(!folder.path("out/pass-00000").exists());
    fs::write(folder.path("job/data/train.list"), "").unwrap();
    let text = failed(&folder.train("c.py", "out", &[]));
    assert_says(&text, &["train.list", "is empty"]);
}

#[test]
fn a_provider_that_is_not_there_says_where_it_was_looked_for() {
    let config = CONFIG.replace("RATE", "0.1").replace("'p'", "'absent'");
    let folder = job(&config, "");
    let text = failed(&folder.train("c.py", "out", &[]));
    let places = ["job", "job/quick_start"].map(|p| folder.path(p).display().to_string());
    assert_says(&text, &["\"absent\"", &places[0], &places[1]]);
}

#[test]
fn an_id_out_of_range_names_layer_and_value() {
    let config = CONFIG.replace("RATE", "0.1").replace(
        "x = data_layer('x', size=4)",
        "x = embedding_layer(input=data_layer('x', size=4), size=4)",
    );
    let provider = provider("yield 7, [1.0]").replace("dense_vector(4)", "integer_value(4)");
    let text = failed(&job(&config, &provider).train("c.py", "out", &[]));
    assert_says(
        &text,
        &["__embedding_0__", "id 7 is out of range, there are only 4"],
    );
}

#[test]
fn a_sample_of_the_wrong_type_is_named() {
    let provider = provider("yield [1.0, 2.0], [1.0]");
    let text = failed(&job(&CONFIG.replace("RATE", "0.1"), &provider).train("c.py", "out", &[]));
    assert_says(&text, &["x.txt", "4"]);
}

#[test]
fn a_provider_that_raises_shows_its_traceback() {
    let provider = provider("yield [1.0] * 4, [1.0 / (1 - number)]");
    let text = failed(&job(&CONFIG.replace("RATE", "0.1"), &provider).train("c.py", "out", &[]));
    assert_says(&text, &["p.py", "ZeroDivisionError"]);
}

#[test]
fn a_provider_process_that_is_killed_ends_the_run() {
    let provider =
        provider("import os, signal; os.kill(os.getpid(), signal.SIGKILL); yield [1.0] * 4, [1.0]");
    let text = failed(&job(&CONFIG.replace("RATE", "0.1"), &provider).train("c.py", "out", &[]));
    assert_says(&text, &["signal"]);
}

#[test]
fn a_cost_that_is_not_a_number_names_layer_and_batch() {
    let provider = provider("yield [1.0e20] * 4, [1.0]");
    let text = failed(&job(&CONFIG.replace("RATE", "1e30"), &provider).train("c.py", "out", &[]));
    assert_says(&text, &["pass 0 batch", "layer"]);
}

#[test]
fn damaged_and_foreign_models_are_refused_by_name() {
    let folder = Folder::with_demo(100);
    succeeded(&folder.train(LR, "out", &["--num_passes=1"]));
    let weights = folder.path("out/pass-00000/___fc_layer_0__.w0");
    let good = fs::read(&weights).unwrap();
    let resume = ["--num_passes=1", "--start_pass=1"];

    fs::write(&weights, &good[..good.len() - 4]).unwrap();
    let text = failed(&folder.train(LR, "out", &resume));
    assert_says(&text, &["___fc_layer_0__.w0", "bytes"]);

    fs::write(&weights, b"not a parameter file at all").unwrap();
    let text = failed(&folder.train(LR, "out", &resume));
    assert_says(&text, &["___fc_layer_0__.w0", "not a parameter file"]);

    let mut short = good[..16 + 8].to_vec();
    short[8..16].copy_from_slice(&2u64.to_le_bytes());
    fs::write(&weights, &short).unwrap();
    let text = failed(&folder.train(LR, "out", &resume));
    assert_says(&text, &["___fc_layer_0__.w0", "2 values"]);

    fs::remove_file(&weights).unwrap();
    let text = failed(&folder.train(LR, "out", &resume));
    assert_says(
        &text,
        &["___fc_layer_0__.w0", "--load_missing_parameter_strategy"],
    );

    fs::write(&weights, &good).unwrap();
    fs::write(
        folder.path("out/pass-00000/canoe.state"),
        b"CANOEST1 and then nothing",
    )
    .unwrap();
    let text = failed(&folder.train(LR, "out", &resume));
    assert_says(&text, &["canoe.state"]);
}

#[test]
fn a_pass_that_is_not_there_is_named() {
    let folder = Folder::with_demo(100);
    let text = failed(&folder.train(LR, "out", &["--start_pass=3"]));
    assert_says(&text, &["pass-00002", "does not exist"]);
}

#[test]
fn leftovers_of_a_save_are_cleaned_up() {
    let folder = Folder::with_demo(100);
    succeeded(&folder.train(LR, "out", &["--num_passes=1"]));
    let before = folder.parameters("out/pass-00000");
    // What a save that was interrupted may leave, and something else of that name.
    fs::write(folder.path("out/.pass-00001.part"), "in the way").unwrap();
    succeeded(&folder.train(LR, "out", &["--num_passes=1", "--start_pass=1"]));
    assert_eq!(before, folder.parameters("out/pass-00000"));
    assert!(folder.path("out/pass-00001/done").exists());
    assert!(!folder.path("out/.pass-00001.part").exists());
}

/// Fills a small file system of its own, in which a job trains two passes; exits with 77 if mounting is not allowed.
const FULL_DISK: &str = r#"
mount -t tmpfs -o size=8m none "$DISK" 2>/dev/null || exit 77
"$CANOE" train --config=quick_start/trainer_config.lr.py --save_dir="$DISK" --num_passes=1 --dot_period=0 || exit 78
cp -r "$DISK/pass-00000" "$KEPT"
head -c 100000000 /dev/zero > "$DISK/filler" 2>/dev/null
"$CANOE" train --config=quick_start/trainer_config.lr.py --save_dir="$DISK" --num_passes=1 --start_pass=1
code=$?
diff -r "$DISK/pass-00000" "$KEPT" && echo "pass 0 is intact"
test ! -e "$DISK/pass-00001" && echo "pass 1 is not there"
rm "$DISK/filler"
"$CANOE" train --config=quick_start/trainer_config.lr.py --save_dir="$DISK" --num_passes=1 --start_pass=1 &&
  test -e "$DISK/pass-00001/done" && echo "continued"
exit $code
"#;

#[test]
fn a_full_disk_names_the_file_and_leaves_earlier_passes_whole() {
    let folder = Folder::with_demo(100);
    fs::create_dir(folder.path("disk")).unwrap();
    let out = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", FULL_DISK])
        .env("CANOE", common::CANOE)
        .env("DISK", folder.path("disk"))
        .env("KEPT", folder.path("kept"))
        .current_dir(folder.path("job"))
        .output();
    let out = match out {
        Ok(out) if out.status.code() != Some(77) && !said(&out).contains("unshare failed") => out,
        other => {
            println!("skipped, because nothing can be mounted here: {other:?}");
            return;
        }
    };
    let text = failed(&out);
    assert_says(
        &text,
        &[
            "pass-00001",
            "No space left on device",
            "pass 0 is intact",
            "pass 1 is not there",
            "continued",
        ],
    );
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let config = CONFIG.replace("RATE", "0.1, learning_rate_schedule='polly'");
    let text = failed(&job(&config, &provider("yield [1.0] * 4, [1.0]")).train("c.py", "out", &[]));
    assert_says(&text, &["polly", "poly"]);
}
