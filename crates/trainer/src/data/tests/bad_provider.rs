//! Mistakes in providers, and the messages about them.

use super::*;

/// The message of a job with the given provider over `0.txt` with three numbers.
fn message(code: &str, inputs: &[(&str, usize)]) -> String {
    let job = Job::with_provider(code, inputs);
    job.numbers(&[3]);
    job.failure().to_string()
}

fn yields(types: &str, sample: &str) -> String {
    format!(
        "
@provider(input_types={types})
def process(settings, name):
    yield GOOD
    yield {sample}
"
    )
}

#[test]
fn a_value_of_the_wrong_type_names_slot_and_sample() {
    let cases = [
        (
            "integer_value(5)",
            "1",
            "'x'",
            "integer_value(5) needs an integer, got str 'x'",
        ),
        (
            "integer_value(5)",
            "1",
            "1.5",
            "integer_value(5) needs an integer, got float 1.5",
        ),
        (
            "integer_value(5)",
            "1",
            "None",
            "integer_value(5) needs an integer, got NoneType None",
        ),
        (
            "integer_value_sequence(5)",
            "[1]",
            "3",
            "integer_value_sequence(5) needs a list, got int 3",
        ),
        (
            "integer_value_sub_sequence(5)",
            "[[1]]",
            "[1]",
            "integer_value_sub_sequence(5) needs a list, got int 1",
        ),
        (
            "dense_vector(2)",
            "[1, 2]",
            "[1, 2, 3]",
            "dense_vector(2) needs a list of 2 numbers, got 3 numbers",
        ),
        (
            "dense_vector(2)",
            "[1, 2]",
            "[1, 'y']",
            "dense_vector(2) needs a list of 2 numbers, got str 'y'",
        ),
        (
            "sparse_binary_vector(5)",
            "[1]",
            "2",
            "sparse_binary_vector(5) needs a list of positions, got int 2",
        ),
        (
            "sparse_vector(5)",
            "[(1, 1.)]",
            "[1]",
            "sparse_vector(5) needs a (position, number) pair, got int 1",
        ),
    ];
    for (types, good, bad, what) in cases {
        let code = yields(&format!("{{'x': {types}}}"), &format!("{{'x': {bad}}}"))
            .replace("GOOD", &format!("{{'x': {good}}}"));
        let dim = if types.contains("dense") { 2 } else { 5 };
        let want = format!("0.txt, sample 2: slot x of type {what}");
        assert_eq!(message(&code, &[("x", dim)]), want);
    }
}

#[test]
fn a_sample_with_too_few_values_is_named() {
    let code = yields("[integer_value(5), integer_value(5)]", "(1,)").replace("GOOD", "(1, 2)");
    let got = message(&code, &[("a", 5), ("b", 5)]);
    assert_eq!(
        got,
        "0.txt, sample 2: the sample needs 2 values, one for each slot, got tuple (1,)"
    );
    let code = yields("[integer_value(5), integer_value(5)]", "{'a': 1, 'b': 2}")
        .replace("GOOD", "(1, 2)");
    let got = message(&code, &[("a", 5), ("b", 5)]);
    assert!(
        got.contains("sample 2: the sample needs a tuple or list, because input_types is a list"),
        "{got}"
    );
}

#[test]
fn a_position_out_of_range_names_file_sample_slot_value_and_limit() {
    for (types, good, bad, value) in [
        ("sparse_binary_vector(5)", "[1]", "[4, 9]", "9"),
        ("sparse_binary_vector(5)", "[1]", "[-1]", "-1"),
        ("sparse_vector(5)", "[]", "[(6, 1.0)]", "6"),
        (
            "sparse_vector(5)",
            "[]",
            "[(1 << 40, 1.0)]",
            "1099511627776",
        ),
    ] {
        let code = yields(&format!("[{types}]"), bad).replace("GOOD", good);
        let least = if value.starts_with('-') {
            "0 or more and "
        } else {
            ""
        };
        let want =
            format!("0.txt, sample 2: slot word has the value {value}, it must be {least}below 5");
        assert_eq!(message(&code, &[("word", 5)]), want);
    }
}

