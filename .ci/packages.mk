# What a fresh Debian machine lacks; clang serves the fuzz targets and the format check, Open MPI the
# tests of MPI=1.
PACKAGES := gcc g++ libc6-dev pkg-config libopenblas-dev liblapacke-dev libgsl-dev libhdf5-dev \
            librandom123-dev liblua5.4-dev libcmocka-dev hdf5-tools clang libclang-rt-dev clang-format libomp-dev \
            libjansson-dev libopenmpi-dev openmpi-bin
# For the Python package and its tests alone (97 MB to fetch, 31 of them images for dmft-data fashion), so make test installs them, not make run.
PYTHON_PACKAGES := python3-numpy python3-h5py python3-scipy python3-xarray python3-matplotlib python3-pytest python3-nbclient \
                   python3-ipykernel codespell dataset-fashion-mnist
# For dmft.torch and its tests (make torch-test): 40 MB and what they need.
TORCH_PACKAGES := python3-torch
INSTALL = for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; }

# A text for data/text.ini, a verse a line: Debian's package has it in a form of its own.
text: data/kjv.txt
data/kjv.txt:
	@$(call INSTALL,bible-kjv)
	bible -f gen1:1-rev22:21 < /dev/null > $@.partial
	mv $@.partial $@

.PHONY: text

# Fedora: other names, a fuzzer that is part of clang, and no data set.
ifneq ($(wildcard /etc/fedora-release),)
PKG := openblas lapacke gsl hdf5 lua jansson
PACKAGES := gcc gcc-c++ git pkgconf-pkg-config openblas-devel lapack-devel gsl-devel hdf5-devel hdf5 \
            Random123-devel lua-devel libcmocka-devel clang compiler-rt clang-tools-extra libomp-devel \
            jansson-devel openmpi-devel
INSTALL = rpm -q $(1) >/dev/null 2>&1 || { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo dnf -y -q install $(1); }
endif

# The oldest that offer what is used, by their pkg-config names.
OLDEST = openblas:0.3 gsl:2.0 $(filter hdf5%,$(PKG)):1.10 $(filter lua%,$(PKG)):5.4 jansson:2.9
versions:
	@for need in $(OLDEST); do name=$${need%:*}; oldest=$${need#*:}; \
	pkg-config --atleast-version=$$oldest $$name || { found=$$(pkg-config --modversion $$name 2>/dev/null); \
	echo "$$name $$oldest or later is needed and $${found:-none} is here: make packages installs it, or PKG_CONFIG_PATH names another" >&2; \
	exit 1; }; done

packages:
	@$(call INSTALL,$(PACKAGES))

# Where they cannot be installed (no Debian, no root) tests/python.sh looks for another Python, or says
# what it skips.
python-packages:
	@NEED='h5py, ipykernel, matplotlib, nbclient, numpy, pytest, scipy, xarray' python/with -c '' 2>/dev/null || \
	{ $(call INSTALL,$(PYTHON_PACKAGES)); } || echo 'python-packages: cannot be installed here'

torch-packages: python-packages
	@NEED='h5py, matplotlib, numpy, pytest, scipy, torch, xarray' python/with -c '' 2>/dev/null || { $(call INSTALL,$(TORCH_PACKAGES)); } || \
	echo 'torch-packages: cannot be installed here'

# What compiler and linker are told of libraries: asked once a make, for the first file, and not for each.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(patsubst -I%,-isystem %,$$(shell pkg-config --cflags $(PKG))))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $$(shell pkg-config --libs-only-L $(PKG)) -lhdf5_hl $$(shell pkg-config --libs $(PKG)))$(PKG_LIBS)
LINKED = $(LINKER) $(OPT) -fopenmp $(1) $(LDLIBS) -o $@
# A program that has these inside, where their archives are, starts in half of the time: Debian's HDF5 and LAPACKE load
# 34 libraries, of the network among others.
INSIDE := -Wl,--as-needed,-Bstatic -lhdf5_hl -lhdf5 -llapacke -lgsl -Wl,-Bdynamic -lsz -lz
LINK_ALONE = @echo '  LD $@'; $(call LINKED,$(1) $(INSIDE)) 2>/dev/null || $(call LINKED,$(1))
