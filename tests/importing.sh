#!/bin/sh
# dmft.torch.import_module, by pytest, with one thread and a current PyTorch. It lies in a virtual
# environment, build/importing (or $IMPORTING), which is made once where PyPI is reached; the package
# transformers is used if it is there ($TRANSFORMERS: its pinned version, none if empty). Arguments
# go to pytest. The programs are those in DMFT_HOME (default: this checkout).
cd "$(dirname "$0")/.." || exit 1
place=${IMPORTING:-build/importing}
DMFT_HOME=$(cd "${DMFT_HOME:-.}" && pwd)
MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
export DMFT_HOME MPLBACKEND OPENBLAS_NUM_THREADS OMP_NUM_THREADS PYTHONDONTWRITEBYTECODE PYTHONPATH
has() { "$place/bin/python" -c "import h5py, matplotlib, numpy, pytest, torch, xarray" 2>/dev/null; }
if ! has; then
    "${PYTHON:-python3}" -m venv "$place" &&
        "$place/bin/pip" install -q ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch h5py \
            matplotlib numpy pytest xarray ${TRANSFORMERS:+"transformers==$TRANSFORMERS"}
fi
if ! has; then
    echo "[  SKIPPED ] import: no PyTorch in $place, and PyPI is not reached"
    exit 0
fi
"$place/bin/python" -m pytest -q -p no:cacheprovider tests/importing "$@"
