# What a fresh Debian machine lacks; clang serves the fuzz target and the format check, the data set
# (31 MB) source = fashion and its test, Open MPI the tests of MPI=1.
PACKAGES := gcc g++ libc6-dev pkg-config libopenblas-dev liblapacke-dev libgsl-dev libhdf5-dev libinih-dev \
            librandom123-dev libcmocka-dev hdf5-tools clang libclang-rt-14-dev clang-format \
            zlib1g-dev dataset-fashion-mnist libopenmpi-dev openmpi-bin

packages:
	@for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; }
