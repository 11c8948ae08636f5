/* The K largest of cuda. A site is known by two whole numbers, the key of its value (top.h) and how
 * many sites lie behind it: of two sites the one with the larger pair is before the other, and no
 * two have the same. Of many sites, the K-th largest pair is found digit by digit, from the highest
 * on: a launch counts, of the sites that have all digits found so far, how many have which next
 * digit, and the next launch, each thread for itself, sees from the counts which digit it is. */
#include "kernels/array/cuda.h"
#include "kernels/array/top.h"

#define BITS 4u /* of a digit */
#define DIGITS (1u << BITS)
#define THREAD_SITES 32 /* at least, where there are as many */
#define COMPARED 4096   /* sites that are compared with each other, at most */

/* What is known of the K-th largest pair before a round, and how many of the K largest are among
 * the sites that agree with it. */
struct known {
    uint64_t value;
    unsigned site, left;
};

struct search {
    unsigned rounds, value_bits, site_bits, K;
};

/* The last 28 bits of the key of a number of 32 bits are all those of its sign. */
template <class real> static __device__ uint64_t key_of(real value) {
    return top_key((double)value) >> (sizeof(real) == sizeof(float) ? 28 : 0);
}

/* What is known before a round, out of what was known before the last one, states [rounds][rows],
 * and what that has counted, counts [rounds][rows][DIGITS]. */
static __device__ struct known known_before(struct search search, const struct known *states,
                                            const unsigned *counts, unsigned round, size_t rows,
                                            size_t row) {
    struct known start = {0, 0, search.K};
    if (!round)
        return start;
    struct known found = states[(round - 1) * rows + row];
    counts += ((round - 1) * rows + row) * DIGITS;
    unsigned digit = DIGITS - 1;
    for (; digit > 0 && counts[digit] < found.left; digit--)
        found.left -= counts[digit];
    if (round <= search.value_bits / BITS)
        found.value = found.value << BITS | digit;
    else
        found.site = found.site << BITS | digit;
    return found;
}

/* The digit of a site in this round, or DIGITS where it does not agree with what is known. */
static __device__ unsigned digit_of(struct search search, unsigned round, struct known known,
                                    uint64_t value, unsigned behind) {
    unsigned value_rounds = search.value_bits / BITS;
    if (round < value_rounds) {
        unsigned shift = search.value_bits - BITS * (round + 1);
        if (round && value >> (shift + BITS) != known.value)
            return DIGITS;
        return (unsigned)(value >> shift) % DIGITS;
    }
    unsigned shift = search.site_bits - BITS * (round - value_rounds + 1);
    bool agrees =
        value == known.value && (round == value_rounds || behind >> (shift + BITS) == known.site);
    return agrees ? behind >> shift & (DIGITS - 1) : DIGITS;
}

/* Eight counters of a byte each. */
static __device__ void add_bytes(unsigned *counts, uint64_t bytes) {
    for (unsigned digit = 0; digit < 8; digit++) {
        unsigned count = (unsigned)(bytes >> (8 * digit)) & 255;
        if (count)
            atomicAdd(counts + digit, count);
    }
}

template <class real>
static __global__ void k_count(struct search search, struct known *states, unsigned *all,
                               unsigned round, view<real> x, size_t rows, size_t sites) {
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t threads = (size_t)gridDim.x * blockDim.x;
    for (size_t k = blockIdx.y; k < rows; k += gridDim.y) {
        struct known known = known_before(search, states, all, round, rows, k);
        unsigned *counts = all + (round * rows + k) * DIGITS, added = 0;
        uint64_t low = 0, high = 0;
        if (!first)
            states[round * rows + k] = known;
        for (size_t i = first; i < sites; i += threads) {
            uint64_t value = key_of(x.at[k * x.stride + i]);
            unsigned digit = digit_of(search, round, known, value, (unsigned)(sites - 1 - i));
            low += digit < 8 ? (uint64_t)1 << (8 * digit) : 0;
            high += digit >= 8 && digit < DIGITS ? (uint64_t)1 << (8 * (digit - 8)) : 0;
            if (++added == 255 || i + threads >= sites) {
                add_bytes(counts, low);
                add_bytes(counts + 8, high);
                low = high = added = 0;
            }
        }
    }
}

template <class real>
static __global__ void k_mark(struct search search, const struct known *states,
                              const unsigned *counts, view<real> x, view<real> mask, size_t rows,
                              size_t sites) {
    for (size_t k = blockIdx.y; k < rows; k += gridDim.y) {
        struct known last = known_before(search, states, counts, search.rounds, rows, k);
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < sites;
             i += (size_t)gridDim.x * blockDim.x) {
            uint64_t value = key_of(x.at[k * x.stride + i]);
            bool among = value > last.value ||
                         (value == last.value && (unsigned)(sites - 1 - i) >= last.site);
            mask.at[k * mask.stride + i] = among && search.K > 0;
        }
    }
}

/* A site is among the K largest if fewer than K are before it: one launch, where that is not much
 * to compare. */
template <class real>
static __global__ void k_compare(unsigned K, view<real> x, view<real> mask, size_t rows,
                                 size_t sites) {
    EACH(k, rows, i, sites) {
        const real *row = x.at + k * x.stride;
        uint64_t own = key_of(row[i]);
        unsigned before = 0;
        for (size_t j = 0; j < sites && before < K; j++) {
            uint64_t other = key_of(row[j]);
            before += other > own || (other == own && j < i);
        }
        mask.at[k * mask.stride + i] = before < K;
    }
}

template <class real> void cuda<real>::top(struct rows x, size_t K, struct rows mask) {
    size_t rows = (size_t)x.count, sites = x.array->sites;
    unsigned site_bits = BITS;
    void *memory;
    if (sites <= COMPARED) {
        launch("top", rows, sites, k_compare<real>, (unsigned)K, view_of<real>(x),
               view_of<real>(mask), rows, sites);
        return;
    }
    while ((sites - 1) >> site_bits)
        site_bits += BITS;
    unsigned value_bits = sizeof(real) == sizeof(float) ? 36 : 64;
    struct search search = {(value_bits + site_bits) / BITS, value_bits, site_bits, (unsigned)K};
    size_t of_states = search.rounds * rows * sizeof(struct known),
           of_counts = search.rounds * rows * DIGITS * sizeof(unsigned);
    if (!rows || !device_ready() || !device_borrow(of_states + of_counts, &memory, "top"))
        return; /* sync() tells */
    struct known *states = (struct known *)memory;
    unsigned *counts = (unsigned *)((char *)memory + of_states);
    device_good(cudaMemsetAsync(counts, 0, of_counts, device_stream()), "top");
    for (unsigned round = 0; round < search.rounds; round++)
        launch("top", rows, (sites + THREAD_SITES - 1) / THREAD_SITES, k_count<real>, search,
               states, counts, round, view_of<real>(x), rows, sites);
    launch("top", rows, sites, k_mark<real>, search, (const struct known *)states,
           (const unsigned *)counts, view_of<real>(x), view_of<real>(mask), rows, sites);
    device_give_back(memory);
}

template struct cuda<double>;
template struct cuda<float>;
