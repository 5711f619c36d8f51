#!/usr/bin/env bash
# Makes the files of a release in a folder: one tarball per target with the stripped program, completions, manual pages,
# licence and changelog; its debug information in a file of its own; a bill of materials; checksums of all.
#
#   release/make.sh OUT_DIR [TARGET …]        default target: that of this machine
#
# x86_64-unknown-linux-musl makes a program that needs no library of the machine on which it runs; so does TARGET+static
# for a glibc target, where musl's standard library is not installed. A target needs `rustup target add TARGET` and a C
# compiler for it; OBJCOPY and STRIP name the tools of another architecture. CARGO_FLAGS are passed on (--timings).
# A target that cannot be made here is left out and named at the end, with status 1; the others are complete.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
host=$(rustc -vV | sed -n 's/^host: //p')
[ $# -ge 1 ] || set -- "$host"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
grep -q "^## $version" CHANGELOG.md || { echo "CHANGELOG.md has no section ## $version" >&2; exit 1; }

# The same bytes on every machine: no paths of this one, no dates.
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
flags="${RUSTFLAGS:-} --remap-path-prefix=$PWD=canoe --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"

missing=()
for name in "$@"; do
  target=${name%+static}
  if ! [ -d "$(rustc --print target-libdir --target "$target" 2> /dev/null)" ]; then
    echo "$name is left out: there is no standard library for it here (rustup target add $target)" >&2
    missing+=("$name")
    continue
  fi
  static=
  [ "$name" = "$target" ] || static=" -C target-feature=+crt-static"
  # A folder per kind of program, so that one does not replace the other.
  RUSTFLAGS="$flags$static" cargo build --profile dist --locked -p canoe-cli --target "$target" --target-dir "target/dist/$name" ${CARGO_FLAGS:-}
  program=target/dist/$name/$target/dist/canoe
  # Completions and manual pages are the same for all targets; they are written by a program that runs here.
  if [ "${target%%-*}" = "${host%%-*}" ]; then tool=$program; fi
  if [ -z "${tool:-}" ]; then
    echo "$name is left out: name a target of this machine first, whose program writes the manual pages" >&2
    missing+=("$name")
    continue
  fi
  name=canoe-$version-${name/+/-}
  folder=$(mktemp -d)/$name
  mkdir -p "$folder/completions" "$folder/man"
  cp "$program" "$folder/canoe"
  "${OBJCOPY:-objcopy}" --only-keep-debug "$folder/canoe" "$out/$name.debug"
  "${STRIP:-strip}" --strip-debug --strip-unneeded "$folder/canoe"
  (cd "$folder" && "${OBJCOPY:-objcopy}" --add-gnu-debuglink="$out/$name.debug" canoe)
  for shell in bash zsh fish; do "$tool" completions "$shell" > "$folder/completions/canoe.$shell"; done
  "$tool" man "$folder/man" > /dev/null
  cp LICENSE README.md CHANGELOG.md "$folder"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$(dirname "$folder")" -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
  rm -r "$(dirname "$folder")"
done
python3 release/sbom.py --version "$version" > "$out/canoe-$version.sbom.json"
(cd "$out" && sha256sum canoe-"$version"* > SHA256SUMS && cat SHA256SUMS)
if [ ${#missing[@]} -gt 0 ]; then
  echo "not made: ${missing[*]}" >&2
  exit 1
fi
