#include "kernels/array/top.h"

void top_start(struct top_search *search) {
    *search = (struct top_search){.low = UINT64_MAX, .keys = search->keys};
}

bool top_open(const struct top_search *search) {
    return search->high > search->low + 1;
}

size_t top_count(struct top_search *search, bool over_ranks) {
    uint64_t middle = over_ranks ? search->low : search->keys[search->left / 2];
    if (middle == search->low)
        middle += (search->high - search->low) / 2;
    size_t count = search->above;
    for (size_t i = 0; i < search->left; i++)
        count += search->keys[i] >= middle;
    search->middle = middle;
    return count;
}

void top_halve(struct top_search *search, size_t count, size_t all, size_t K) {
    uint64_t middle = search->middle;
    size_t left = 0;
    for (size_t i = 0; i < search->left; i++) {
        uint64_t key = search->keys[i];
        search->keys[left] = key;
        left += (key >= middle) == (all > K);
    }
    search->left = all == K ? 0 : left;
    if (all > K)
        search->low = middle;
    else {
        search->high = middle;
        search->above = count;
    }
    if (all == K)
        search->low = middle - 1;
}
