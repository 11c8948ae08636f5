#include "solver/measure/alignment.h"
#include "solver/measure/aggregation.h"

#include <math.h>

#define ROUND_OFF 1e-24 /* of squares */

/* The mean square of now - start. */
static int square_of_change(struct rows now, struct rows start, double *square, struct err *err) {
    FREED(array_free) struct array change = {0};
    TRY(array_keep(&change, now, err));
    aggregation_subtract(start, array_all(&change));
    *square = aggregation_square(array_all(&change));
    return CODE_OK;
}

int alignment_add_input(struct alignment *sum, struct rows x, struct rows start, struct err *err) {
    double square;
    TRY(square_of_change(x, start, &square, err));
    sum->input += aggregation_square(x);
    sum->moved += square;
    return CODE_OK;
}

int alignment_add_map(struct alignment *sum, const struct map *map, struct err *err) {
    size_t entries = map->declared.target->sites * map->declared.source->sites;
    FREED(base_free) double *start = NULL, *now = NULL;
    TRY(base_alloc(&start, entries, sizeof *start, err));
    TRY(base_alloc(&now, entries, sizeof *now, err));
    TRY(map->start->kind->matrix(map->start, start, err));
    TRY(map->kind->matrix(map, now, err));
    for (size_t k = 0; k < entries; k++) {
        double change = now[k] - start[k];
        sum->start += start[k] * start[k] / (double)entries;
        sum->learned += change * change / (double)entries;
    }
    return CODE_OK;
}

int alignment_add_thin(struct alignment *sum, struct rows W, struct rows start, double unit,
                       struct err *err) {
    double square;
    TRY(square_of_change(W, start, &square, err));
    sum->start += unit * unit * aggregation_square(start);
    sum->learned += unit * unit * square;
    return CODE_OK;
}

static double ratio_of_rms(double part, double entries, double input, int members) {
    return part * members * members / (entries * input);
}

double alignment_moved(const struct alignment *sum, double part, int members) {
    bool known = sum->start > 0 && sum->moved > ROUND_OFF * sum->input;
    return known ? ratio_of_rms(part, sum->start, sum->moved, members) : (double)NAN;
}

double alignment_learned(const struct alignment *sum, double part, int members) {
    bool known = sum->input > 0 && sum->learned > ROUND_OFF * sum->start;
    return known ? ratio_of_rms(part, sum->learned, sum->input, members) : (double)NAN;
}
