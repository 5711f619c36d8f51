//! The ConfigMap with the configuration folder, the Secret with token and keys, and the ConfigMap that says where the job's files are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{FILES_COMPONENT, KEYS_ANNOTATION, files_name, metadata};
use crate::credentials::Credentials;
use crate::folder::{self, Files};
use crate::job::{Data, JobFile};
use crate::program::Program;

/// The key of the note about data.
pub(crate) const DATA_NOTE: &str = "data.json";

/// What `submit --data` has brought to the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNote {
    /// Number of files.
    pub files: usize,
    /// All their bytes.
    pub bytes: u64,
    /// Checksum of all names, sizes and contents.
    pub sha256: String,
}

/// The configuration folder; texts can be read in it, other files are base64.
pub(super) fn config_map(job: &JobFile, files: &Files) -> Value {
    let (mut data, mut binary) = (Map::new(), Map::new());
    for (path, content) in files {
        let key = folder::key(path);
        match std::str::from_utf8(content) {
            Ok(text) => data.insert(key, json!(text)),
            Err(_) => binary.insert(key, json!(base64(content))),
        };
    }
    let mut map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, &job.name),
        "data": data,
    });
    if !binary.is_empty() {
        map["binaryData"] = Value::Object(binary);
    }
    map
}

/// Which key of the ConfigMap is which file.
pub(super) fn config_items(files: &Files) -> Vec<Value> {
    files
        .keys()
        .map(|path| json!({"key": folder::key(path), "path": path}))
        .collect()
}

/// The ConfigMap that says where the job's files are and which image reads them: it has the job file. It outlives the
/// Job, as the files do. It also has a note about the data of `submit --data`, so that other data are detected.
pub fn files(job: &JobFile, program: Option<&Program>, data_note: Option<&DataNote>) -> Value {
    let mut metadata = metadata(job, &files_name(&job.name));
    metadata["labels"]["app.kubernetes.io/component"] = json!(FILES_COMPONENT);
    let mut job = job.clone();
    // Readers of files need not know that data are to be split, and `render` does not know of --data.
    job.data = job.data.filter(|data| *data != Data::default());
    let mut data = json!({"job.yaml": yaml::document(&json!(job))});
    if let Some(program) = program {
        data["program.json"] = json!(json!(program).to_string());
    }
    if let Some(note) = data_note {
        data[DATA_NOTE] = json!(json!(note).to_string());
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// The Secret with token and keys. It is immutable, so that nobody can change it while pods of the Job run.
pub fn secret(job: &JobFile, credentials: &Credentials) -> Value {
    let mut data = json!({"token": base64(credentials.token.as_bytes())});
    if let Some(tls) = &credentials.tls {
        data["ca.crt"] = json!(base64(tls.authority.as_bytes()));
        data["tls.crt"] = json!(base64(tls.certificate.as_bytes()));
        data["tls.key"] = json!(base64(tls.key.as_bytes()));
    }
    let mut metadata = metadata(job, &job.name);
    metadata["annotations"] = json!({KEYS_ANNOTATION: credentials.fingerprint()});
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "immutable": true,
        "data": data,
    })
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
