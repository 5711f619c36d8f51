//! v1 data providers: types, options, order.

use super::*;

const NUMBERS: &str = "
@provider(input_types=[integer_value(100000)]OPTIONS)
def process(settings, name):
    with open(name) as lines:
        for line in lines:
            yield int(line)
";

fn numbers(options: &str, counts: &[usize]) -> Job {
    let job = Job::with_provider(&NUMBERS.replace("OPTIONS", options), &[("n", 100_000)]);
    job.numbers(counts);
    job
}

fn sorted(batches: Vec<Vec<u32>>) -> Vec<u32> {
    let mut all = batches.concat();
    all.sort_unstable();
    all
}

#[test]
fn without_shuffling_samples_come_in_order_of_files() {
    let job = numbers(", should_shuffle=False", &[3, 0, 300, 2]);
    let mut source = job.open().unwrap();
    let got = batches(&mut source, 0, 0);
    assert_eq!(got[0].samples, 4);
    assert_eq!(got.last().unwrap().samples, 1);
    assert_eq!(ids(&got, 0).concat(), (0..305).collect::<Vec<_>>());
}

#[test]
fn the_order_depends_on_seed_pass_and_trainer_and_nothing_else() {
    for options in [
        "",
        ", pool_size=50",
        ", min_pool_size=0",
        ", cache=CacheType.CACHE_PASS_IN_MEM",
        ", pool_size=20, cache=1",
    ] {
        let counts: Vec<usize> = (0..20).map(|i| i * 13 % 170).collect();
        let total: usize = counts.iter().sum();
        let mut job = numbers(options, &counts);
        let mut runs = Vec::new();
        for workers in [1, 3] {
            job.options.workers = Some(workers);
            let mut source = job.open().unwrap();
            let passes: Vec<_> = (0..3)
                .map(|pass| ids(&batches(&mut source, pass, 0), 0))
                .collect();
            assert_eq!(
                sorted(passes[1].clone()),
                (0..total as u32).collect::<Vec<_>>()
            );
            assert_ne!(passes[0], passes[1], "{options}");
            runs.push(passes);
        }
        assert!(runs[0] == runs[1], "{options}");
        // A process that starts at pass 2, in the middle of it, and one that goes back.
        let mut source = job.open().unwrap();
        assert!(
            ids(&batches(&mut source, 2, 7), 0) == runs[0][2][7..],
            "{options}"
        );
        assert!(
            ids(&batches(&mut source, 1, 0), 0) == runs[0][1],
            "{options}"
        );
        job.options.trainer = 1;
        assert_ne!(ids(&batches(&mut job.open().unwrap(), 0, 0), 0), runs[0][0]);
    }
}

#[test]
fn a_pass_can_be_given_up_in_the_middle() {
    for options in [
        "",
        ", cache=CacheType.CACHE_PASS_IN_MEM, should_shuffle=False",
    ] {
        let job = numbers(options, &[2000, 3000]);
        let mut source = job.open().unwrap();
        source.start_pass(0, 0);
        let first = source.next_batch().unwrap().unwrap();
        source.start_pass(1, 0);
        source.next_batch().unwrap().unwrap();
        let whole = batches(&mut source, 0, 0);
        assert_eq!(whole.len(), 1250);
        assert_eq!(ids(&[first], 0)[0], ids(&whole, 0)[0]);
    }
}

