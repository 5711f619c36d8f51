//! `canoe predict`: the outputs of `--job=test`, from every kind of input, whatever the batch size; and messages for what
//! cannot be predicted.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{BY_ROW, CANOE, Folder, failed, said, succeeded};

/// A folder with a trained model of a configuration in `job/out`.
fn trained(config: &str) -> Folder {
    let folder = Folder::with_demo(200);
    succeeded(&folder.train(config, "job/out", &["--num_passes=1"]));
    folder
}

/// What `--job=test` writes for the prediction data.
fn tested(folder: &Folder, config: &str, model: &str) -> String {
    let config = format!("--config=quick_start/{config}");
    let model = format!("--init_model_path={model}");
    succeeded(&folder.canoe_in(
        "job",
        &[
            "train",
            &config,
            &model,
            "--job=test",
            "--config_args=is_predict=1",
            "--predict_output_dir=rank",
        ],
    ));
    fs::read_to_string(folder.path("job/rank/rank-00000")).unwrap()
}

fn stdout(folder: &Folder, args: &[&str]) -> String {
    let out = folder.canoe_in("job", args);
    succeeded(&out);
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn text_and_the_provider_yield_what_a_test_yields_whatever_the_batch_size() {
    for config in [
        "trainer_config.lr.py",
        "trainer_config.cnn.py",
        "trainer_config.lstm.py",
    ] {
        let folder = trained(config);
        let want = tested(&folder, config, "out/pass-00000");
        let v1 = ["--config-args", "is_predict=1", "--format", "v1"];
        let text = ["predict", "out", "data/pred.txt"];
        assert_eq!(
            stdout(&folder, &[&text[..], &v1].concat()),
            want,
            "{config}"
        );
        let provider = ["predict", "out", "--input-format", "provider"];
        assert_eq!(
            stdout(&folder, &[&provider[..], &v1].concat()),
            want,
            "{config}"
        );
        let batches = ["1", "3", "1000"].map(|size| {
            let more = ["--batch-size", size, "--threads", "2"];
            stdout(&folder, &[&text[..], &more].concat())
        });
        assert_eq!(batches[0], batches[1], "{config}");
        assert_eq!(batches[1], batches[2], "{config}");
    }
}

#[test]
fn csv_and_json_lines_are_samples_and_results() {
    let folder = trained("trainer_config.lr.py");
    let labels = ["--labels", "data/labels.list"];
    fs::write(
        folder.path("job/in.csv"),
        "id,word\n7,\"good , very good\"\n8,bad\n",
    )
    .unwrap();
    let csv = stdout(
        &folder,
        &[&["predict", "out", "in.csv", "--keep"][..], &labels].concat(),
    );
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "id,word,__fc_layer_0__,__fc_layer_0__.neg,__fc_layer_0__.pos"
    );
    assert!(lines[1].starts_with("7,\"good , very good\","), "{csv}");
    assert_eq!(lines.len(), 3);
    fs::write(
        folder.path("job/in.jsonl"),
        "{\"word\": \"good , very good\"}\n\n{\"word\": [\"bad\"]}\n",
    )
    .unwrap();
    let json = stdout(
        &folder,
        &[&["predict", "out", "in.jsonl"][..], &labels].concat(),
    );
    for (line, record) in json.lines().zip(&lines[1..]) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let scores = &value["__fc_layer_0__"]["scores"];
        let cells: Vec<&str> = record.rsplitn(3, ',').collect();
        assert_eq!(scores["pos"].to_string(), cells[0]);
        assert_eq!(scores["neg"].to_string(), cells[1]);
    }
    let to = ["predict", "out", "in.csv", "-o", "result.csv"];
    succeeded(&folder.canoe_in("job", &to));
    let written = fs::read_to_string(folder.path("job/result.csv")).unwrap();
    assert_eq!(written.lines().count(), 3);
    assert!(!folder.path("job/.result.csv.part").exists());
}

