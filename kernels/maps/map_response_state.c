/* Responses in states, and the memory that they take (map_response.h). */
#include "kernels/maps/map_limit.h"
#include "kernels/maps/map_response.h"
#include "kernels/array/companions.h"

/* Whether what was read has so many rows of each evaluation as `begin` makes. */
static bool has_rows_of_times(const struct map *map) {
    const struct map_response *response = map->response;
    int times = response->terms.evaluations, first = times ? response->terms.numbers / times : 0;
    int each[] = {first, map->declared.for_all_inputs ? 1 : first};
    bool fits = times * first == response->terms.numbers &&
                response->y.rows == (map->kind == &map_adam ? 0 : times * each[1]);
    for (int t = 0; t < response->terms.times; t++) /* the first evaluation is that of time 0 */
        fits = fits &&
               (t ? response->terms.measured[t] > response->terms.measured[t - 1]
                  : response->terms.measured[0] == 0) &&
               response->terms.measured[t] < times;
    for (int i = 0; i < 2; i++) {
        const struct response_side *side = &response->side[i];
        for (int c = 0; c < COMPANIONS; c++)
            fits = fits && side->change[c].rows == times * each[i];
        fits = fits && side->probes.rows == (side->response != 0 ? times * each[1 - i] : 0);
    }
    return fits;
}

/* An array of entries is there with all of them, or not at all. */
static int expect_entries(const struct map *map, const struct archive *archive,
                          const struct array *entries, struct err *err) {
    const struct array *whole = &map->response->whole;
    const struct population *on =
        map_learns_backward(&map->declared) ? map->declared.source : map->declared.target;
    int rows = whole->memory ? whole->rows : (int)map->declared.source->sites;
    return !entries->memory ? CODE_OK
                            : archive_expect(archive, entries, on->sites, on->group, rows, err);
}

int map_response_archive(struct map *map, struct archive *archive, struct err *err) {
    struct map_response *response = map->response;
    if (!response)
        return CODE_OK;
    const struct population *t = map->declared.target;
    TRY(archive_bytes(archive, &response->terms.evaluations, sizeof response->terms.evaluations,
                      err));
    TRY(archive_bytes(archive, &response->terms.numbers, sizeof response->terms.numbers, err));
    TRY(archive_bytes(archive, &response->terms.times, sizeof response->terms.times, err));
    if (response->terms.evaluations < 0 || response->terms.numbers < 0 || response->terms.times < 0)
        return archive_misfit(archive, "a response has an impossible number of times", err);
    size_t times = (size_t)response->terms.evaluations, numbers = (size_t)response->terms.numbers;
    TRY(archive_list(archive, &response->terms.decay, times, sizeof(double), err));
    TRY(archive_list(archive, &response->terms.measured, (size_t)response->terms.times, sizeof(int),
                     err));
    TRY(archive_list(archive, &response->terms.c, numbers, sizeof(double), err));
    TRY(archive_list(archive, &response->terms.velocity, numbers, sizeof(double), err));
    FOR_EACH_OF (struct response_side, side, response->side, 2) {
        for (int c = 0; c < COMPANIONS; c++)
            TRY(archive_array(archive, &side->change[c], side->change[c].backend, err));
        TRY(archive_array(archive, &side->probes, side->probes.backend, err));
    }
    response->terms.now = response->terms.evaluations - 1;
    TRY(archive_array(archive, &response->y, response->y.backend, err));
    TRY(archive_array(archive, &response->D, t->backend, err));
    TRY(archive_array(archive, &response->whole, response->y.backend, err));
    const struct backend *moved = response->whole.memory ? response->y.backend : t->backend;
    for (int i = 0; i < 2; i++)
        TRY(archive_array(archive, &response->moment[i], moved, err));
    if (response->whole.rows > response->terms.numbers)
        return archive_misfit(archive, "a response has learned from times that it has not", err);
    TRY(expect_entries(map, archive, &response->whole, err));
    for (int i = 0; i < 2; i++)
        TRY(expect_entries(map, archive, &response->moment[i], err));
    TRY(expect_entries(map, archive, &response->D, err));
    return !archive_reads(archive) || has_rows_of_times(map)
               ? CODE_OK
               : archive_misfit(archive, "a response has other rows than times", err);
}

/* What learned from y and x', and of entries once more from y' and x, is counted elsewhere. */
double map_response_bytes(const struct map *map, double evaluations, int x_rows, int y_rows) {
    double bytes = 0;
    for (int i = 0; i < 2; i++) {
        const struct population *on = i ? map->declared.target : map->declared.source,
                                *pool = on->units ? on->units : on;
        double rows = i ? y_rows : x_rows, fields = i ? x_rows : y_rows,
               amplitude = i ? map->numbers.fg : map->numbers.fr;
        bytes += (COMPANIONS + i) * population_main_bytes(on, evaluations * rows);
        bytes += amplitude != 0 ? population_main_bytes(pool, evaluations * fields) : 0;
    }
    return bytes;
}
