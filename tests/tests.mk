# Tests and benches. A program for each tests/test_*.c, linked with all of tests/support and
# tests/oracles; tests/run.sh runs them, those that wait a lot first. test_mpi compares a plain build with one for MPI.
TEST_SOURCES := $(sort $(wildcard tests/*.c tests/*/*.c))
TESTS := architecture $(filter-out mpi,$(patsubst tests/test_%.c,%,$(filter tests/test_%,$(TEST_SOURCES))))
TEST_OBJECTS := $(patsubst %.c,$(PLAIN)/%.o,$(filter tests/support/% tests/oracles/%,$(TEST_SOURCES)))
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/%,$(filter tests/bench/%,$(TEST_SOURCES)))
# Tests of the backend cuda, run through tests/cuda_host: on the host, as an emulation.
EMULATED := counts backend rows functions basis population thin change polar tile device single
EMULATED_SINGLE := backend rows functions

# Ranges have one name in cmocka 1, and others in cmocka 2, which warns of it.
$(PLAIN)/tests/%.o: CFLAGS += -DCMOCKA_DISABLE_DEPRECATION_WARNINGS
# Without optimization tests compile in half of the time. What they share has it, and those that
# compute a lot themselves; benches, which time what they run, keep -O2.
BUSY := backend basis change few_rows few_rows_single rng rows tile
ifeq ($(KIND),release)
$(patsubst %.c,$(PLAIN)/%.o,$(filter tests/test_%,$(TEST_SOURCES))): CFLAGS += -O0
$(TEST_OBJECTS) $(BUSY:%=$(PLAIN)/tests/test_%.o): CFLAGS += -O1
endif

$(BUILD)/test_objects: FORCE
	$(call STAMP,libsupport.so: $(TEST_OBJECTS))

# Tests load the program and what they share as libraries: what changes there is linked once, not 130
# times. The libraries that the program itself needs are not searched again for each test.
# Ours come first: a test that calls GSL itself would else give the program the BLAS of GSL.
LINK_LOADED = @echo '  LD $@'; $(LINKER) $(OPT) -fopenmp $(filter %.o,$^) $(filter %.so,$|) \
              -Wl,--allow-shlib-undefined $(LDLIBS) -o $@
BESIDE := -Wl,-rpath,'$$ORIGIN'
$(BUILD)/libprogram.so: $(OBJECTS) $(BUILD)/objects
	$(LINK) -shared -Wl,-Bsymbolic,-soname,$(@F)
$(BUILD)/libsupport.so: $(TEST_OBJECTS) $(BUILD)/test_objects
	$(LINK) -lcmocka -shared -Wl,-Bsymbolic,-soname,$(@F)
$(BUILD)/test_%: $(PLAIN)/tests/test_%.o $(BUILD)/test_objects | $(BUILD)/libsupport.so $(BUILD)/libprogram.so
	$(LINK_LOADED) $(BESIDE) -lcmocka

# Those that replace calls which the program makes have it inside.
WHOLE := abc bytes bytes_left
$(WHOLE:%=$(BUILD)/test_%): $(BUILD)/test_%: $(PLAIN)/tests/test_%.o $(TEST_OBJECTS) $(OBJECTS) $(BUILD)/objects $(BUILD)/test_objects
	$(LINK) -lcmocka

# Changes the numbers of one matrix on their way into a network.
$(BUILD)/test_abc: LDLIBS += -Wl,--wrap=weight_settle
# They count what is allocated.
$(BUILD)/test_bytes $(BUILD)/test_bytes_left: LDLIBS += $(addprefix -Wl$(COMMA)--wrap=,malloc calloc realloc fmemopen free)

$(BUILD)/emulated/libprogram.so: $(EMULATED_OBJECTS) $(BUILD)/objects
	$(LINK) -lstdc++ -shared -Wl,-Bsymbolic,-soname,$(@F)
$(BUILD)/emulated_%: $(PLAIN)/tests/test_%.o $(BUILD)/test_objects | $(BUILD)/libsupport.so $(BUILD)/emulated/libprogram.so
	$(LINK_LOADED) -Wl,-rpath,'$$ORIGIN/emulated' $(BESIDE) -lcmocka

