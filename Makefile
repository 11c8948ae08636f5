# dmft-solve
#
#   make run          installs what is missing, builds, runs data/regime2.ini
#   make test         passes the tests (three minutes)
#   make check-long   longer statistics, sanitizers, fuzzing (about ten minutes)
#   make validation   docs/validation.md: own networks against own limit (minutes)
#   make plot-test    the pictures (needs Python: pip install ./plot pytest)
#   make study NAME=lr_transfer        data and picture of a study in studies/
#   make bench        cost and accuracy of the limit beside finite networks
#   make              builds ./dmft-solve, ./dmft-sweep, ./dmft-compare;  make info says with what;  make install PREFIX=/usr/local
#
# DEBUG=1 and SAN=1 (address and undefined-behaviour sanitizers) choose other flags; each set of
# options has its own folder under build/. CUDA=1 adds the backend cuda (CUDA_HOME: where nvcc and
# cuBLAS are); make CUDA=1 test tests it on the device. MPI=1 builds for mpirun (docs/mpi.md); make
# test tests that where mpicc is.

VERSION := 0.1.0$(shell git describe --always --dirty 2>/dev/null | sed 's/^/+/')
# What a fresh Debian machine lacks; clang serves the fuzz target and the format check, the data set
# (31 MB) source = fashion and its test, Open MPI the tests of MPI=1.
PACKAGES := gcc g++ libc6-dev pkg-config libopenblas-dev liblapacke-dev libgsl-dev libhdf5-dev libinih-dev \
            librandom123-dev libcmocka-dev hdf5-tools clang libclang-rt-14-dev clang-format \
            zlib1g-dev dataset-fashion-mnist libopenmpi-dev openmpi-bin

CC := gcc
CXX := g++
PYTHON := python3
PREFIX := /usr/local
OPT := -O2 -g -ffp-contract=off
BUILD := build/release
ifdef DEBUG
OPT := -O0 -g -ffp-contract=off
BUILD := build/debug
endif
ifdef SAN
OPT := -O1 -g -ffp-contract=off -fsanitize=address,undefined -fno-sanitize-recover=all
BUILD := build/san
endif
CUDA_HOME := /usr/local/cuda
ifdef CUDA
BUILD := $(if $(DEBUG)$(SAN),$(BUILD)-cuda,build/cuda)
OPT += -DCUDA
CUDA_LIBS := -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcublas -lcudart -lstdc++
endif
ifdef MPI
CC := mpicc
BUILD := $(BUILD:build/release=build)/mpi
OPT += -DMPI
endif
PKG := openblas lapacke gsl hdf5-serial inih zlib
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
CFLAGS = -std=c17 $(OPT) $(WARN) -fopenmp -MMD -MP -I. $(shell pkg-config --cflags $(PKG))
CXXFLAGS := -std=c++17 -Wall -Wextra -Wshadow -Wconversion -Werror
# sm_80 and sm_90, and PTX for later devices; no contraction, as on the host.
NVCCFLAGS := -std=c++17 -O2 --fmad=false -Werror all-warnings -I. -MMD -MP \
             -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] \
             -Xcompiler -Wall,-Wextra,-Wshadow,-Wconversion,-Werror
LDLIBS = $(shell pkg-config --libs-only-L hdf5-serial) -lhdf5_hl $(shell pkg-config --libs $(PKG)) \
         -lm $(CUDA_LIBS)

KERNELS := dist backend profile skinny functions cpu shadow freeze basis population twotime map map_finite \
           map_history map_limit map_adam map_field change thin
MODELS := model plain stage look rewind gate router balance regime1 regime2 regime3 residual
INTEGRATORS := integrator batch gd optimizer flow anderson fixed_point
SOLVER := base text row factor param record data fashion partial io config provenance stats share response coordinate \
          observe sweeps run ensemble report costs command grid sweep result summary compare compare_table
LIB := $(KERNELS:%=kernels/%) $(MODELS:%=models/%) $(INTEGRATORS:%=integrators/%) \
       $(SOLVER:%=solver/%)
