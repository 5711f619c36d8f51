//! Where this user keeps caches.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME`, or `~/.cache`; `None` if neither is known.
pub(crate) fn folder() -> Option<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}
