#!/bin/sh
# The Python package, its pictures and docs/tour.ipynb, by pytest; two halves at a time. Arguments go
# to pytest, and if the first is a file only that is run. The programs are those in DMFT_HOME
# (default: this checkout).
cd "$(dirname "$0")/.." || exit 1
NEED='h5py, ipykernel, matplotlib, nbclient, numpy, pytest, scipy, xarray'
DMFT_HOME=$(cd "${DMFT_HOME:-.}" && pwd)
MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 GOMP_SPINCOUNT=10000 # else programs start twice: tests/run.sh
export NEED DMFT_HOME MPLBACKEND OPENBLAS_NUM_THREADS GOMP_SPINCOUNT
if ! PYTHON=$(python/with -c 'import sys; print(sys.executable)'); then
    echo "[  SKIPPED ] python: no Python with $NEED here"
    exit 0
fi
NEED=sys # the rest is there, which takes a second to find out
export PYTHON
[ -e "${1%%::*}" ] && exec python/with -m pytest -q -p no:cacheprovider "$@"
first=$(mktemp)
trap 'rm -f "$first"' EXIT
python/with -m pytest -q -p no:cacheprovider tests/test_plot.py "$@" >"$first" 2>&1 &
python/with -m pytest -q -p no:cacheprovider tests --ignore=tests/test_plot.py --ignore=tests/torch \
    --ignore=tests/importing \
    "$@"
second=$?
wait $!
code=$?
cat "$first"
[ $code -eq 5 ] && code=0 # -k left nothing here
[ $second -eq 5 ] && second=0
[ $code -eq 0 ] && exit $second
exit $code
