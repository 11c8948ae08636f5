# What a fresh Debian machine lacks; clang serves the fuzz target and the format check, the data set
# (31 MB) source = fashion and its test, Open MPI the tests of MPI=1.
PACKAGES := gcc g++ libc6-dev pkg-config libopenblas-dev liblapacke-dev libgsl-dev libhdf5-dev libinih-dev \
            librandom123-dev liblua5.4-dev libcmocka-dev hdf5-tools clang libclang-rt-14-dev clang-format \
            zlib1g-dev dataset-fashion-mnist libopenmpi-dev openmpi-bin
# For the Python package and its tests alone (66 MB to fetch), so make test installs them, not make run.
PYTHON_PACKAGES := python3-numpy python3-h5py python3-xarray python3-matplotlib python3-pytest python3-nbclient \
                   python3-ipykernel
INSTALL = for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; }

packages:
	@$(call INSTALL,$(PACKAGES))

# Where they cannot be installed (no Debian, no root) tests/python.sh looks for another Python, or says
# what it skips.
python-packages:
	@NEED='h5py, ipykernel, matplotlib, nbclient, numpy, pytest, xarray' python/with -c '' 2>/dev/null || \
	{ $(call INSTALL,$(PYTHON_PACKAGES)); } || echo 'python-packages: cannot be installed here'
