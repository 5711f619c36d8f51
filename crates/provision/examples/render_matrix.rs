//! Renders every combination of options into a directory, for the linters that judge templates.
//!
//! `cargo run -p canoe-provision --example render_matrix DIR` writes `DIR/CASE/{base,storage,cluster}.json`,
//! for self-managed cases also `user-data-{controller,worker}`, and for each case `policy.json`.

use std::path::Path;
use std::{env, fs, io};

use provision::matrix;
use provision::policy;
use provision::template::{Render, render};
use provision::user_data::{Assets, UserData};

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
        let document = serde_json::to_string_pretty(&policy::operator(&spec, "123456789012"))?;
        fs::write(place.join("policy.json"), document)?;
        if spec.control_plane.mode == provision::spec::Mode::SelfManaged {
            let data = UserData::render(&spec, &Assets::default());
            fs::write(place.join("user-data-controller"), data.controller)?;
            fs::write(place.join("user-data-worker"), data.worker)?;
        }
    }
    Ok(())
}
