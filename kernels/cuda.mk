# The backend cuda. CUDA=1: nvcc compiles kernels/*.cu into the programs. EMULATED_OBJECTS: the same
# sources compiled for the host (tests/cuda_host), for tests.
CUDA_SOURCES := $(sort $(wildcard kernels/*.cu kernels/*/*.cu))
ifdef CUDA
CUDA_OBJECTS := $(CUDA_SOURCES:%.cu=$(PLAIN)/%.o)
CUDA_LIBS := -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcublas -lcudart -lstdc++
endif
# sm_80 and sm_90, and PTX for later devices; no contraction, as on the host.
NVCCFLAGS := -std=c++17 -O2 --fmad=false -Werror all-warnings -I. -MMD -MP \
             -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] \
             -Xcompiler -fPIC,-Wall,-Wextra,-Wshadow,-Wconversion,-Werror
# The emulation asks at every step of a thread which one it is: without a call where it is linked. Its
# threads are loops on the host, and tests run them long enough for -O3.
CXXFLAGS := -std=c++17 -ftls-model=initial-exec -Wall -Wextra -Wshadow -Wconversion -Werror

$(PLAIN)/%.o: %.cu
	@mkdir -p $(@D)
	@echo '  NVCC $<'
	@$(CUDA_HOME)/bin/nvcc $(NVCCFLAGS) -c $< -o $@

EMULATED_CUDA := $(CUDA_SOURCES:%.cu=$(PLAIN)/emulated/%.o)
EMULATED_OBJECTS = $(filter-out $(PLAIN)/kernels/array/backend.o $(CUDA_OBJECTS),$(OBJECTS)) \
                   $(PLAIN)/emulated/kernels/array/backend.o $(EMULATED_CUDA)

$(PLAIN)/emulated/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -DCUDA -c $< -o $@

$(PLAIN)/emulated/%.o: %.cu
	@mkdir -p $(@D)
	@echo '  CXX $< (emulated)'
	@$(CXX) $(CXXFLAGS) $(OPT:-O2=-O3) -fPIC -MMD -MP -Itests/cuda_host -I. -x c++ -c $< -o $@
