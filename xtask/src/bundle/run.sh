#!/usr/bin/env bash
# Runs everything in this bundle on a GPU host and keeps what it prints.
#
#   ./run.sh [RESULTS]     results go below RESULTS, by default ./results
#
# Exit status: 0 when everything passed, 1 when something failed. A failure
# stops nothing: the rest still runs, so that one visit gives all results.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=${1:-$PWD/results}
mkdir -p "$results" || exit 1
results=$(cd "$results" && pwd)
summary=$results/summary.txt
: >"$summary"
failed=0

# No GPU is a failure here, not a reason to skip.
export STREAMWEIR_REQUIRE_GPU=1
export STREAMWEIR_CACHE=${STREAMWEIR_CACHE:-$results/cache}
export CRITERION_HOME=$results/criterion

# step NAME COMMAND...: standard output to NAME.txt, all of it shown.
step() {
    local name=$1 start=$SECONDS status
    shift
    echo "== $name"
    "$@" </dev/null 2>"$results/$name.err" | tee "$results/$name.txt"
    status=${PIPESTATUS[0]}
    cat "$results/$name.err" >&2
    if [ "$status" -eq 0 ]; then
        echo "passed  $name  $((SECONDS - start)) s" >>"$summary"
    else
        echo "FAILED  $name  $((SECONDS - start)) s, exit status $status" >>"$summary"
        failed=1
    fi
}

# programs KIND: the programs of one kind, none when there are none.
programs() {
    local program
    for program in "$here/$1"/*; do
        if [ -x "$program" ]; then echo "$program"; fi
    done
}

cat "$here/BUILD.txt" >>"$summary"
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >>"$summary"
fi

step doctor "$here/bin/streamweir" doctor
step tests "$here/test/gpu"
while IFS= read -r program; do
    step "example-$(basename "$program")" "$program"
done < <(programs example)
# Programs of engines link CUDA's libraries; torch brings them along.
if libraries=$(python3 -c '
import nvidia, os
print(":".join(os.path.join(path, "cu13", "lib") for path in nvidia.__path__))' 2>/dev/null); then
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
while IFS= read -r program; do
    step "engine-$(basename "$program")" "$program"
done < <(programs engine)
step demo-tiny "$here/bin/streamweir" demo --device cuda:0 --size tiny --json
step demo-flash "$here/bin/streamweir" demo --device cuda:0 --size flash --json
while IFS= read -r program; do
    step "bench-$(basename "$program")" "$program" --bench
done < <(programs bench)
# What the benches are compared with, where the host has it.
if python3 -c 'import torch' 2>/dev/null; then
    for program in "$here"/peer/*.py; do
        step "peer-$(basename "$program" .py)" python3 "$program"
    done
else
    echo "not run: the peers, for there is no torch here" | tee -a "$summary"
fi

echo
cat "$summary"
exit "$failed"
