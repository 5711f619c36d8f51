//! The ConfigMap with the configuration folder and the Secret with token and keys.

use serde_json::{Map, Value, json};

use super::metadata;
use crate::k8s::credentials::Credentials;
use crate::k8s::folder::{self, Files};
use crate::k8s::job::JobFile;

/// The configuration folder; texts can be read in it, other files are base64.
pub fn config_map(job: &JobFile, files: &Files) -> Value {
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
pub fn config_items(files: &Files) -> Vec<Value> {
    files
        .keys()
        .map(|path| json!({"key": folder::key(path), "path": path}))
        .collect()
}

/// Token and keys.
pub fn secret(job: &JobFile, credentials: &Credentials) -> Value {
    let mut data = json!({"token": base64(credentials.token.as_bytes())});
    if let Some(tls) = &credentials.tls {
        data["ca.crt"] = json!(base64(tls.authority.as_bytes()));
        data["tls.crt"] = json!(base64(tls.certificate.as_bytes()));
        data["tls.key"] = json!(base64(tls.key.as_bytes()));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, &job.name),
        "type": "Opaque",
        "data": data,
    })
}

/// RFC 4648, with padding.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_vectors_of_the_standard() {
        for (text, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), code);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