#[test]
fn tables_that_servers_saved_are_read_by_row() {
    let folder = Folder::with_demo(200);
    // Servers keep rows only where no trainer tests; see the test of `--job=test`.
    let untested = ("else 'data/test.list'", "else None");
    folder.vary("trainer_config.emb.py", "rows.py", &[BY_ROW, untested]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let unheld = "--loadsave_parameters_in_pserver=1";
    let run = folder.nodes(2, "rows.py", &["--passes=1", "--", unheld]);
    succeeded(&run);
    assert!(
        folder.path("job/output/pass-00000/pserver.0000").exists(),
        "{}",
        said(&run)
    );
    let want = tested(&folder, "rows.py", "output/pass-00000");
    let args = [
        "predict",
        ".",
        "data/pred.txt",
        "--config-args",
        "is_predict=1",
        "--format",
        "v1",
    ];
    assert_eq!(stdout(&folder, &args), want);
    let exported = folder.canoe_in("job", &["model", "export", ".", "model.npz"]);
    assert!(
        said(&exported).contains("x 128, rows have words"),
        "{}",
        said(&exported)
    );
}

#[test]
fn what_cannot_be_predicted_is_named_with_its_line_and_field() {
    let folder = trained("trainer_config.emb.py");
    let job = |args: &[&str]| failed(&folder.canoe_in("job", args));
    let file = |name: &str, text: &str| fs::write(folder.path("job").join(name), text).unwrap();
    file("a.jsonl", "{\"word\": [1]}\n{\"word\": [99999999]}\n");
    let text = job(&["predict", "out", "a.jsonl"]);
    assert!(
        text.contains("a.jsonl line 2") && text.contains("out of range"),
        "{text}"
    );
    file("b.csv", "words\nx\n");
    assert!(job(&["predict", "out", "b.csv"]).contains("'word'"));
    file("c.txt", "x\n");
    let text = job(&["predict", "out", "c.txt", "--unknown", "refuse"]);
    assert!(
        text.contains("c.txt line 1") && text.contains("--unknown"),
        "{text}"
    );
    assert!(job(&["predict", "out", "missing.txt"]).contains("missing.txt"));
    let text = job(&["predict", "nowhere", "c.txt"]);
    assert!(text.contains("nowhere: No such file"), "{text}");
    assert!(job(&["predict", "data", "c.txt"]).contains("has no model"));
    let text = job(&["predict", "out", "c.txt", "--config-args", "is_predict"]);
    assert!(
        text.contains("--config-args is_predict") && !text.contains("trainer_id"),
        "{text}"
    );
    let twice = ["--output", "__fc_layer_0__", "--output", "__fc_layer_0__"];
    let text = job(&[&["predict", "out", "c.txt"][..], &twice].concat());
    assert!(text.contains("named twice"), "{text}");
    let text = job(&["predict", "out", "c.txt", "--unknown", "99999999"]);
    assert!(
        text.contains("the ids of data layer 'word' are below"),
        "{text}"
    );
    let text = job(&["predict", "out", "c.txt", "--separator", "é"]);
    assert!(text.contains("one ASCII character"), "{text}");
    // A dictionary has a word for each id, once.
    let words = fs::read_to_string(folder.path("job/data/dict.txt")).unwrap();
    let words: Vec<&str> = words
        .lines()
        .map(|l| l.split('\t').next().unwrap())
        .collect();
    let count = words.len();
    let more = format!("word\n{}\n", words.join("\n"));
    let fewer = words[1..].join("\n");
    let again = [&[words[1]][..], &words[1..]].concat().join("\n");
    for (text, what) in [
        (
            more,
            format!(
                "has {} words, but the data layer has {count} ids",
                count + 1
            ),
        ),
        (fewer, format!("has {} words", count - 1)),
        (
            again,
            format!("the word '{}' has two ids, 0 and 1", words[1]),
        ),
    ] {
        file("words", &text);
        let text = job(&["predict", "out", "c.txt", "--dictionary", "word=words"]);
        assert!(text.contains(&what), "{what}: {text}");
    }
    file("words", &words.join("\n"));
    file("good.txt", "great\n");
    let args = ["predict", "out", "good.txt", "--dictionary", "word=words"];
    assert_eq!(
        stdout(&folder, &args),
        stdout(&folder, &["predict", "out", "good.txt"])
    );
    let text = job(&["predict", "out", "c.txt", "--dictionary", "word=nix"]);
    assert!(
        text.contains("--dictionary word=nix: the file cannot be read"),
        "{text}"
    );
    assert!(job(&["predict", "out", "c.txt", "--output", "x"]).contains("no layer 'x'"));
    fs::create_dir(folder.path("job/out/pass-00007")).unwrap();
    assert!(job(&["predict", "out/pass-00007", "c.txt"]).contains("done"));
    fs::remove_file(folder.path("job/out/pass-00000/___fc_layer_0__.w0")).unwrap();
    assert!(job(&["predict", "out", "c.txt"]).contains("___fc_layer_0__.w0"));
}

#[test]
fn an_exported_model_comes_back_and_words_have_neighbours() {
    let folder = trained("trainer_config.emb.py");
    for ending in ["npz", "safetensors"] {
        let (file, back) = (format!("m.{ending}"), format!("back-{ending}/pass-00000"));
        succeeded(&folder.canoe_in("job", &["model", "export", "out", &file]));
        let import = [
            "model",
            "import",
            &file,
            &back,
            "--config",
            "quick_start/trainer_config.emb.py",
        ];
        succeeded(&folder.canoe_in("job", &import));
        let original = folder.parameters("job/out/pass-00000");
        assert_eq!(folder.parameters(&format!("job/{back}")), original);
        assert!(failed(&folder.canoe_in("job", &import)).contains("exists"));
    }
    let near = [
        "model",
        "neighbours",
        "out",
        "embedding_0.weight",
        "great",
        "--json",
    ];
    let list: serde_json::Value = serde_json::from_str(&stdout(&folder, &near)).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 10);
    assert!(list[0]["cosine"].as_f64() >= list[9]["cosine"].as_f64());
    let nobody = [
        "model",
        "neighbours",
        "out",
        "embedding_0.weight",
        "nosuchword",
    ];
    assert!(failed(&folder.canoe_in("job", &nobody)).contains("nosuchword"));
    let embed = ["model", "embed", "out", "embedding_0.weight"];
    let rows = stdout(&folder, &embed);
    let words = fs::read_to_string(folder.path("job/data/dict.txt")).unwrap();
    assert_eq!(rows.lines().count(), words.lines().count());
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = trained("trainer_config.lr.py");
    let many = "good\n".repeat(200_000);
    fs::write(folder.path("job/many.txt"), many).unwrap();
    let mut child = Command::new(CANOE)
        .args(["predict", "out", "many.txt"])
        .current_dir(folder.path("job"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.code(), Some(141));
}

#[test]
fn what_came_before_a_bad_line_is_written_and_nothing_is_replaced_or_left() {
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    fs::write(job("in.csv"), "id,word\n1,great\n2,bad\n").unwrap();
    let good = stdout(&folder, &["predict", "out", "in.csv"]);
    // A file that ends inside of quotes, lines that are no JSON, bytes that are no text.
    fs::write(job("cut.csv"), "id,word\n1,great\n2,bad\n3,\"cut\n").unwrap();
    let jsonl = "{\"word\":\"great\"}\n{\"word\":\"bad\"}\n{\"word\":5}\n";
    fs::write(job("bad.jsonl"), jsonl).unwrap();
    fs::write(
        job("long.csv"),
        "id,word\n1,great\n2,bad\n3,great,4\n5,great\n",
    )
    .unwrap();
    fs::write(job("bad.txt"), b"great\nbad\n\xff\xfe\n").unwrap();
    for (file, what) in [
        ("cut.csv", "line 4: the file ends inside the quotes"),
        ("long.csv", "line 4: 3 fields, but the header has 2 columns"),
        ("bad.jsonl", "bad.jsonl line 3"),
        ("bad.txt", "not text in UTF-8"),
    ] {
        let out = folder.canoe_in("job", &["predict", "out", file, "--format", "csv"]);
        assert!(failed(&out).contains(what), "{file}: {}", said(&out));
        assert_eq!(String::from_utf8(out.stdout).unwrap(), good, "{file}");
    }
    failed(&folder.canoe_in("job", &["predict", "out", "cut.csv", "-o", "new.csv"]));
    assert!(!job("new.csv").exists() && !job(".new.csv.part").exists());
    // A mark before text in UTF-8 is no part of the first word.
    fs::write(job("mark.txt"), b"\xef\xbb\xbfgreat\nbad\n").unwrap();
    assert_eq!(stdout(&folder, &["predict", "out", "mark.txt"]), good);
    // The output must not be an input, under any name.
    std::os::unix::fs::symlink("in.csv", job("link.csv")).unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "in.csv", "-o", "link.csv"]));
    assert!(text.contains("would replace an input"), "{text}");
    assert_eq!(
        fs::read_to_string(job("in.csv")).unwrap(),
        "id,word\n1,great\n2,bad\n"
    );
    fs::write(job("empty.csv"), "").unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "empty.csv"]));
    assert!(text.contains("is empty"), "{text}");
}

