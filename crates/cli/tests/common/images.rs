//! A job with batch normalisation: a small network learns to tell three kinds of made images apart.

use std::fs;

use super::Folder;

pub(crate) const CONFIG: &str = "quick_start/images.py";

const NETWORK: &str = "
from paddle.trainer_config_helpers import *
define_py_data_sources2('data/train.list', 'data/test.list', module='images_provider', obj='process')
settings(batch_size=8, learning_rate=0.05, learning_method=MomentumOptimizer(0.9))
image = data_layer('image', 36)
edges = img_conv_layer(input=image, filter_size=3, num_channels=1, num_filters=4, padding=1, act=LinearActivation())
normal = batch_norm_layer(input=edges, act=ReluActivation(), moving_average_fraction=0.8)
small = img_pool_layer(input=normal, pool_size=2, stride=2)
outputs(classification_cost(input=fc_layer(input=small, size=3, act=SoftmaxActivation()), label=data_layer('label', 3)))
";

/// A line of a file is the number of an image.
const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *

@provider(input_types=dict(image=dense_vector(36), label=integer_value(3)))
def process(settings, file_name):
    for line in open(file_name):
        number = int(line)
        step = 17 * (1 + number % 3)
        yield dict(image=[(number * 31 + at * step) % 64 / 32.0 for at in range(36)], label=number % 3)
";

/// The job in `job`, with 110 images to learn from; not split into shards.
pub(crate) fn job() -> Folder {
    let folder = Folder::empty();
    fs::create_dir_all(folder.path("job/quick_start")).unwrap();
    fs::create_dir_all(folder.path("job/data")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path("job").join(name), text).unwrap();
    let numbers = |range: std::ops::Range<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
    write(CONFIG, NETWORK);
    write("quick_start/images_provider.py", PROVIDER);
    write("data/train.list", "data/x.txt\n");
    write("data/test.list", "data/y.txt\n");
    write("data/x.txt", &numbers(0..110));
    write("data/y.txt", &numbers(110..140));
    folder
}