OBJECTS := $(LIB:%=$(BUILD)/%.o) $(if $(CUDA),$(BUILD)/kernels/cuda.o)
TESTS := architecture param factor rng backend functions basis population change map data fashion io oracle oracle_regime1 network regime1 limit \
         networks reference cli cli_runs tile regime3 reference3 response \
         residual residual_limit residual_reference flow batches fixed_point optimizer optimizer_limit sweep grid \
         coordinate compare studies device
TEST_OBJECTS := $(BUILD)/tests/support.o $(BUILD)/tests/cli.o $(BUILD)/tests/oracle_regime2.o \
                $(BUILD)/tests/oracle_regime1.o $(BUILD)/tests/oracle_dense.o \
                $(BUILD)/tests/oracle_regime3.o $(BUILD)/tests/oracle_residual.o \
                $(BUILD)/tests/reduction_residual.o $(BUILD)/tests/oracle_coordinate.o $(BUILD)/tests/oracle_optimizer.o

# Tests of the backend cuda, run through tests/cuda_host: on the host, as an emulation.
EMULATED := backend functions basis population change tile device
EMULATED_OBJECTS = $(filter-out $(BUILD)/kernels/backend.o $(BUILD)/kernels/cuda.o,$(OBJECTS)) \
                   $(BUILD)/emulated/backend.o $(BUILD)/emulated/cuda.o

all: dmft-solve dmft-sweep dmft-compare

# Those of the last make, whatever its options.
dmft-solve dmft-sweep dmft-compare: %: $(BUILD)/% FORCE
	@cmp -s $< $@ || cp $< $@

$(BUILD)/dmft-solve: $(BUILD)/solver/main.o $(OBJECTS)
$(BUILD)/dmft-sweep: $(BUILD)/solver/main_sweep.o $(OBJECTS)
$(BUILD)/dmft-compare: $(BUILD)/solver/main_compare.o $(OBJECTS)
$(BUILD)/dmft-solve $(BUILD)/dmft-sweep $(BUILD)/dmft-compare:
	@echo '  LD $@'
	@$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -o $@

$(BUILD)/test_%: $(BUILD)/tests/test_%.o $(TEST_OBJECTS) $(OBJECTS)
	@echo '  LD $@'
	@$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -lcmocka -o $@

$(BUILD)/emulated_%: $(BUILD)/tests/test_%.o $(TEST_OBJECTS) $(EMULATED_OBJECTS)
	@echo '  LD $@'
	@$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -lcmocka -lstdc++ -o $@

$(BUILD)/test_architecture: tests/architecture.sh $(OBJECTS)
	@cp $< $@

$(BUILD)/bench $(BUILD)/bench_methods $(BUILD)/bench_floor $(BUILD)/validation: $(BUILD)/%: $(BUILD)/tests/%.o $(OBJECTS)
	@echo '  LD $@'
	@$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo '  CC $<'
	@$(CC) $(CFLAGS) -c $< -o $@

# Vector loops: unrolled whole, with fused multiply-adds where the machine has them.
$(BUILD)/kernels/skinny.o: CFLAGS += -O3 -ffp-contract=fast
# Vector functions do not set errno.
$(BUILD)/kernels/functions.o: CFLAGS += -fno-math-errno

$(BUILD)/%.o: %.cu
	@mkdir -p $(@D)
	@echo '  NVCC $<'
	@$(CUDA_HOME)/bin/nvcc $(NVCCFLAGS) -c $< -o $@

$(BUILD)/emulated/backend.o: kernels/backend.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -DCUDA -c $< -o $@

$(BUILD)/emulated/cuda.o: kernels/cuda.cu
	@mkdir -p $(@D)
	@echo '  CXX $< (emulated)'
	@$(CXX) $(CXXFLAGS) $(OPT) -MMD -MP -Itests/cuda_host -I. -x c++ -c $< -o $@