#[test]
fn names_of_classes_must_fit() {
    let folder = trained("trainer_config.lr.py");
    for (names, what) in [
        ("a\nb\nc\n", "has 3 names"),
        ("a\n", "has 1 names"),
        ("", "has 0 names"),
        ("x\nx\n", "two classes are called 'x'"),
        ("pos\t2\nneg\t1\n", "line 1 has a number behind a tab"),
        ("pos\t1\nneg\t1\n", "line 1 has a number behind a tab"),
        ("pos\nneg\t5\n", "line 2 has a number behind a tab"),
    ] {
        fs::write(folder.path("job/names"), names).unwrap();
        let args = ["predict", "out", "data/pred.txt", "--labels", "names"];
        let text = failed(&folder.canoe_in("job", &args));
        assert!(text.contains(what), "{names:?}: {text}");
    }
    let refused = |labels: &str| {
        let args = ["predict", "out", "data/pred.txt", "--labels", labels];
        failed(&folder.canoe_in("job", &args))
    };
    let text = refused("nolayer=names");
    assert!(
        text.contains("no such output; there are __fc_layer_0__"),
        "{text}"
    );
    let text = refused("nix");
    assert!(
        text.contains("--labels nix: the file cannot be read"),
        "{text}"
    );
    fs::write(folder.path("job/names"), "blame\npraise\n").unwrap();
    let args = ["predict", "out", "data/pred.txt", "--labels", "names"];
    assert!(stdout(&folder, &args).contains(".praise"));
}

