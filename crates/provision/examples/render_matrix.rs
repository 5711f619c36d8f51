//! Renders every combination of options into a directory, for the linters that judge templates.
//!
//! `cargo run -p canoe-provision --example render_matrix DIR` writes `DIR/CASE/{base,storage,cluster}.json`,
//! for self-managed cases also `user-data-{controller,worker}`, and for each case `policy.json`,
//! `boundary.json`, and with a service role `person.json` and `stacks.json` (a list of documents).

use std::path::Path;
use std::{env, fs, io};

use provision::matrix;
use provision::node::{Assets, Disks, Scripts};
use provision::policy;
use provision::template::{Render, render};
use provision::user_data::UserData;
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let directory = env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: render_matrix DIR"))?;
    for (name, spec) in matrix::cases() {
        let place = Path::new(&directory).join(name);
        fs::create_dir_all(&place)?;
        for stack in render(&spec, &Render::default()) {
            fs::write(
                place.join(format!("{}.json", stack.layer.name())),
                stack.text(),
            )?;
        }
        let account = "123456789012";
        let write = |name: &str, document: &Value| {
            fs::write(place.join(name), serde_json::to_string_pretty(document)?)
        };
        let mut operated = spec.clone();
        operated.service_role = false;
        write("policy.json", &policy::operator(&operated, account))?;
        operated.service_role = true;
        write("person.json", &policy::operator(&operated, account))?;
        let documents = policy::service_role_documents(&operated, account);
        write("stacks.json", &json!(documents))?;
        write("boundary.json", &policy::boundary(&spec))?;
        if spec.control_plane.mode == provision::spec::ControlPlaneMode::SelfManaged {
            let data = UserData::render(&spec);
            fs::write(place.join("user-data-controller"), data.controller)?;
            fs::write(place.join("user-data-worker"), data.worker)?;
            let disks = Disks {
                file_system: "fs-1".to_owned(),
                etcd_volume: "vol-1".to_owned(),
            };
            let scripts = Scripts::render(&spec, &Assets::default(), &disks);
            fs::write(place.join("controller.sh"), scripts.controller)?;
            fs::write(place.join("worker.sh"), scripts.worker)?;
        }
    }
    Ok(())
}
