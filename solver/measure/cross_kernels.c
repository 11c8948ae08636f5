/* Whether experts differ: kernels between different experts at equal time and input, [output]
 * cross.
 *
 * A word that addresses several rows of one population (outputs of a fixed number of experts) gives
 * <x_i x_j> of all of them; one that addresses rows over the units of many experts gives the mean
 * over pairs i != j of <x_i x_j>_units, beside that of i = j. Units of different populations are
 * not numbered alike, and not compared; nor are those of a limit where experts share their normals.
 * Declaring it ends with CODE_INPUT and a sentence where rows cannot be compared. */
#include "solver/measure/fields.h"

/* What one word addresses. */
struct members {
    char word[SERIES_NAME];
    const struct named_rows **named;
    int count;
};

static void members_free(struct members *members) {
    free(members->named);
}

static bool over_experts(const struct named_rows *named) {
    return named->on->group > 1;
}

static bool of_one_expert(const struct named_rows *named) {
    return over_experts(named) && named->on->sites == (size_t)named->on->group;
}

/* In a limit where experts share the normals of their units (kernels/draws/population.h), these are
 * not the units of independent experts. */
static bool units_are_shared(const struct net *net, const struct population *on) {
    bool drawn = false;
    for (int i = 0; i < net->maps.count; i++) {
        const struct map *map = net->maps.item[i];
        drawn |= map->declared.target == on && map->numbers.fg != 0;
        drawn |= map->declared.source == on && map->numbers.fr != 0;
    }
    return !net->setup.N && on->units && drawn;
}

/* The members of word number `word`, to be freed; *more: there is one. */
static int find_members(const struct config *config, const struct net *net, int word,
                        struct members *members, bool *more, struct err *err) {
    *members = (struct members){0};
    *more = instrument_word(config->output.cross, word, members->word);
    if (!*more)
        return CODE_OK;
    TRY(base_alloc(&members->named, (size_t)net->cross_rows.count, sizeof *members->named, err));
    for (int k = 0; k < net->cross_rows.count; k++)
        if (program_addresses(members->word, net->cross_rows.item[k].name) &&
            !units_are_shared(net, net->cross_rows.item[k].on))
            members->named[members->count++] = &net->cross_rows.item[k];
    return CODE_OK;
}

/* In a limit one expert may stand for all, which has no pairs. */
static bool has_cross(const struct members *members) {
    return members->count > 1 || (members->count && !of_one_expert(members->named[0]));
}

static int check_members(const struct net *net, const struct members *members, int *others,
                         struct err *err) {
    const struct named_rows *first = members->count ? members->named[0] : NULL;
    const char *word = members->word;
    if (members->count == 1 && !over_experts(first))
        return err_set(err, CODE_INPUT,
                       "[output] cross: rows %s are those of a single expert, or not over the "
                       "units of experts; name outputs of several experts, or units of many",
                       word);
    if (members->count == 1 && net->setup.N && of_one_expert(first))
        return err_set(err, CODE_INPUT,
                       "[output] cross: rows %s of width N = %d are those of one expert, and it "
                       "takes two to compare; leave them out, or let all widths have more experts",
                       word, net->setup.N);
    for (int k = 1; k < members->count; k++)
        if (members->named[k]->on != first->on ||
            members->named[k]->rows.count != first->rows.count)
            return err_set(err, CODE_INPUT,
                           "[output] cross: rows %s and %s live on different units, which cannot "
                           "be compared one by one; name outputs of experts",
                           first->name, members->named[k]->name);
    if (members->count > 1 && *others && *others != members->count)
        return err_set(err, CODE_INPUT,
                       "[output] cross: %d rows are called %s, but %d by an earlier name; names of "
                       "several rows must have equally many",
                       members->count, word, *others);
    if (members->count > 1)
        *others = members->count;
    return CODE_OK;
}

enum { CROSS, OWN };

static int add_kernel(const struct declaring *d, const struct members *members, bool own,
                      struct err *err) {
    static const char *const alone[FIELDS_FORMS] = FIELDS_DIMS("t", ""),
                             *const pairs[FIELDS_FORMS] = FIELDS_DIMS("t", " member other");
    const struct named_rows *first = members->named[0];
    bool several = members->count > 1;
    struct series series = {.dims = (several ? pairs : alone)[fields_form(d->net, first)],
                            .about =
                                several ? "kernels between experts"
                                : own   ? "kernel of one expert, mean over experts"
                                        : "kernel between different experts, mean over their pairs",
                            .equation = several ? "<x_i x_j>"
                                        : own   ? "<x_i x_i>"
                                                : "<x_i x_j>, i != j"};
    size_t *last = fields_shape(d->net, first, series.shape + 1);
    for (int k = 0; k < 2 && several; k++)
        *last++ = (size_t)members->count;
    return series_add(d, own ? OWN : CROSS, series, err, "%s_%s", own ? "own" : "cross",
                      members->word);
}

/* out [rows][count][count] */
static int measure_several(const struct members *members, double *out, struct err *err) {
    int count = members->count, rows = members->named[0]->rows.count;
    SCRATCH(double, products, (size_t)rows);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            const struct named_rows *a = members->named[i], *b = members->named[j];
            a->rows.array->backend->averages(a->rows, b->rows, products);
            for (ptrdiff_t row = 0; row < rows; row++)
                out[(row * count + i) * count + j] = a->scale * b->scale * products[row];
        }
    return CODE_OK;
}

/* From the mean over experts m_j: the sum over all pairs is M^2 <m m>. cross: NULL for none. */
static int measure_pairs(const struct named_rows *named, double *cross, double *own,
                         struct err *err) {
    const struct array *array = named->rows.array;
    double M = (double)array->sites / array->group;
    double scale = named->scale * named->scale;
    FREED(array_free) struct array mean = {0};
    array->backend->averages(named->rows, named->rows, own);
    if (cross) {
        TRY(array_init(&mean, array->backend, (size_t)array->group, 1, named->rows.count, err));
        array->backend->tile_mean(named->rows, array_all(&mean));
        array->backend->averages(array_all(&mean), array_all(&mean), cross);
    }
    for (int row = 0; row < named->rows.count; row++) {
        if (cross)
            cross[row] = scale * (M * cross[row] - own[row]) / (M - 1);
        own[row] *= scale;
    }
    return CODE_OK;
}

/* item: the number of a word of [output] cross. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    FREED(members_free) struct members members = {0};
    bool more;
    TRY(find_members(m->config, m->net, m->item, &members, &more, err));
    if (members.count)
        TRY(out[OWN] ? measure_pairs(members.named[0], out[CROSS], out[OWN], err)
                     : measure_several(&members, out[CROSS], err));
    return CODE_OK;
}

int cross_kernels_declare(const struct declaring *d, struct err *err) {
    bool more = true;
    int others = 0;
    for (int word = 0; more; word++) {
        FREED(members_free) struct members members = {0};
        TRY(find_members(d->config, d->net, word, &members, &more, err));
        if (members.count) {
            TRY(check_members(d->net, &members, &others, err));
            TRY(record_fill_by(d->record, fill, word, 2, err));
        }
        if (has_cross(&members))
            TRY(add_kernel(d, &members, false, err));
        if (members.count == 1)
            TRY(add_kernel(d, &members, true, err));
    }
    return CODE_OK;
}