#[test]
fn compressed_inputs_are_unpacked_and_their_inner_ending_counts() {
    use std::io::Write;
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    let csv = "id,word\n1,great\n2,bad\n";
    fs::write(job("in.csv"), csv).unwrap();
    let file = fs::File::create(job("in.csv.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(csv.as_bytes()).unwrap();
    packed.finish().unwrap();
    let plain = stdout(&folder, &["predict", "out", "in.csv", "--keep"]);
    let unpacked = stdout(&folder, &["predict", "out", "in.csv.gz", "--keep"]);
    assert_eq!(unpacked, plain);
    let bytes = fs::read(job("in.csv.gz")).unwrap();
    fs::write(job("cut.csv.gz"), &bytes[..bytes.len() - 9]).unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "cut.csv.gz"]));
    assert!(text.contains("cut.csv.gz"), "{text}");
}

#[test]
fn ids_of_libsvm_count_as_in_the_training_data() {
    let folder = Folder::empty();
    let job = |name: &str| folder.path(name);
    fs::write(
        job("sparse.py"),
        "from paddle.trainer_config_helpers import *\n\
        define_native_data_sources(['train.svm'], None, format='libsvm',\n\
        \x20   slots=[native_features(4, layer='features'), native_label(2, layer='label')])\n\
        settings(batch_size=2, learning_rate=0.5)\n\
        output = fc_layer(input=data_layer(name='features', size=4), size=2, act=SoftmaxActivation())\n\
        outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))\n",
    )
    .unwrap();
    fs::write(job("train.svm"), "1 1:1 2:0.5\n-1 4:1\n").unwrap();
    let args = [
        "train",
        "--config=sparse.py",
        "--save_dir=out",
        "--num_passes=3",
    ];
    succeeded(&folder.canoe(&args));
    let predicted = |args: &[&str]| {
        let out = folder.canoe(&[&["predict", "out"][..], args].concat());
        succeeded(&out);
        String::from_utf8(out.stdout).unwrap()
    };
    let by_reader = predicted(&["train.svm", "--input-format", "provider"]);
    fs::write(job("features.txt"), "1:1 2:0.5\n4:1\n").unwrap();
    assert_eq!(predicted(&["features.txt"]), by_reader);
    let json = "{\"features\": [[1, 1], [2, 0.5]]}\n{\"features\": {\"4\": 1}}\n";
    fs::write(job("features.jsonl"), json).unwrap();
    assert_eq!(predicted(&["features.jsonl", "--format", "csv"]), by_reader);
    fs::write(job("features.txt"), "0:1\n").unwrap();
    let text = failed(&folder.canoe(&["predict", "out", "features.txt"]));
    assert!(
        text.contains("id 0 is out of range, ids are 1 to 4"),
        "{text}"
    );
}

