//! The addresses of the pods of a job. Each pod writes its own to the volume when it starts, under the name of its node.
//!
//! The cluster's DNS returns an old address, or none, for as long as it is cached: 30 s in many clusters. The volume has
//! the new address as soon as the pod runs. Pods that have written nothing are found by DNS.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::finish::run_name;

/// The folder of one run of a job. Each run has its own, because addresses of earlier runs may belong to other pods now.
pub fn folder(output: &Path, token: &str) -> PathBuf {
    output.join("addresses").join(run_name(token))
}

/// Writes the address of a host, and deletes the folders of earlier runs.
pub fn write(folder: &Path, host: &str, address: IpAddr) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(host);
    let new = path.with_added_extension("new");
    fs::write(&new, format!("{address}\n"))?;
    fs::rename(&new, path)?;
    let runs = folder.parent().map(fs::read_dir).transpose()?;
    for run in runs.into_iter().flatten().flatten() {
        if run.path() != folder {
            drop(fs::remove_dir_all(run.path()));
        }
    }
    Ok(())
}

/// The address that a host wrote last; `None` if it has written none in this run.
pub fn find(folder: &Path, host: &str) -> Option<IpAddr> {
    let text = fs::read_to_string(folder.join(host)).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_address_of_this_run_is_found() {
        let output = tempfile::tempdir().unwrap();
        let own = folder(output.path(), "token");
        assert_eq!(find(&own, "ctr-1.ctr"), None);
        for address in ["10.0.0.7", "10.0.0.9"] {
            write(&own, "ctr-1.ctr", address.parse().unwrap()).unwrap();
            assert_eq!(find(&own, "ctr-1.ctr"), Some(address.parse().unwrap()));
        }
        let later = folder(output.path(), "of a later run");
        assert_eq!(find(&later, "ctr-1.ctr"), None);
        write(&later, "ctr-0.ctr", "10.0.0.8".parse().unwrap()).unwrap();
        assert!(!own.exists(), "of an earlier run");
        fs::write(later.join("ctr-0.ctr"), "10.0.0").unwrap();
        assert_eq!(find(&later, "ctr-0.ctr"), None);
    }
}