# Programs with the emulated CUDA of which the n-th allocation, write, launch ... fails.
FAULTY := base_grow free malloc calloc realloc strdup open_memstream write fwrite fclose fsync rename link unlink \
          LAPACKE_dgelsd LAPACKE_dsyev LAPACKE_dgesvd LAPACKE_dgesdd LAPACKE_dgeqrf LAPACKE_dorgqr H5Lexists H5Gcreate2 H5Gopen2 H5Acreate2 H5Awrite \
          H5Screate_simple H5Screate H5Pset_obj_track_times H5Pset_chunk H5Pset_deflate H5Dcreate2 \
          H5Fopen H5LTpath_valid H5Aexists_by_name H5Aopen_by_name H5Aread H5Dread H5LTget_dataset_ndims H5LTget_dataset_info \
          H5LTread_dataset_double H5Dopen2 H5Dwrite H5Fcreate H5Fflush H5Fget_file_image H5DSset_scale H5DSattach_scale
$(BUILD)/faults/dmft-%: $(PLAIN)/solver/main_%.o $(PLAIN)/tests/faults/faults.o $(EMULATED_OBJECTS) $(BUILD)/objects
	@mkdir -p $(@D) && ld -r $(FAULTY:%=--wrap=%) $(filter %.o,$^) -o $@.o
	$(call LINK_ALONE,$@.o -lstdc++)
$(foreach f,faults shared,$(BUILD)/$f/dmft-sweep $(BUILD)/$f/dmft-data): python/dmft-sweep $(BUILD)/python
	$(SCRIPT)
$(BUILD)/test_faults: | $(PROGRAMS:%=$(BUILD)/faults/%)

# Programs that load it, too, for tests/mutate.py.
$(BUILD)/shared/dmft-%: $(PLAIN)/solver/main_%.o | $(BUILD)/libprogram.so
	@mkdir -p $(@D)
	$(LINK_LOADED) -Wl,-rpath,'$$ORIGIN/..'

$(BUILD)/test_architecture: tests/architecture.sh $(OBJECTS)
	@cp $< $@

$(BENCHES): $(BUILD)/%: $(PLAIN)/tests/bench/%.o $(OBJECTS) $(BUILD)/objects
	$(LINK)

# Where mpicc is, a plain build is compared with one for MPI.
MPI_TEST = $(if $(CUDA)$(MPI)$(SAN)$(DEBUG),,$(if $(shell command -v mpicc),build/mpi/test_mpi))

# After a change of the row of a word: the list of the Python package and the tables of documents.
words: $(BUILD)/dmft-solve
	DMFT_HOME=$(BUILD) $(PYTHON) tests/word_tables.py

# The Python package, with the programs of a plain build, in parts that run beside other tests.
PYTHON_TEST = $(if $(CUDA)$(MPI)$(SAN)$(DEBUG),,$(foreach k,1 2,'tests/python.sh part $k 2'))

# What is installed, of a plain build.
INSTALL_TEST = $(if $(CUDA)$(MPI)$(SAN)$(DEBUG),,tests/install.sh)

test: all $(if $(INSTALL_TEST),$(LIBRARY) $(COMPLETION)) $(if $(PYTHON_TEST),python-packages) $(TESTS:%=$(BUILD)/test_%) $(EMULATED:%=$(BUILD)/emulated_%)
	$(if $(MPI_TEST),@$(MAKE) --no-print-directory MPI=1 test-mpi)
	@BUILD=$(BUILD) DMFT_SOLVE=$(BUILD)/dmft-solve DMFT_HOME=$(BUILD) PYTHON=$(PYTHON) tests/run.sh $(MPI_TEST) $(PYTHON_TEST) $(INSTALL_TEST) \
	    $(TESTS:%=$(BUILD)/test_%) $(EMULATED:%='$(BUILD)/emulated_% cuda') $(EMULATED_SINGLE:%='$(BUILD)/emulated_% cuda_single') $(if $(CUDA),'$(BUILD)/test_single cuda')

# make test-NAME runs tests/test_NAME.c alone, with K=PART only those of its functions whose name has
# this part; make test-changed those that the files reach that differ from main (tests/reach.py).
ONE = $(if $(K),DMFT_TESTS='$(K)') BUILD=$(BUILD) DMFT_SOLVE=$(BUILD)/dmft-solve DMFT_HOME=$(BUILD) PYTHON=$(PYTHON)
$(TESTS:%=test-%): test-%: all $(BUILD)/test_%
	@$(ONE) $(BUILD)/test_$*

