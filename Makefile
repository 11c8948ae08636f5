# dmft-solve. `make run` installs, builds and runs; `make test` passes the tests; `make info` says what
# would be built. DEBUG=1, SAN=1: other flags; each set of options has its own folder.

VERSION := 0.1.0$(shell git describe --always --dirty 2>/dev/null | sed 's/^/+/')
PACKAGES := make gcc pkg-config libc6-dev libopenblas-dev libgsl-dev libhdf5-dev libinih-dev \
            librandom123-dev libcmocka-dev clang libclang-rt-14-dev

CC := gcc
PKG := openblas gsl hdf5-serial inih
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
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
CFLAGS = -std=c17 $(OPT) $(WARN) -fopenmp -MMD -MP -I. $(shell pkg-config --cflags $(PKG))
LDLIBS = $(shell pkg-config --libs-only-L hdf5-serial) -lhdf5_hl $(shell pkg-config --libs $(PKG)) -lm

KERNELS := backend cpu shadow basis population map map_finite map_limit thin
MODELS := model gate regime2
INTEGRATORS := gd
SOLVER := base text row param record data partial io config provenance stats observe run report
LIB := $(KERNELS:%=kernels/%) $(MODELS:%=models/%) $(INTEGRATORS:%=integrators/%) $(SOLVER:%=solver/%)
OBJECTS := $(LIB:%=$(BUILD)/%.o)

all: dmft-solve

dmft-solve: $(BUILD)/dmft-solve
	cp $< $@

$(BUILD)/dmft-solve: $(BUILD)/solver/main.o $(OBJECTS)
	$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

# Version and flags are compiled into one file, made again when they change.
$(BUILD)/solver/provenance.o: CFLAGS += -DVERSION='"$(VERSION)"' -DFLAGS='"$(OPT)"'

# Each test is one short program.
TESTS := param data io oracle network map limit reference
TEST_OBJECTS := $(BUILD)/tests/support.o $(BUILD)/tests/oracle_regime2.o

$(BUILD)/test_%: $(BUILD)/tests/test_%.o $(TEST_OBJECTS) $(OBJECTS)
	$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -lcmocka -o $@

test: dmft-solve $(TESTS:%=$(BUILD)/test_%)
	tests/run.sh $(TESTS:%=$(BUILD)/test_%)

$(BUILD)/bench: $(BUILD)/tests/bench.o $(OBJECTS)
	$(CC) $(OPT) -fopenmp $^ $(LDLIBS) -o $@

bench: $(BUILD)/bench
	$<

clean:
	rm -rf build dmft-solve

.PHONY: all test bench clean
.SECONDARY:
-include $(OBJECTS:.o=.d) $(BUILD)/solver/main.d $(wildcard $(BUILD)/tests/*.d)
