//! `--job=test --distribute_test`: trainers with different test data measure together.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use common::{CANOE, Folder, said, succeeded};

const CONFIG: &str = "
from paddle.trainer_config_helpers import *
define_py_data_sources2('train.list', 'test.list', module='p', obj='process')
settings(batch_size=8, learning_rate=0.1)
x, label = data_layer('x', size=2), data_layer('label', size=2)
y = fc_layer(input=x, size=2, act=SoftmaxActivation(), name='answer')
auc_evaluator(input=y, label=label, name='area')
outputs(classification_cost(input=y, label=label, name='cost'))
";

/// The file's name is the number of samples; of the others every third is hard to tell.
const PROVIDER: &str = "
from paddle.trainer.PyDataProvider2 import *
@provider(input_types=[dense_vector(2), integer_value(2)], should_shuffle=False)
def process(settings, file_name):
    for number in range(int(file_name)):
        label = number % 2
        yield [float(label) if number % 3 else 1.0 - label, 0.1 * (number % 7)], label
";

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended with its job.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(folder: &Folder, node: &str) -> Command {
    let mut command = Command::new(CANOE);
    command
        .current_dir(folder.path(node))
        .env(run::local::plan::TOKEN_VARIABLE, "a secret of this test");
    command
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// The evaluators at the end of the line with this beginning.
fn evaluators(text: &str, beginning: &str) -> String {
    let line = text.lines().find(|line| line.contains(beginning));
    let line = line.unwrap_or_else(|| panic!("no {beginning} in {text}"));
    let (_, evaluators) = line
        .rsplit_once("eval: ")
        .or(line.rsplit_once("Eval: "))
        .unwrap();
    evaluators.trim().to_owned()
}

#[test]
fn evaluators_add_up_over_trainers() {
    let folder = Folder::empty();
    for (node, tests) in [("both", "30\n9\n"), ("0", "30\n"), ("1", "9\n")] {
        fs::create_dir(folder.path(node)).unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path(&format!("{node}/{name}")), text).unwrap();
        };
        write("c.py", CONFIG);
        write("p.py", PROVIDER);
        write("train.list", "40\n");
        write("test.list", tests);
    }
    let model = folder.path("model");
    let save = format!("--save_dir={}", model.display());
    let config = "--config=c.py";
    succeeded(&folder.canoe_in("both", &["train", config, &save, "--num_passes=1"]));
    let model = format!("--init_model_path={}", model.join("pass-00000").display());
    let test = ["train", config, "--job=test", &model];
    let whole = folder.canoe_in("both", &test);
    succeeded(&whole);

    let port = format!("--port={}", free_port());
    let server = command(&folder, "both")
        .args(["pserver", &port, "--num_gradient_servers=2"])
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(server.unwrap());
    let trainers: Vec<Child> = ["0", "1"]
        .iter()
        .map(|node| {
            let id = format!("--trainer_id={node}");
            command(&folder, node)
                .args(test)
                .args([
                    "--local=0",
                    "--num_gradient_servers=2",
                    "--distribute_test=1",
                ])
                .args(["--pservers=127.0.0.1", &port, &id])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let outputs: Vec<_> = trainers
        .into_iter()
        .map(|trainer| trainer.wait_with_output().unwrap())
        .collect();
    outputs.iter().for_each(succeeded);
    let first = said(&outputs[0]);
    let all = evaluators(&first, "distribute eval: ");
    assert_eq!(all, evaluators(&said(&whole), " Test samples=39 "));
    assert_ne!(all, evaluators(&first, " Test samples=30 "));
    assert!(!said(&outputs[1]).contains("distribute eval"));
}
