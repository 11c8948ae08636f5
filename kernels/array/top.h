/* The search for the K-th largest number of a row whose numbers may lie on several ranks: keys of
 * this rank, which get fewer, and how many numbers are known to be larger. Numbers are compared as
 * keys, which have an order even where they are NaN. */
#pragma once

#include "kernels/base/base.h"

/* `left` keys of this rank are at least low and below high, `above` are at least high. All ranks
 * have the same low and high; the caller sees to that after top_add(). */
struct top_search {
    uint64_t low, high, middle, *keys; /* keys: the caller's memory, for all numbers */
    size_t left, above;
};

/* In the order of the values, without a difference between 0 and -0; that of NaN, whatever its
 * sign, is the largest. */
ON_DEVICE static inline uint64_t top_key(double value) {
    uint64_t bits;
    value += 0.0;
    if (value != value)
        return (uint64_t)0xfff8 << 48;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
void top_start(struct top_search *search);
/* When all are added, low and high are the smallest and the largest key. */
static inline void top_add(struct top_search *search, double value) {
    uint64_t key = top_key(value);
    search->keys[search->left++] = key;
    search->low = key < search->low ? key : search->low;
    search->high = key > search->high ? key : search->high;
}
/* Whether there is anything between low and high. */
bool top_open(const struct top_search *search);
/* Sets the middle, between low and high, and returns how many numbers of this rank are at least
 * that. Over ranks the middle is that of low and high, else the key of a number. */
size_t top_count(struct top_search *search, bool over_ranks);
/* Goes on on one side of the middle, which `count` numbers of this rank and `all` of all ranks
 * reach. Where just K reach it the search has ended, with nothing left. */
void top_halve(struct top_search *search, size_t count, size_t all, size_t K);
