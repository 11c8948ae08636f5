#!/bin/sh
# dmft.torch, by pytest, with one thread. Arguments go to pytest. The programs are those in DMFT_HOME
# (default: this checkout).
cd "$(dirname "$0")/.." || exit 1
NEED='h5py, matplotlib, numpy, pytest, torch, xarray'
DMFT_HOME=$(cd "${DMFT_HOME:-.}" && pwd)
MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 GOMP_SPINCOUNT=10000
export NEED DMFT_HOME MPLBACKEND OPENBLAS_NUM_THREADS OMP_NUM_THREADS GOMP_SPINCOUNT
if ! python/with -c '' 2>/dev/null; then
    echo "[  SKIPPED ] torch: no Python with $NEED here; make torch-packages installs them on Debian"
    exit 0
fi
python/with -m pytest -q -p no:cacheprovider tests/torch "$@"
