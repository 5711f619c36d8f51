//! Providers in Python 2 yield the same values as with v1.

use super::*;

/// The ids that a provider yields over `0.txt` with the numbers 0 to 4.
fn yielded(code: &str) -> Vec<u32> {
    let job = Job::with_provider(code, &[("n", 100_000)]);
    job.numbers(&[5]);
    ids(&batches(&mut job.open().unwrap(), 0, 0), 0).concat()
}

#[test]
fn integers_are_divided_as_python_2_did() {
    let code = "
@provider(input_types=[integer_value(100)], should_shuffle=False)
def process(settings, name):
    for line in file(name):
        yield int(line) / 2
";
    assert_eq!(yielded(code), [0, 0, 1, 1, 2]);
}

#[test]
fn dense_values_are_rounded_down_or_refused_but_never_silently_fractions() {
    let code = "
@provider(input_types=[dense_vector(1)], should_shuffle=False)
def process(settings, name):
    for line in open(name):
        yield [int(line) / 2]
";
    let job = Job::with_provider(code, &[("n", 1)]);
    job.numbers(&[5]);
    let message = job.failure().to_string();
    assert!(message.contains("1 / 2 is rounded down"), "{message}");
    assert!(message.contains("# python: 2"), "{message}");
    assert!(!message.contains("arithmetic.py"), "{message}");

    for (mark, expected) in [
        ("# python: 2", [0.0, 0.0, 1.0, 1.0, 2.0]),
        ("# python: 3", [0.0, 0.5, 1.0, 1.5, 2.0]),
        ("from __future__ import division", [0.0, 0.5, 1.0, 1.5, 2.0]),
    ] {
        let job = Job::new("py2", &[("n", 1)]);
        job.numbers(&[5]);
        let import = "from paddle.trainer.PyDataProvider2 import *";
        job.write("my_provider.py", &format!("{mark}\n{import}\n{code}"));
        let got: Vec<f32> = batches(&mut job.open().unwrap(), 0, 0)
            .iter()
            .flat_map(|batch| match &batch.slots[0].data {
                SlotData::Dense { values, .. } => values.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(got, expected, "{mark}");
    }
}

#[test]
fn files_are_text_however_they_are_opened() {
    let code = "
import gzip, cPickle, struct
from cStringIO import StringIO

def hook(settings, **kwargs):
    out = gzip.open('words.gz', 'wb')
    out.write('\\xc3\\xa0\\t1\\nb\\t2\\n')
    out.close()
    settings.words = dict([line.strip().split('\\t') for line in gzip.open('words.gz', 'rb')])
    print 'words', len(settings.words)
    settings.input_types = [integer_value(100000)]

@provider(init_hook=hook, should_shuffle=False)
def process(settings, name):
    yield int(settings.words['\\xc3\\xa0'])
    yield struct.unpack('<H', struct.pack('<H', 0xfffe))[0]
    yield cPickle.loads(cPickle.dumps(7, 2))
    f = open(name)
    f.next()
    yield int(f.next())
    yield map(len, StringIO('ab\\ncde').readlines())[1]
";
    assert_eq!(yielded(code), [1, 0xfffe, 7, 1, 3]);
}

#[test]
fn statements_of_python_2() {
    let code = "
import sys

def both((first, second)):
    return first + second

@provider(input_types=[integer_value(1000)], should_shuffle=False)
def process(settings, name):
    try:
        raise ValueError, 'x'
    except ValueError, e:
        print >>sys.stderr, 'caught', e, `e`
    yield both((0777, 1L))
    for key, value in {'a': 1}.iteritems():
        yield value
    yield {'b': 2}.values()[0] if sys.maxint <> 0 else 5
";
    assert_eq!(yielded(code), [512, 1, 2]);
}