#[test]
fn what_an_output_names_is_written_to_and_not_destroyed() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = trained("trainer_config.emb.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    fs::write(job("in.txt"), "great\nbad\n").unwrap();
    let want = stdout(&folder, &["predict", "out", "in.txt"]);
    let embed = ["model", "embed", "out", "embedding_0.weight"];
    let rows = stdout(&folder, &embed);
    let config = "quick_start/trainer_config.emb.py";
    let diagram = ["config", "diagram", config];
    let drawing = stdout(&folder, &diagram);
    let export = ["model", "export", "out"];
    succeeded(&folder.canoe_in("job", &[&export[..], &["plain.safetensors"]].concat()));
    let exported = fs::read(job("plain.safetensors")).unwrap();
    let merge = [
        "merge_model",
        "--model_dir=out/pass-00000",
        "--config=quick_start/trainer_config.emb.py",
    ];
    succeeded(&folder.canoe_in("job", &[&merge[..], &["--model_file=plain.bin"]].concat()));
    let merged = fs::read(job("plain.bin")).unwrap();
    let write = |command: &str, to: &str| {
        let flag = format!("--model_file={to}");
        let args: Vec<&str> = match command {
            "predict" => vec!["predict", "out", "in.txt", "-o", to],
            "embed" => [&embed[..], &["-o", to]].concat(),
            "diagram" => [&diagram[..], &["-o", to]].concat(),
            "export" => [&export[..], &[to]].concat(),
            _ => [&merge[..], &[&flag]].concat(),
        };
        folder.canoe_in("job", &args)
    };
    for (command, want) in [
        ("predict", want.as_bytes()),
        ("embed", rows.as_bytes()),
        ("diagram", drawing.as_bytes()),
        ("export", &exported),
        ("merge", &merged),
    ] {
        // A link stays, and its target is replaced, with the mode that it had.
        let (link, target) = ("link.safetensors", "target.safetensors");
        fs::write(job(target), "old").unwrap();
        fs::set_permissions(job(target), fs::Permissions::from_mode(0o600)).unwrap();
        symlink(target, job(link)).unwrap();
        succeeded(&write(command, link));
        assert!(job(link).is_symlink(), "{command}");
        assert_eq!(fs::read(job(target)).unwrap(), want, "{command}");
        let mode = fs::metadata(job(target)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{command}");
        fs::remove_file(job(link)).unwrap();
        // A FIFO gets the text and stays one.
        let fifo = job("fifo.safetensors");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        let out = write(command, "fifo.safetensors");
        assert!(
            fs::metadata(&fifo).unwrap().file_type().is_fifo(),
            "{command}"
        );
        succeeded(&out);
        assert!(reader.join().unwrap() == want, "{command}");
        fs::remove_file(&fifo).unwrap();
    }
    for (command, want) in [("predict", &want), ("embed", &rows), ("diagram", &drawing)] {
        for standard in ["-", "/dev/stdout"] {
            let out = write(command, standard);
            succeeded(&out);
            assert_eq!(&String::from_utf8(out.stdout).unwrap(), want, "{command}");
        }
    }
    assert!(!job("-").exists());
    let text = failed(&write("predict", "."));
    assert!(text.contains("directory"), "{text}");
    // By its ending it is compressed.
    succeeded(&write("predict", "out.csv.gz"));
    let mut text = String::new();
    let packed = fs::File::open(job("out.csv.gz")).unwrap();
    let mut unpacked = flate2::read::GzDecoder::new(packed);
    std::io::Read::read_to_string(&mut unpacked, &mut text).unwrap();
    assert_eq!(text, want);
}

#[test]
fn two_predictions_to_one_file_do_not_mix() {
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    let mut wanted = Vec::new();
    for word in ["great", "bad"] {
        fs::write(job(word), format!("{word}\n").repeat(30_000)).unwrap();
        wanted.push(stdout(&folder, &["predict", "out", word]));
    }
    let both = ["great", "bad"].map(|word| {
        let mut command = Command::new(CANOE);
        command.args(["predict", "out", word, "-o", "two.csv"]);
        command.current_dir(folder.path("job")).spawn().unwrap()
    });
    for mut one in both {
        assert!(one.wait().unwrap().success());
    }
    let got = fs::read_to_string(job("two.csv")).unwrap();
    assert!(wanted.contains(&got), "{} bytes of both", got.len());
    let left = fs::read_dir(folder.path("job")).unwrap();
    let parts = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(parts.count(), 0);
}

#[test]
fn kept_fields_are_as_they_were_and_no_name_stands_twice() {
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    let lines = "{\"z\": 12345678901234567890123, \"word\": \"great\", \"a\": [1, \"x\"]}\n{\"word\": \"bad\"}\n";
    fs::write(job("in.jsonl"), lines).unwrap();
    let kept = stdout(&folder, &["predict", "out", "in.jsonl", "--keep"]);
    let first = "{\"z\": 12345678901234567890123, \"word\": \"great\", \"a\": [1, \"x\"],\"__fc_layer_0__\":";
    assert!(kept.starts_with(first), "{kept}");
    let csv = ["predict", "out", "in.jsonl", "--keep", "-o", "kept.csv"];
    succeeded(&folder.canoe_in("job", &csv));
    let kept = fs::read_to_string(job("kept.csv")).unwrap();
    let records: Vec<&str> = kept.lines().collect();
    assert!(records[0].starts_with("z,word,a,__fc_layer_0__,"), "{kept}");
    let start = "12345678901234567890123,great,\"[1, \"\"x\"\"]\",";
    assert!(records[1].starts_with(start), "{kept}");
    assert!(records[2].starts_with(",bad,,"), "{kept}");
    fs::write(
        job("more.jsonl"),
        "{\"word\": \"great\"}\n{\"word\": \"bad\", \"b\": 1}\n",
    )
    .unwrap();
    let out = folder.canoe_in(
        "job",
        &["predict", "out", "more.jsonl", "--keep", "--format", "csv"],
    );
    let text = failed(&out);
    assert!(
        text.contains("more.jsonl line 2") && text.contains("field 'b'"),
        "{text}"
    );
    assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 2);
    // A name of the result.
    fs::write(job("twice.csv"), "word,__fc_layer_0__\ngreat,1\n").unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "twice.csv", "--keep"]));
    assert!(text.contains("column '__fc_layer_0__'"), "{text}");
    stdout(&folder, &["predict", "out", "twice.csv"]);
    fs::write(
        job("twice.jsonl"),
        "{\"word\": \"great\", \"__fc_layer_0__\": 1}\n",
    )
    .unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "twice.jsonl", "--keep"]));
    assert!(
        text.contains("line 1") && text.contains("'__fc_layer_0__'"),
        "{text}"
    );
    // The separator is that of the result, too, and .tsv has tabs.
    fs::write(job("in.tsv"), "id\tword\n1\tgreat, very\n").unwrap();
    let tabs = stdout(&folder, &["predict", "out", "in.tsv", "--keep"]);
    assert!(tabs.starts_with("id\tword\t__fc_layer_0__\t"), "{tabs}");
    assert!(tabs.contains("\n1\tgreat, very\t"), "{tabs}");
}

