#!/bin/sh
# Random networks: tests/random.sh networks ... beside PyTorch (tests/random/networks.py),
# tests/random.sh limits ... the limit beside networks (tests/random/limits.py), with one thread,
# tests/random.sh pieces ... cut and gone on with beside whole runs (tests/random/pieces.py), or
# tests/random.sh predictions ... at inputs that come later (tests/random/predictions.py).
cd "$(dirname "$0")/.." || exit 1
what=$1
shift
NEED='h5py, numpy, xarray'
[ "$what" = networks ] && NEED="$NEED, torch"
DMFT_HOME=$(cd "${DMFT_HOME:-.}" && pwd)
OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export NEED DMFT_HOME OPENBLAS_NUM_THREADS OMP_NUM_THREADS
if ! python/with -c '' 2>/dev/null; then
    echo "[  SKIPPED ] random: no Python with $NEED here; make torch-packages installs them on Debian"
    exit 0
fi
python/with "tests/random/$what.py" "$@"