/// v1 checked ids neither in the provider nor in the data layer, only with check=True.
#[test]
fn ids_are_not_compared_with_the_declared_range() {
    for (types, yielded, ids) in [
        ("integer_value(1)", "9", vec![9]),
        ("integer_value(1)", "-1", vec![u32::MAX]),
        (
            "integer_value_sequence(2)",
            "[0, 4294967295, 77]",
            vec![0, u32::MAX, 77],
        ),
    ] {
        let code = format!(
            "
@provider(input_types=[{types}])
def process(settings, name):
    yield {yielded}
"
        );
        let job = Job::with_provider(&code, &[("word", 1)]);
        job.numbers(&[1]);
        let batches = batches(&mut job.open().unwrap(), 0, 0);
        assert_eq!(batches[0].slots[0].data, SlotData::Ids(ids));
    }
    let code = yields("[integer_value(5)]", "1 << 40").replace("GOOD", "4");
    let got = message(&code, &[("word", 5)]);
    assert!(got.contains("needs an integer of 32 bits"), "{got}");
    let code = yields("[integer_value(5)], check=True", "5").replace("GOOD", "4");
    let want = "0.txt, sample 2: slot word has the value 5, it must be below 5";
    assert_eq!(message(&code, &[("word", 5)]), want);
}

#[test]
fn a_provider_that_raises_shows_the_users_traceback() {
    let code = "
@provider(input_types=[integer_value(5)])
def process(settings, name):
    yield 1
    yield 2
    yield int('seven')
";
    let got = message(code, &[("a", 5)]);
    assert!(
        got.starts_with("data provider my_provider.process failed in 0.txt, sample 3:\nTraceback"),
        "{got}"
    );
    assert!(
        got.contains("my_provider.py\", line 7, in process"),
        "{got}"
    );
    assert!(
        got.ends_with("ValueError: invalid literal for int() with base 10: 'seven'"),
        "{got}"
    );
    assert!(!got.contains("provider_worker"), "{got}");
}

#[test]
fn earlier_batches_arrive_before_the_failure() {
    let code = "
@provider(input_types=[integer_value(500)], should_shuffle=False)
def process(settings, name):
    for i in range(300):
        yield i
    raise RuntimeError('no more')
";
    let job = Job::with_provider(code, &[("a", 500)]);
    job.numbers(&[1]);
    let mut source = job.open().unwrap();
    source.start_pass(0, 0);
    let mut seen = 0;
    let error = loop {
        match source.next_batch() {
            Ok(batch) => seen += batch.unwrap().samples,
            Err(error) => break error,
        }
    };
    assert_eq!(seen, 256);
    assert!(
        matches!(error, DataError::Raised { sample: 301, .. }),
        "{error}"
    );
    assert!(matches!(source.next_batch(), Err(DataError::NoPass)));
}

#[test]
fn a_provider_process_that_is_killed_is_noticed() {
    let code = "
import os, signal
@provider(input_types=[integer_value(5)])
def process(settings, name):
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)
";
    let got = message(code, &[("a", 5)]);
    let want = "a process of data provider my_provider.process ended unexpectedly (killed by signal 9) while reading 0.txt";
    assert_eq!(got, want);
    let got = message("import os\nos._exit(3)\n", &[("a", 5)]);
    assert!(got.contains("ended unexpectedly (exit code 3)"), "{got}");
}