#[test]
fn a_native_reader_needs_no_label_and_predicts_no_training_data() {
    let folder = Folder::empty();
    let config = "from paddle.trainer_config_helpers import *\n\
        define_native_data_sources(['flowers.csv'], None, format='csv', header=True,\n\
        \x20   slots=[native_dense(['width', 'height'], layer='sizes'), native_integer('species', 3, layer='species')])\n\
        settings(batch_size=2, learning_rate=0.5)\n\
        output = fc_layer(input=data_layer(name='sizes', size=2), size=3, act=SoftmaxActivation())\n\
        outputs(classification_cost(input=output, label=data_layer(name='species', size=3)))\n";
    fs::write(folder.path("flowers.py"), config).unwrap();
    let data = "width,height,species\n0.2,2.1,0\n1.1,0.9,1\n1.9,0.2,2\n";
    fs::write(folder.path("flowers.csv"), data).unwrap();
    let train = ["train", "--config=flowers.py", "--save_dir=out"];
    succeeded(&folder.canoe(&[&train[..], &["--num_passes=1"]].concat()));
    let predict = |args: &[&str]| {
        let args = [&["predict", "out", "--input-format", "provider"][..], args].concat();
        folder.canoe(&args)
    };
    let with = predict(&["flowers.csv"]);
    succeeded(&with);
    for (name, text) in [
        ("without.csv", "height,width\n2.1,0.2\n0.9,1.1\n0.2,1.9\n"),
        (
            "unknown.csv",
            "width,height,species\n0.2,2.1,?\n1.1,0.9,\n1.9,0.2,7\n",
        ),
    ] {
        fs::write(folder.path(name), text).unwrap();
        let without = predict(&[name]);
        succeeded(&without);
        assert_eq!(without.stdout, with.stdout, "{name}");
    }
    let text = failed(&predict(&[]));
    assert!(text.contains("no test list; name the files"), "{text}");
    let text = failed(&predict(&["-"]));
    assert!(text.contains("not standard input"), "{text}");
    let text = failed(&predict(&["nix.csv"]));
    assert!(
        text.contains("nix.csv: ") && !text.contains("list"),
        "{text}"
    );
    fs::write(folder.path("short.csv"), "width\n1\n").unwrap();
    assert!(failed(&predict(&["short.csv"])).contains("\"height\""));
}