# Version and flags are compiled into one file, made again when they change.
$(BUILD)/solver/provenance.o: CFLAGS += -DVERSION='"$(VERSION)"' -DFLAGS='"$(OPT)"'
$(BUILD)/solver/provenance.o: $(BUILD)/version
$(BUILD)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(OPT)' | cmp -s - $@ || echo '$(VERSION) $(OPT)' > $@

packages:
	@for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo apt-get install -y -q --no-install-recommends $$missing; }

# A recursive make, because pkg-config is asked after the packages are there.
run: packages
	$(MAKE) all
	[ -e regime2.h5 ] && echo "regime2.h5 is here already" || ./dmft-solve data/regime2.ini

# Where mpicc is, a plain build is compared with one for MPI.
MPI_TEST = $(if $(CUDA)$(MPI)$(SAN)$(DEBUG),,$(if $(shell command -v mpicc),build/mpi/test_mpi))

test: all $(TESTS:%=$(BUILD)/test_%) $(EMULATED:%=$(BUILD)/emulated_%)
	$(if $(MPI_TEST),@$(MAKE) --no-print-directory MPI=1 test-mpi)
	@BUILD=$(BUILD) DMFT_SOLVE=$(BUILD)/dmft-solve tests/run.sh $(TESTS:%=$(BUILD)/test_%) \
	    $(EMULATED:%='$(BUILD)/emulated_% cuda') $(MPI_TEST)

test-mpi: $(BUILD)/dmft-solve $(BUILD)/dmft-sweep $(BUILD)/dmft-compare $(BUILD)/test_mpi

FUZZ_SOURCES := tests/fuzz_param.c solver/base.c solver/text.c solver/row.c solver/factor.c solver/param.c
build/fuzz_param: $(FUZZ_SOURCES)
	@mkdir -p $(@D)
	clang -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined -I. $^ -linih -o $@

check-long: test build/fuzz_param
	build/fuzz_param -max_total_time=30 -max_len=4096 -verbosity=0 -print_final_stats=1
	$(BUILD)/test_reference long
	$(BUILD)/test_reference3 long
	$(BUILD)/test_residual_reference long
	$(BUILD)/test_networks long
	$(BUILD)/test_coordinate long
	$(BUILD)/test_fixed_point long
	$(MAKE) SAN=1 test

plot-test: all
	PYTHONPATH=plot PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m pytest -q -p no:cacheprovider \
	    tests/test_plot.py tests/test_studies.py

# Data and picture of studies/NAME.ini: NAME.h5, NAME.d, NAME.png here. Resumes what was stopped.
study: dmft-sweep
	./dmft-sweep studies/$(NAME).ini
	PYTHONPATH=plot PYTHONDONTWRITEBYTECODE=1 $(PYTHON) plot/studies.py $(NAME).h5

bench: $(BUILD)/bench $(BUILD)/bench_methods $(BUILD)/bench_floor
	$(BUILD)/bench
	$(BUILD)/bench_methods
	$(BUILD)/bench_floor $(if $(CUDA),cuda)

# docs/performance.png: work against precision (ten minutes; needs Python with matplotlib)
bench-figures: $(BUILD)/bench_methods
	$< figure > build/performance.csv
	$(PYTHON) plot/performance.py build/performance.csv docs/performance.png

validation: $(BUILD)/validation
	$< > docs/validation.md

format:
	clang-format -i -style=file $(wildcard */*.c */*.h */*.cu tests/*/*.h)

install: all
	install -D -t $(DESTDIR)$(PREFIX)/bin dmft-solve dmft-sweep dmft-compare
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(wildcard docs/man/*.1)

info:
	@echo 'version   $(VERSION)'
	@echo 'compiler  $(CC) $(OPT)'
	@echo 'build     $(BUILD)'
	@for p in $(PKG); do echo "library   $$p $$(pkg-config --modversion $$p)"; done

clean:
	rm -rf build dmft-solve dmft-sweep dmft-compare

FORCE:
.PHONY: all run test test-mpi check-long plot-test study bench bench-figures validation format packages install info clean FORCE
.SECONDARY:
-include $(wildcard $(BUILD)/*/*.d)