#[test]
fn a_missing_module_or_function_is_named() {
    let mut job = Job::with_provider(
        "@provider(input_types=[])\ndef process(settings, name): yield 1\n",
        &[("a", 5)],
    );
    job.numbers(&[1]);
    job.config.load_data_object = Some("proces".to_owned());
    let got = job.failure().to_string();
    assert!(
        got.starts_with("data provider \"my_provider\" has no \"proces\" ("),
        "{got}"
    );
    assert!(got.contains("process"), "{got}");
    job.config.load_data_module = Some("your_provider".to_owned());
    let got = job.failure().to_string();
    assert!(
        got.starts_with("data provider module \"your_provider\" was not found (searched "),
        "{got}"
    );
}

#[test]
fn failures_while_loading_show_the_traceback() {
    let got = message("import no_such_module\n", &[("a", 5)]);
    assert!(
        got.starts_with("data provider my_provider.process failed to load:\n"),
        "{got}"
    );
    assert!(
        got.contains("my_provider.py\", line 2") && got.contains("no_such_module"),
        "{got}"
    );
    let code = "
def init(settings, **kwargs):
    raise KeyError('dictionary')
@provider(init_hook=init)
def process(settings, name):
    yield 1
";
    let got = message(code, &[("a", 5)]);
    assert!(
        got.contains("line 4, in init") && got.ends_with("KeyError: 'dictionary'"),
        "{got}"
    );
    assert!(!got.contains("PyDataProvider2.py"), "{got}");
    let got = message(
        "@provider()\ndef process(settings, name):\n    yield 1\n",
        &[("a", 5)],
    );
    assert!(got.contains("input_types must be set"), "{got}");
}

#[test]
fn slots_that_do_not_fit_the_network_are_named() {
    let code = "
@provider(input_types=[dense_vector(3)])
def process(settings, name):
    yield [1, 2, 3]
";
    assert_eq!(
        message(code, &[("a", 3), ("b", 1)]),
        "data provider my_provider.process: it has 1 slots but the network has 2 data layers (a, b)"
    );
    assert_eq!(
        message(code, &[("a", 4)]),
        "data provider my_provider.process: the slot of data layer a has dimension 3 but the layer has size 4"
    );
    let code = code.replace("[dense_vector(3)]", "{'x': dense_vector(3)}");
    assert_eq!(
        message(&code, &[("a", 3)]),
        "data provider my_provider.process: input_types has no 'a'; it has 'x'"
    );
}

#[test]
fn missing_files_are_named() {
    let job = Job::with_provider(
        "@provider(input_types=[integer_value(9)])\ndef process(settings, name):\n    for line in open(name): yield 1\n",
        &[("a", 9)],
    );
    let missing = job.failure();
    assert!(
        matches!(missing, DataError::List { .. }) && missing.to_string().ends_with("train.list")
    );
    job.write("train.list", "\n");
    assert!(matches!(job.failure(), DataError::EmptyList { .. }));
    job.write("train.list", "gone.txt\n");
    let got = job.failure().to_string();
    assert!(
        got.contains("failed in gone.txt, sample 1") && got.contains("FileNotFoundError"),
        "{got}"
    );
}

#[test]
fn an_interpreter_that_does_not_exist_is_named() {
    let mut job = Job::with_provider("", &[("a", 9)]);
    job.numbers(&[1]);
    job.options.python = PathBuf::from("no-such-python");
    let got = job.failure().to_string();
    assert!(
        got.starts_with("start the data provider with no-such-python"),
        "{got}"
    );
}

#[test]
fn other_types_of_sources_are_refused_by_name() {
    let job = Job::new("other", &[("a", 9)]);
    job.numbers(&[1]);
    let got = job.failure().to_string();
    assert!(
        got.starts_with("data source type \"other\" is not supported"),
        "{got}"
    );
}

#[test]
fn a_mixture_of_sources_names_no_list_and_is_told_where_to_mix() {
    let mut job = Job::new("multi", &[("a", 9)]);
    job.config.files = None;
    let got = job.failure().to_string();
    assert!(
        got.starts_with("MultiData, a mixture of data sources, is not supported; mix them in one"),
        "{got}"
    );
}