#[test]
fn a_batch_that_was_seen_ahead_is_the_next_one() {
    let job = numbers("", &[20]);
    let mut source = job.open().unwrap();
    let passes = [0, 1].map(|pass| ids(&batches(&mut source, pass, 0), 0));
    assert_ne!(passes[0][0], passes[1][0]);
    for (pass, whole) in (0..).zip(&passes) {
        source.start_pass(pass, 0);
        for expected in whole {
            let seen = loop {
                if let Some(batch) = source.peek() {
                    break batch.clone();
                }
                std::thread::yield_now();
            };
            let next = source.next_batch().unwrap().unwrap();
            assert_eq!(ids(&[seen, next], 0), [expected.clone(), expected.clone()]);
        }
        assert!(source.next_batch().unwrap().is_none());
        assert!(source.peek().is_none());
        // What is seen of a pass that is given up is not part of the next one.
        source.start_pass(pass, 0);
        while source.peek().is_none() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_end_of_a_pass_may_be_asked_for_again() {
    let job = numbers("", &[4]);
    let mut source = job.open().unwrap();
    for pass in 0..2 {
        assert_eq!(batches(&mut source, pass, 0).len(), 1);
        assert!(source.next_batch().unwrap().is_none());
    }
}

#[test]
fn a_cached_source_calls_python_once() {
    let code = "
@provider(input_types=[integer_value(1000)], cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, name):
    with open(name + '.reads', 'a') as log:
        log.write('read')
    for line in open(name):
        yield int(line)
";
    let job = Job::with_provider(code, &[("n", 1000)]);
    job.numbers(&[10, 10]);
    let mut source = job.open().unwrap();
    for pass in 0..3 {
        assert_eq!(sorted(ids(&batches(&mut source, pass, 0), 0)).len(), 20);
    }
    let reads = std::fs::read_to_string(job.directory.path().join("0.txt.reads")).unwrap();
    assert_eq!(reads, "read");
}

#[test]
fn every_type_and_nesting() {
    let code = "
def init(settings, file_list, is_train, input_order, depth, **kwargs):
    assert file_list == ['0.txt'] and is_train and input_order[0] == 'd0', (file_list, input_order)
    settings.logger.info('depth is %s', depth)
    settings.input_types = {
        'd0': dense_vector(2), 'd1': dense_vector_sequence(2), 'd2': dense_vector_sub_sequence(2),
        'b0': sparse_binary_vector(9), 'b1': sparse_binary_vector_sequence(9), 'b2': sparse_binary_vector_sub_sequence(9),
        's0': sparse_vector(9), 's1': sparse_vector_sequence(9), 's2': sparse_vector_sub_sequence(9),
        'i0': integer_value(9), 'i1': integer_value_sequence(9), 'i2': integer_value_sub_sequence(9)}

@provider(init_hook=init, should_shuffle='off')
def process(settings, name):
    print('a provider may print')
    yield {'d0': [1, 2.5], 'd1': [[1, 2], [3, 4]], 'd2': [[[1, 2]], [[3, 4], [5, 6]]],
           'b0': [1, 1], 'b1': [[1], [], [2, 3]], 'b2': [[[1]], [[2], [3]]],
           's0': [(1, .5)], 's1': [[(1, .5), (2, 1.5)]], 's2': [[], [[(3, 2.5)]]],
           'i0': 7, 'i1': [1, 2, 3], 'i2': [[1], [2, 3]]}
    yield {'d0': [3, 4], 'd1': [], 'd2': [],
           'b0': [], 'b1': [[8]], 'b2': [],
           's0': [], 's1': [], 's2': [[[]]],
           'i0': 8, 'i1': [], 'i2': [[4, 5, 6]]}
";
    let names = [
        "d0", "d1", "d2", "b0", "b1", "b2", "s0", "s1", "s2", "i0", "i1", "i2",
    ];
    let sizes = |name: &str| if name.starts_with('d') { 2 } else { 9 };
    let inputs: Vec<(&str, usize)> = names.iter().map(|name| (*name, sizes(name))).collect();
    let mut job = Job::with_provider(code, &inputs);
    // {'depth': 3} as Python pickles it with protocol 0.
    job.config.load_data_args = Some("(dp0\nVdepth\np1\nI3\ns.".to_owned());
    job.numbers(&[1]);
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(got.len(), 1);
    let slot = |name: &str| &got[0].slots[names.iter().position(|n| *n == name).unwrap()];
    let sequences = |name: &str| slot(name).sequences.as_deref().map(<[u32]>::to_vec);
    let subsequences = |name: &str| slot(name).subsequences.as_deref().map(<[u32]>::to_vec);
    let dense = |values: &[f32]| SlotData::Dense {
        dim: 2,
        values: values.to_vec(),
    };
    let binary = |offsets: &[u32], columns: &[u32]| SlotData::Binary {
        offsets: offsets.to_vec(),
        columns: columns.to_vec(),
    };
    let sparse = |offsets: &[u32], columns: &[u32], values: &[f32]| SlotData::Sparse {
        offsets: offsets.to_vec(),
        columns: columns.to_vec(),
        values: values.to_vec(),
    };
    assert_eq!(slot("d0").data, dense(&[1.0, 2.5, 3.0, 4.0]));
    assert_eq!((sequences("d0"), subsequences("d0")), (None, None));
    assert_eq!(slot("d1").data, dense(&[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(
        (sequences("d1"), subsequences("d1")),
        (Some(vec![0, 2, 2]), None)
    );
    assert_eq!(slot("d2").data, dense(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(
        (sequences("d2"), subsequences("d2")),
        (Some(vec![0, 3, 3]), Some(vec![0, 1, 3]))
    );
    assert_eq!(slot("b0").data, binary(&[0, 2, 2], &[1, 1]));
    assert_eq!(slot("b1").data, binary(&[0, 1, 1, 3, 4], &[1, 2, 3, 8]));
    assert_eq!(sequences("b1"), Some(vec![0, 3, 4]));
    assert_eq!(slot("b2").data, binary(&[0, 1, 2, 3], &[1, 2, 3]));
    assert_eq!(
        (sequences("b2"), subsequences("b2")),
        (Some(vec![0, 3, 3]), Some(vec![0, 1, 3]))
    );
    assert_eq!(slot("s0").data, sparse(&[0, 1, 1], &[1], &[0.5]));
    assert_eq!(slot("s1").data, sparse(&[0, 2], &[1, 2], &[0.5, 1.5]));
    assert_eq!(sequences("s1"), Some(vec![0, 1, 1]));
    assert_eq!(slot("s2").data, sparse(&[0, 1, 1], &[3], &[2.5]));
    assert_eq!(
        (sequences("s2"), subsequences("s2")),
        (Some(vec![0, 1, 2]), Some(vec![0, 0, 1, 2]))
    );
    assert_eq!(slot("i0").data, SlotData::Ids(vec![7, 8]));
    assert_eq!(slot("i1").data, SlotData::Ids(vec![1, 2, 3]));
    assert_eq!(sequences("i1"), Some(vec![0, 3, 3]));
    assert_eq!(slot("i2").data, SlotData::Ids(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(
        (sequences("i2"), subsequences("i2")),
        (Some(vec![0, 3, 6]), Some(vec![0, 1, 3, 6]))
    );
}

#[test]
fn old_names_and_single_slots() {
    let code = "
@provider(slots=[index_slot(10)], should_shuffle=0)
def process(settings, name):
    yield 3
    yield 4

@provider(input_types=[integer_sequence(10), dense_slot(1), sparse_non_value_slot(3), sparse_value_slot(3)])
def mixed(settings, name):
    yield [1, 2], [0.5], (2,), [[0, 1.0]]
";
    let mut job = Job::with_provider(code, &[("n", 10)]);
    job.numbers(&[1]);
    assert_eq!(ids(&batches(&mut job.open().unwrap(), 0, 0), 0), [[3, 4]]);
    job.config.load_data_object = Some("mixed".to_owned());
    job.inputs = [("a", 10), ("b", 1), ("c", 3), ("d", 3)]
        .map(|(name, size)| DataInput {
            name: name.to_owned(),
            size,
        })
        .to_vec();
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(ids(&got, 0), [[1, 2]]);
}

#[test]
fn samples_of_custom_weight_fill_batches() {
    let code = "
@provider(input_types=[integer_value_sequence(10)], should_shuffle=False, calc_batch_size=lambda sample: len(sample[0]),
          can_over_batch_size=OVER)
def process(settings, name):
    for n in [3, 3, 1, 2, 4]:
        yield [n] * n
";
    let lengths = |over: &str| {
        let job = Job::with_provider(&code.replace("OVER", over), &[("x", 10)]);
        job.numbers(&[1]);
        let got = batches(&mut job.open().unwrap(), 0, 0);
        got.iter().map(|batch| batch.samples).collect::<Vec<_>>()
    };
    assert_eq!(lengths("True"), [2, 3]);
    assert_eq!(lengths("False"), [1, 2, 1, 1]);
}

#[test]
fn random_numbers_of_a_provider_do_not_depend_on_workers() {
    let code = "
import random
@provider(input_types=[integer_value(1000000)], should_shuffle=False)
def process(settings, name):
    for line in open(name):
        yield random.randrange(1000000)
";
    let mut job = Job::with_provider(code, &[("n", 1_000_000)]);
    job.numbers(&[200, 150, 3]);
    let mut runs = Vec::new();
    for workers in [1, 3] {
        job.options.workers = Some(workers);
        let mut source = job.open().unwrap();
        runs.push((
            ids(&batches(&mut source, 0, 0), 0),
            ids(&batches(&mut source, 1, 0), 0),
        ));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].0, runs[0].1, "passes draw differently");
}

#[test]
fn check_drops_what_does_not_fit() {
    let code = "
@provider(input_types={'a': integer_value(5), 'b': sparse_binary_vector(4)}, should_shuffle=False,
          check=True, check_fail_continue=True)
def process(settings, name):
    yield {'a': 1, 'b': [1, 2]}
    yield {'a': 9, 'b': [1]}
    yield {'a': 2, 'b': [1, 1]}
    yield {'a': 3}
    yield {'a': 4, 'b': []}
";
    let job = Job::with_provider(code, &[("a", 5), ("b", 4)]);
    job.numbers(&[1]);
    assert_eq!(ids(&batches(&mut job.open().unwrap(), 0, 0), 0), [[1, 4]]);
}

#[test]
fn modules_are_found_beside_the_configuration_and_bytes_are_tolerated() {
    let code = "
@provider(input_types=[integer_value(100)], should_shuffle=False)
def process(settings, name):
    for line in open(name):
        yield len(line.strip())
";
    let mut job = Job::with_provider(code, &[("n", 100)]);
    let elsewhere = job.directory.path().join("conf");
    std::fs::create_dir(&elsewhere).unwrap();
    let module = job.directory.path().join("my_provider.py");
    std::fs::rename(module, elsewhere.join("my_provider.py")).unwrap();
    job.options.config_directory = Some(elsewhere);
    std::fs::write(job.directory.path().join("0.txt"), b"caf\xe9\n").unwrap();
    job.write("train.list", "0.txt\n");
    assert_eq!(ids(&batches(&mut job.open().unwrap(), 0, 0), 0), [[4]]);
}

#[test]
fn long_dense_sequences_come_in_smaller_blocks() {
    let code = "
@provider(input_types=[dense_vector_sequence(1000)])
def process(settings, name):
    for i in range(20):
        yield [[i] * 1000] * 200
";
    let job = Job::with_provider(code, &[("x", 1000)]);
    job.numbers(&[1]);
    let got = batches(&mut job.open().unwrap(), 0, 0);
    assert_eq!(got.iter().map(|batch| batch.samples).sum::<usize>(), 20);
    assert_eq!(got[0].slots[0].data.rows(), 800);
}

#[test]
fn python_2_generators_may_end_by_raising() {
    let code = "
@provider(input_types=[integer_value(5)], should_shuffle=False)
def process(settings, name):
    yield 1
    for i in xrange(2):
        yield i
    raise StopIteration
    yield 4
";
    let job = Job::with_provider(code, &[("n", 5)]);
    job.numbers(&[1]);
    assert_eq!(
        ids(&batches(&mut job.open().unwrap(), 0, 0), 0),
        [[1, 0, 1]]
    );
}

#[test]
fn testing_sources_keep_the_order_by_default() {
    let mut job = numbers("", &[50, 50]);
    job.options.training = false;
    let got = ids(&batches(&mut job.open().unwrap(), 0, 0), 0);
    assert_eq!(got.concat(), (0..100).collect::<Vec<_>>());
}
