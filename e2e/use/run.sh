#!/usr/bin/env bash
# A model in use: served under load, as ONNX in onnxruntime, from Python. Arguments: the program, a folder for what is installed.
set -euo pipefail
cd "$(dirname "$0")"
canoe=$(realpath "$1")
work=$(realpath -m "$2")
mkdir -p "$work"
if [ ! -d "$work/venv"/lib/python3*/site-packages/onnxruntime ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" --quiet install numpy onnx onnxruntime
fi
python3 serve.py --canoe "$canoe"
job=$(mktemp -d)
trap 'rm -rf "$job"' EXIT
"$canoe" demo quick_start "$job/job" --train-samples 64 --test-samples 1000 > /dev/null
models=()
for name in lr emb cnn lstm bidi-lstm; do
    (cd "$job/job" && "$canoe" train --config=quick_start/trainer_config.$name.py --save_dir=$name --num_passes=1 --dot_period=0 2> /dev/null)
    models+=("$job/job/$name")
done
"$work/venv/bin/python" onnx_check.py --canoe "$canoe" --text "$job/job/data/test.txt" --dictionary "$job/job/data/dict.txt" "${models[@]}"
# One interpreter; without this last word, every one from 3.9 on that the machine has.
./wheel.sh "$canoe" "$work" python3