#[test]
fn a_merged_model_runs_its_own_provider_and_says_which() {
    let folder = trained("trainer_config.lr.py");
    let merge = [
        "merge_model",
        "--model_dir=job/out/pass-00000",
        "--config=job/quick_start/trainer_config.lr.py",
        "--model_file=mine/m.bin",
    ];
    for name in ["mine", "foreign"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    succeeded(&folder.canoe(&merge));
    let foreign = "open('executed', 'w')\n";
    let module = fs::read_dir(folder.path("job/quick_start")).unwrap();
    let modules = module.map(|entry| entry.unwrap().file_name());
    for name in modules {
        fs::write(folder.path("foreign").join(name), foreign).unwrap();
    }
    fs::write(folder.path("mine/in.txt"), "great\n").unwrap();
    let text = failed(&folder.canoe_in("mine", &["predict", "m.bin", "in.txt"]));
    assert!(
        text.contains("was looked for in") && text.contains("/mine"),
        "{text}"
    );
    for place in ["mine/executed", "foreign/executed", "executed"] {
        assert!(!folder.path(place).exists(), "{place}");
    }
    let args = ["predict", "m.bin", "in.txt", "--job", "../job"];
    let out = folder.canoe_in("mine", &args);
    succeeded(&out);
    assert!(said(&out).contains("data provider: ") && said(&out).contains("quick_start/"));
}

#[test]
fn names_beyond_ascii_are_those_that_the_configuration_writes() {
    let folder = Folder::empty();
    let config = "from paddle.trainer_config_helpers import *\n\
        define_py_data_sources2('liste.txt', None, module='prov', obj='lesen')\n\
        settings(batch_size=2, learning_rate=0.5)\n\
        wort = data_layer(name='wört', size=3)\n\
        vektor = embedding_layer(input=wort, size=2, param_attr=ParamAttr(name='wörds'))\n\
        größe = data_layer(name='größe', size=2)\n\
        aus = fc_layer(input=[vektor, größe], size=2, act=SoftmaxActivation(), name='ausgäbe')\n\
        outputs(classification_cost(input=aus, label=data_layer(name='etikett', size=2)))\n";
    let provider = "from paddle.trainer.PyDataProvider2 import *\n\
        @provider(input_types={'wört': integer_value(3), 'größe': dense_vector(2), 'etikett': integer_value(2)})\n\
        def lesen(settings, name):\n\
        \x20   for i in range(4):\n\
        \x20       yield {'wört': i % 3, 'größe': [i, 1], 'etikett': i % 2}\n";
    for language in ["", "# python: 2\n", "# python: 3\n"] {
        // In Python 2 a variable's name is ASCII.
        let config = format!("{language}{config}").replace("größe = ", "groesse = ");
        let config = config.replace("[vektor, größe]", "[vektor, groesse]");
        fs::write(folder.path("c.py"), config).unwrap();
        fs::write(folder.path("prov.py"), format!("{language}{provider}")).unwrap();
        fs::write(folder.path("liste.txt"), "x\n").unwrap();
        let _ = fs::remove_dir_all(folder.path("out"));
        let train = ["train", "--config=c.py", "--save_dir=out", "--num_passes=1"];
        succeeded(&folder.canoe(&train));
        assert!(folder.path("out/pass-00000/wörds").exists(), "{language}");
        let run = |args: &[&str]| {
            let out = folder.canoe(args);
            succeeded(&out);
            String::from_utf8(out.stdout).unwrap()
        };
        let dump = run(&["config", "dump", "c.py"]);
        assert!(dump.contains("name: \"w\\303\\266rds\""), "{dump}");
        fs::write(
            folder.path("in.jsonl"),
            "{\"wört\": 1, \"größe\": [0.5, 1]}\n",
        )
        .unwrap();
        fs::write(folder.path("in.csv"), "größe.1,wört,größe.0\n1,1,0.5\n").unwrap();
        let json = run(&["predict", "out", "in.jsonl", "--output", "ausgäbe"]);
        assert!(json.starts_with("{\"ausgäbe\":"), "{json}");
        let csv = run(&["predict", "out", "in.csv"]);
        assert!(csv.starts_with("ausgäbe,ausgäbe.0,ausgäbe.1\n"), "{csv}");
        let from_json = run(&["predict", "out", "in.jsonl", "--format", "csv"]);
        assert_eq!(csv, from_json);
        let typed = [
            "--type",
            "wört=integer_value",
            "--type",
            "größe=dense_vector",
        ];
        assert_eq!(
            run(&[&["predict", "out", "in.csv"][..], &typed].concat()),
            csv
        );
        run(&["model", "neighbours", "out", "wörds", "1"]);
        run(&["model", "export", "out", "m.npz"]);
        run(&["model", "export", "out", "m.onnx"]);
        let _ = fs::remove_dir_all(folder.path("back"));
        fs::create_dir(folder.path("back")).unwrap();
        run(&[
            "model",
            "import",
            "m.npz",
            "back/pass-00000",
            "--config",
            "c.py",
        ]);
        let file = |pass: &str| fs::read(folder.path(pass).join("wörds")).unwrap();
        assert_eq!(file("back/pass-00000"), file("out/pass-00000"));
    }
}

/// A server that is ended with the test.
struct Served {
    process: std::process::Child,
    url: String,
}

impl Served {
    fn start(folder: &Folder, args: &[&str]) -> Self {
        use std::io::BufRead;
        let mut process = Command::new(CANOE)
            .args([&["serve"][..], args].concat())
            .current_dir(folder.path("."))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let (_, url) = line.split_once(" at ").unwrap();
        let url = format!("{url}predict");
        Self { process, url }
    }

    fn predict(&self, body: &str) -> String {
        let response = ureq::post(&self.url).send(body).unwrap();
        response.into_body().read_to_string().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_survives_what_is_done_to_the_files_of_its_pass() {
    let folder = Folder::empty();
    // A table that is large enough to be mapped.
    let config = "from paddle.trainer_config_helpers import *\n\
        define_py_data_sources2('list', None, module='prov', obj='read')\n\
        settings(batch_size=4, learning_rate=get_config_arg('rate', float, 0.5))\n\
        word = data_layer(name='word', size=4200000)\n\
        row = embedding_layer(input=word, size=4, param_attr=ParamAttr(name='tab'))\n\
        output = fc_layer(input=row, size=2, act=SoftmaxActivation(), name='out')\n\
        outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))\n";
    let provider = "from paddle.trainer.PyDataProvider2 import *\n\
        @provider(input_types={'word': integer_value(4200000), 'label': integer_value(2)})\n\
        def read(settings, name):\n\
        \x20   for i in range(4):\n\
        \x20       yield {'word': i * 1000000, 'label': i % 2}\n";
    fs::write(folder.path("c.py"), config).unwrap();
    fs::write(folder.path("prov.py"), provider).unwrap();
    fs::write(folder.path("list"), "x\n").unwrap();
    for (save, rate) in [("m", "0.5"), ("n", "0.1")] {
        let (save, rate) = (
            format!("--save_dir={save}"),
            format!("--config_args=rate={rate}"),
        );
        let train = ["train", "--config=c.py", "--num_passes=1", &save, &rate];
        succeeded(&folder.canoe(&train));
    }
    let pass = |name: &str| folder.path(name).join("pass-00000");
    let body = "{\"word\": 3000000}";
    let other = Served::start(&folder, &["n/pass-00000", "--address", "localhost:0"]);
    let wanted = other.predict(body);
    let args = [
        "m/pass-00000",
        "--address",
        "127.0.0.1:0",
        "--look-period",
        "0.05",
    ];
    let server = Served::start(&folder, &args);
    let before = server.predict(body);
    assert_ne!(before, wanted);
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(pass("m").join("tab"))
        .unwrap();
    assert_eq!(server.predict(body), before);
    // The other model is copied over it, file by file, and taken when it is whole.
    let mut files: Vec<_> = fs::read_dir(pass("n"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    for file in files {
        let mut from = fs::File::open(pass("n").join(&file)).unwrap();
        let mut to = fs::File::create(pass("m").join(&file)).unwrap();
        std::io::copy(&mut from, &mut to).unwrap();
        let now = server.predict(body);
        assert!(now == before || now == wanted, "{now}");
    }
    let start = std::time::Instant::now();
    while server.predict(body) != wanted {
        assert!(start.elapsed().as_secs() < 120, "{}", server.predict(body));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for period in ["nan", "0", "inf", "1e30", "-1", "x"] {
        let args = format!("--look-period={period}");
        let text = failed(&folder.canoe(&["serve", "m/pass-00000", &args]));
        assert!(text.contains("seconds from 0.05 to 86400"), "{text}");
    }
    let text = failed(&folder.canoe(&["serve", "m/pass-00000", "--address", "nowhere"]));
    assert!(text.contains("127.0.0.1:7273 is expected"), "{text}");
}
