# dmft-solve
#
#   make run          installs what is missing, builds, runs data/regime2.ini
#   make test         passes the tests (about ten minutes)
#   make test-NAME    one test program, with K=PART a part of it; make test-changed what you changed
#   make check-long   longer statistics, sanitizers, fuzzing (an hour and more)
#   make soak TIME=seconds; make mutants   random tests; what the tests notice (docs/testing_log.md)
#   make check-random TIME=seconds         random networks beside PyTorch and beside their limit
#   make validation; make coverage-of  networks against their limit; its error bars (minutes)
#   make coverage-check; make tables-check   every command of docs/coverage.md; a table of docs/tutorial.md (minutes)
#   make python-test  the Python package alone: runs, pictures, docs/tour.ipynb
#   make study NAME=lr_transfer        data and picture of a study in studies/; make gallery: of all
#   make bench        cost and accuracy of the limit beside finite networks; make bench-peers PEERS=PYTHON
#   make; make info   builds ./dmft-solve, ./dmft-sweep, ./dmft-compare, ./dmft-data; says with what
#   make install PREFIX=/usr/local;  make deb;  make wheel;  make site;  make CC=clang CXX=clang++;  make format
#
# DEBUG=1 and SAN=1 (address and undefined-behaviour sanitizers) choose other flags, CUDA=1 adds the
# backend cuda (kernels/cuda.mk), MPI=1 builds for mpirun (docs/cluster.md): each set of options in its own
# folder under build/. Sources are found, not listed; tests are in tests/tests.mk.

MAKEFLAGS += --no-builtin-rules
# As many jobs as there are cores, unless the command line says another number.
MAKEFLAGS += $(if $(filter 0,$(MAKELEVEL)),-j$(shell getconf _NPROCESSORS_ONLN))
COMMA := ,
VERSION := 0.1.0$(shell git describe --always --dirty 2>/dev/null | sed 's/^/+/')
CC := gcc
CXX := g++
PYTHON := python3
PREFIX := /usr/local
KIND := $(or $(if $(SAN),san),$(if $(DEBUG),debug),release)
OPT := $(if $(filter release,$(KIND)),-O2 -g1,$(if $(SAN),-O1,-O0) -g) -ffp-contract=off$(if $(SAN), -fsanitize=address$(COMMA)undefined \
       -fno-sanitize-recover=all)
PLAIN := build/$(KIND)
CUDA_HOME := /usr/local/cuda
ifdef CUDA
PLAIN := $(if $(filter release,$(KIND)),build/cuda,$(PLAIN)-cuda)
OPT += -DCUDA
endif
# Ranks are the affair of few sources: with MPI=1 these alone are compiled anew, and linked with the rest.
BUILD := $(PLAIN)
ifdef MPI
BUILD := $(PLAIN:build/release=build)/mpi
RANKS := kernels/array/dist solver/files/provenance
MPICC := OMPI_CC='$(CC)' MPICH_CC='$(CC)' mpicc
endif
LINKER := $(or $(MPICC),$(CC))
SHARED := -fPIC -fno-semantic-interposition # objects serve programs and libdmft
PKG := openblas lapacke gsl hdf5-serial lua5.4 jansson
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
CFLAGS = -std=c17 $(OPT) $(SHARED) $(WARN) -fopenmp -MMD -MP -I. $(PKG_CFLAGS)
LDLIBS = $(PKG_LIBS) -lm $(CUDA_LIBS)

PROGRAMS := dmft-solve dmft-sweep dmft-compare dmft-data
all: versions $(PROGRAMS)
include kernels/cuda.mk

# Every source of these folders is compiled and linked; solver/main_NAME.c into dmft-NAME alone.
SOURCES := $(sort $(foreach folder,kernels models integrators solver,$(wildcard $(folder)/*.c $(folder)/*/*.c)))
COMPILED := $(patsubst %.c,%,$(filter-out solver/main_%,$(SOURCES)))
OBJECTS := $(patsubst %,$(PLAIN)/%.o,$(filter-out $(RANKS),$(COMPILED))) $(RANKS:%=$(BUILD)/%.o) $(CUDA_OBJECTS)
LINK = @echo '  LD $@'; $(call LINKED,$(filter %.o,$^))
# A file that is written again only where its text changes, and then what depends on it is made again.
STAMP = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@

# Those of the last make, whatever its options.
$(PROGRAMS): %: $(BUILD)/% FORCE
	@cmp -s $< $@ || cp -f $< $@

$(BUILD)/dmft-%: $(PLAIN)/solver/main_%.o $(OBJECTS) $(BUILD)/objects
	$(call LINK_ALONE,$(filter %.o,$^))

# Programs are linked again where a source has come or gone.
$(BUILD)/objects: FORCE
	$(call STAMP,$(OBJECTS) $(EMULATED_CUDA))

$(PLAIN)/flags: FORCE
	$(call STAMP,$(CC) $(OPT) $(SHARED))

$(PLAIN)/%.o: %.c $(PLAIN)/flags
	@mkdir -p $(@D)
	@echo '  CC $<'
	@$(CC) $(CFLAGS) -c $< -o $@

$(RANKS:%=$(BUILD)/%.o): $(BUILD)/%.o: %.c $(PLAIN)/flags
	@mkdir -p $(@D)
	@echo '  CC $< (MPI)'
	@$(MPICC) $(CFLAGS) -DMPI -c $< -o $@

# Vector loops: unrolled whole, fused multiply-adds where the machine has them; functions set no errno.
$(foreach f,few_rows_products few_rows_products_single,$(PLAIN)/kernels/array/$f.o): CFLAGS += $(if $(SAN),,-O3) -ffp-contract=fast
$(foreach f,functions functions_single,$(PLAIN)/kernels/array/$f.o): CFLAGS += -fno-math-errno

# Version and flags are compiled into one file, made again when they change.
$(BUILD)/solver/files/provenance.o: CFLAGS += -DVERSION='"$(VERSION)"' -DFLAGS='"$(OPT)$(if $(MPI), -DMPI)"'
$(BUILD)/solver/files/provenance.o: $(BUILD)/version
$(BUILD)/version: FORCE
	$(call STAMP,$(VERSION) $(OPT))

run: packages # a recursive make, because pkg-config is asked after the packages are there
	$(MAKE) all
	[ -e regime2.h5 ] && echo "regime2.h5 is here already" || ./dmft-solve data/regime2.ini

format:
	find include examples kernels models integrators solver tests -name '*.[ch]' -o -name '*.cu' | xargs clang-format -i -style=file

info: versions
	@echo 'version   $(VERSION)'
	@echo 'compiler  $(CC) $(OPT)'
	@echo 'build     $(BUILD)'
	@for p in $(PKG); do echo "library   $$p $$(pkg-config --modversion $$p)"; done

clean:
	rm -rf build $(PROGRAMS)

include install/install.mk tests/tests.mk studies/studies.mk .ci/packages.mk
FORCE:
.PHONY: all run format versions packages python-packages torch-packages info clean FORCE
.SECONDARY:
-include $(SOURCES:%.c=$(PLAIN)/%.d) $(RANKS:%=$(BUILD)/%.d) $(TEST_SOURCES:%.c=$(PLAIN)/%.d) \
         $(CUDA_OBJECTS:.o=.d) $(EMULATED_CUDA:.o=.d) $(PLAIN)/emulated/kernels/array/backend.d
