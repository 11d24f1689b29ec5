#!/usr/bin/env bash
# The performance table: full-size Stable Diffusion 1.5 at 512x512 with random weights, on one thread and on all.
# usage: bench/table.sh BUILD_FOLDER [bench options]; the machine is measured first if it never was.
set -euo pipefail
build=$1; shift
[ -f "${XDG_CACHE_HOME:-$HOME/.cache}/danqing/machine.json" ] || "$build/danqing" probe
for threads in 1 0; do
  [ "$threads" = 1 ] && "$build/danqing" probe --threads 1 > /dev/null
  "$build/danqing_sd15_bench" --threads "$threads" "$@"
  echo
done
