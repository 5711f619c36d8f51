//! A job in Python 2, started as v1 users start it.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;

use common::{Folder, said, succeeded};

const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *
@provider(input_types={'x': dense_vector(1), 'label': integer_value(2)})
def process(settings, file_name):
    print 'reading', file_name
    for number in xrange(8):
        yield {'x': [number / 3], 'label': number / 4}
";

const CONFIG: &str = "
from paddle.trainer_config_helpers import *
define_py_data_sources2('all.list', None, module='p', obj='process')
settings(batch_size=4 + 1 / 2, learning_rate=0.1)
x, label = data_layer('x', size=1), data_layer('label', size=2)
y = fc_layer(input=x, size=2, act=SoftmaxActivation())
print 'described'
outputs(classification_cost(input=y, label=label))
";

#[test]
fn a_python_2_job_trains_with_the_flag_that_names_python_2() {
    let folder = Folder::empty();
    fs::write(folder.path("c.py"), CONFIG).unwrap();
    fs::write(folder.path("p.py"), PROVIDER).unwrap();
    fs::write(folder.path("all.list"), "generated\n").unwrap();
    let out = folder.canoe(&[
        "train",
        "--config=c.py",
        "--num_passes=1",
        "--save_dir=out",
        "--log_period=1",
        "--python_bin=no-such-directory/python2.7",
    ]);
    succeeded(&out);
    let text = said(&out);
    assert!(
        text.contains("--python_bin=no-such-directory/python2.7 asks for Python 2"),
        "{text}"
    );
    assert!(text.contains("described"), "{text}");
    assert!(text.contains("reading generated"), "{text}");
    assert!(folder.path("out/pass-00000/done").exists());
}