REACHED = $(shell $(PYTHON) tests/reach.py)
test-changed: all
	@$(MAKE) --no-print-directory $(patsubst %,$(BUILD)/test_%,$(filter-out python %.py,$(REACHED)))
	@$(ONE) tests/run.sh $(patsubst %,$(BUILD)/test_%,$(filter-out python %.py,$(REACHED))) \
	    $(if $(filter python,$(REACHED)),$(PYTHON_TEST),$(patsubst %.py,'tests/python.sh tests/test_%.py',$(filter %.py,$(REACHED))))

test-mpi: $(PROGRAMS:%=$(BUILD)/%) $(BUILD)/test_mpi

FUZZ_SOURCES := tests/fuzz_param.c $(wildcard kernels/base/*.c) solver/settings/row.c \
                $(wildcard solver/settings/param*.c) solver/settings/factor.c
FUZZ := clang -std=c17 -O1 -g -I. -fsanitize=fuzzer,address,undefined
build/fuzz_param: $(FUZZ_SOURCES)
	@mkdir -p $(@D)
	$(FUZZ) $^ -o $@
# With the keys of all networks, so that what is not fuzzed is linked as it is built.
FUZZED := solver/command.c $(wildcard kernels/base/*.c solver/settings/*.c solver/data/*.c)
build/fuzz_command: tests/fuzz_command.c $(FUZZED) $(filter-out $(FUZZED:%.c=$(PLAIN)/%.o),$(OBJECTS))
	@mkdir -p $(@D)
	$(FUZZ) $(shell pkg-config --cflags $(PKG)) $^ $(LDLIBS) -lgomp -o $@

LONG := models resume reference reference3 residual_reference transformer_reference networks coordinate \
        coordinate_limit stack_limit stack_norms fixed_point response_derivative data_file script_fuzz \
        faults
check-long: test build/fuzz_param
	build/fuzz_param -max_total_time=30 -max_len=4096 -verbosity=0 -print_final_stats=1
	@for t in $(LONG); do echo "$(BUILD)/test_$$t long"; $(BUILD)/test_$$t long || exit 1; done
	LONG=1 PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/python.sh -k 'every_study or march_of_the or without_a_term or no_term or a_script_reads or pictures_are_made'
	$(MAKE) SAN=1 test

# Everything that is random, for TIME seconds, with a fresh seed (or SEED=number).
TIME := 300
soak: all build/fuzz_param build/fuzz_command $(BUILD)/test_script_fuzz
	@BUILD=$(BUILD) tests/soak.sh $(TIME) $(if $(filter command% environment%,$(origin SEED)),$(SEED))

python-test: all python-packages
	PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/python.sh $(if $(K),-k '$(K)')

# dmft.torch: every network trained by PyTorch beside the program, from the same weights.
torch-test: all torch-packages
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/torch.sh

# dmft.torch.import_module, with a current PyTorch of PyPI in build/importing.
TRANSFORMERS := 5.24.0
import-test: all
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) TRANSFORMERS=$(TRANSFORMERS) tests/importing.sh $(if $(K),-k '$(K)')

# Deliberate faults in the program that torch-test must find (the list in tests/torch_faults.py; an hour of processor
# where none is found at once); FAULTS="gate 7" are those of a word or number.
torch-faults: all torch-packages
	PYTHON=$(PYTHON) $(PYTHON) tests/torch_faults.py $(FAULTS)

# Random networks: 500 beside PyTorch, the first of them SEED, 100 cut and gone on with, predictions of
# 100, and the limits of 30 that tests/random/limits.tsv does not have yet; with TIME as many as so many
# seconds let, of each.
check-random: all torch-packages
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/random.sh networks $(if $(RANDOM_TIME),--count 1000000 --time $(RANDOM_TIME)) --seed $(RANDOM_SEED)
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/random.sh pieces $(if $(RANDOM_TIME),--count 1000000 --time $(RANDOM_TIME)) --seed $(RANDOM_SEED)
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/random.sh predictions $(if $(RANDOM_TIME),--count 1000000 --time $(RANDOM_TIME)) --seed $(RANDOM_SEED)
	@PYTHON=$(PYTHON) DMFT_HOME=$(BUILD) tests/random.sh limits $(if $(RANDOM_TIME),--count 1000000 --time $(RANDOM_TIME)) --seed $(RANDOM_SEED)
RANDOM_TIME = $(if $(filter command% environment%,$(origin TIME)),$(TIME))
RANDOM_SEED = $(if $(filter command% environment%,$(origin SEED)),$(SEED),1)

bench: all $(BUILD)/bench $(BUILD)/bench_methods $(BUILD)/bench_floor
	$(BUILD)/bench
	$(BUILD)/bench_methods
	$(BUILD)/bench_floor $(if $(CUDA),cuda)
	$(if $(CUDA),,$(PYTHON) tests/bench/floors.py $(BUILD)/dmft-solve)

# This build beside another one: make bench-against BASE=PATH/dmft-solve
bench-against: all
	$(PYTHON) tests/bench/against.py $(BASE) ./dmft-solve

# Single beside double precision, for every width and network of the table in docs/performance.md.
bench-precision: all
	$(PYTHON) tests/bench/precision.py ./dmft-solve

# A device beside the processor of the same machine, whole runs: make CUDA=1 bench-device.
bench-device: all
	$(PYTHON) tests/bench/device.py ./dmft-solve

# What runs say of their memory beside what they take: make bench-memory, or with INIS='data/dense.ini ...'.
bench-memory: all
	$(PYTHON) tests/bench/memory.py ./dmft-solve $(INIS)

# Networks beside PyTorch and JAX, of a virtual environment: make bench-peers PEERS=VENV/bin/python.
bench-peers: all
	$(PEERS) tests/bench/peers.py ./dmft-solve $(CELLS)
	$(if $(CELLS),,$(PEERS) tests/bench/language.py ./dmft-solve)

# docs/performance.png: work against precision (ten minutes; needs Python with matplotlib)
bench-figures: $(BUILD)/bench_methods
	$< figure > build/performance.csv
	PYTHON=$(PYTHON) python/with -m dmft.plot.performance build/performance.csv docs/performance.png

# Bias and coverage of the error bars of the limit at the sites of the inis: the table of docs/testing_log.md, from what
# was measured (seconds). make coverage-of NETWORK=swiglu measures one of them anew (one to five minutes of
# processor each): dense regime1 regime2 regime3 residual stack transformer swiglu swiglu_late.
coverage:
	@$(PYTHON) tests/bench/coverage.py --update
coverage-of: $(BUILD)/coverage
	$< $(NETWORK) sobol > $(BUILD)/coverage.tsv
	@mv $(BUILD)/coverage.tsv tests/bench/coverage/$(NETWORK).tsv

# How many of COUNT small faults the tests notice, JOBS at a time; goes on where it stopped.
COUNT := 300
SEED := 1
JOBS := 2
mutants:
	$(PYTHON) tests/mutate.py --count $(COUNT) --seed $(SEED) --jobs $(JOBS)

# Every command of docs/coverage.md, and what its rows say that it shows: ten core-minutes.
coverage-check: all
	NEED='h5py, numpy' PYTHON=$(PYTHON) python/with tests/coverage_table.py

# What docs/tutorial.md, questions.md and first_hour.md print that make test has no time for: a minute.
tables-check: all
	TABLES=1 NEED='h5py, numpy, pytest' PYTHON=$(PYTHON) python/with -m pytest -q -p no:cacheprovider $(patsubst %,tests/test_%.py,tutorial questions first_hour)

# How the bias of the limit goes with its sites (some minutes).
bias: $(BUILD)/bias
	$<

# What Sobol points do to the spread of replicates (minutes).
draws: $(BUILD)/draws
	$<

validation: $(BUILD)/validation
	$< > docs/validation.md

.PHONY: test $(TESTS:%=test-%) test-changed test-mpi check-long soak python-test torch-test import-test torch-faults check-random words bench bench-against bench-precision bench-device bench-memory bench-peers bench-figures coverage coverage-of coverage-check tables-check draws bias \
        validation mutants
