/* Singular values of matrices between populations, [output] singular: those of networks' matrices,
 * and in the limit the spikes beyond the edge of the random bulk (kernels/maps/spikes.h, where
 * units and formulae are). W is n x m, as it is used.
 *
 *     singular_NAME              [t][k]  the largest ones over sqrt(n/m), descending; limit: those
 *                                        beyond the edge, NaN where there are fewer
 *     singular_NAME_learned      [t][k]  the same of W minus what is left of W(0)
 *     singular_NAME_independent  [t][k]  where these would be as spikes of a W(0) that they are
 *                                        independent of; NaN: none
 *     singular_NAME_edge         [t]     the edge of the bulk
 *
 * Values are NaN at times that singular_every leaves out and beyond the smaller side of W. Limit
 * maps whose entries move one by one (Adam) are of no finite rank and have no series; a note says
 * so (solver/run/notes.c). */
#include "solver/measure/instrument.h"
#include "kernels/maps/polar.h"
#include "kernels/maps/spikes.h"

#include <lapacke.h>

enum slot { VALUES, LEARNED, INDEPENDENT, EDGE, LOWER, SLOTS };
static const struct series_text forms[SLOTS] = {
    [VALUES] = {"", "largest singular values of the matrix as it is used, over sqrt(n/m)",
                "max |W x|/|x|, |x|^2 = <x x>"},
    [LEARNED] = {"_learned", "largest singular values of what was learned, over sqrt(n/m)",
                 "the same of W - W(0), W(0) as much of it as is left"},
    [INDEPENDENT] = {"_independent",
                     "singular values that what was learned would have were it independent of W(0)",
                     "sqrt((w^2 + fg^2)(w^2 + fr^2))/w, w of what was learned"},
    [EDGE] = {"_edge", "edge of the bulk of singular values that W(0) has at infinite width",
              "fg + fr"},
    [LOWER] = {"_lower", "lower edge of that bulk, 0 where n = m", "|fg - fr|"},
};

static bool is_asked(const struct config *config, const struct map *map) {
    return program_lists(config->output.singular, map->declared.name);
}

/* The singular values s [min(n, m)] of W [n][m], which is overwritten. */
static int decompose_matrix(const struct map *map, double *W, double *s, int count, double *values,
                            struct err *err) {
    size_t n = map->declared.target->sites, m = map->declared.source->sites, least = n < m ? n : m;
    double none;
    int info =
        LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', (int)m, (int)n, W, (int)m, s, &none, 1, &none, 1);
    if (info)
        return spikes_fail(map, info, err);
    for (size_t k = 0; k < (size_t)count && k < least; k++)
        values[k] = s[k] * sqrt((double)m / (double)n);
    return CODE_OK;
}

/* The singular values of a network. LAPACK hears no signals: they are heard between matrices. */
static int of_network(const struct map *map, const struct stop *stop, int count, double *values,
                      double *learned, struct err *err) {
    size_t n = map->declared.target->sites, m = map->declared.source->sites, all = n * m;
    SCRATCH(double, W, all);
    SCRATCH(double, start, all);
    SCRATCH(double, s, n < m ? n : m);
    TRY(map->kind->matrix(map, W, err));
    TRY(map->start->kind->matrix(map->start, start, err));
    for (size_t k = 0; k < all; k++)
        start[k] = W[k] - map->decay * start[k];
    TRY(decompose_matrix(map, W, s, count, values, err));
    TRY(base_go_on(stop, err));
    return decompose_matrix(map, start, s, count, learned, err);
}

/* Whether values are found now: at every n-th time and at the last. A run may have been made longer
 * since it was last measured, so that the time before was its last and no n-th one: what stands
 * there is taken away, as a run of this length has nothing there. sizes [slots]: of one time. */
static bool is_due(const struct measuring *m, double *const *out, int slots, const int *sizes) {
    int every = m->config->output.singular_every;
    for (int k = 0; k < slots && m->t && (m->t - 1) % every; k++)
        for (int i = 0; i < sizes[k]; i++)
            out[k][i - sizes[k]] = NAN;
    return m->t % every == 0 || m->t == m->record->T - 1;
}

/* item: the number of the map. A signal is heard where that of the net is: a step that is short
 * ends, so that its state can be kept (solver/run/ensemble.c). */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct output_settings *output = &m->config->output;
    const struct net *net = m->net;
    const struct map *map = net->maps.item[m->item];
    int count = output->singular_values;
    const int sizes[] = {[VALUES] = count, [LEARNED] = count, [INDEPENDENT] = count, 1, 1};
    if (!is_due(m, out, SLOTS, sizes))
        return CODE_OK;
    TRY((net->setup.N ? of_network : spikes_find)(map, &net->setup.stop, count, out[VALUES],
                                                  out[LEARNED], err));
    for (int k = 0; k < count; k++)
        out[INDEPENDENT][k] = spikes_independent(map, out[LEARNED][k]);
    *out[EDGE] = spikes_edge(map);
    *out[LOWER] = spikes_lower_edge(map);
    return CODE_OK;
}

/* --- the momentum of Muon -------------------------------------------------------------------- */

/* Whether Muon keeps one of this matrix. */
static bool sums_up(const struct config *config, const struct net *net, const struct map *map) {
    const struct optimizer *optimizer = net_optimizer(&net->setup, map->declared.name);
    return optimizer && optimizer->matrices && config->training.muon.way != MUON_EXACT;
}

/* item: the number of the parameter, the first of those that are moved as one matrix. */
static int fill_momentum(const struct measuring *m, double *const *out, struct err *err) {
    const struct output_settings *output = &m->config->output;
    const struct net *net = m->net;
    const struct parameter *p = &net->parameters.item[m->item];
    const struct map_declaration *map = &p->map->declared;
    int target = map_each(map, true), source = map_each(map, false);
    bool limit = !net->setup.N;
    struct polar_momentum V = {.directions = limit,
                               .row_group = limit ? 0 : target,
                               .column_group = limit && target ? target : source};
    FREED(base_free) const struct array **velocity = NULL;
    if (!is_due(m, out, 1, &output->singular_values))
        return CODE_OK;
    TRY(base_alloc(&velocity, (size_t)net->parameters.count, sizeof *velocity, err));
    for (int k = m->item; k < net->parameters.count; k++) {
        const struct parameter *other = &net->parameters.item[k];
        if (!net_moved_together(p, other))
            continue;
        V.stacked = other != p && net_stacked(net, p, other) == !limit;
        velocity[V.parts++] = &other->moment[0];
    }
    V.velocity = velocity;
    return polar_spectrum(&V, output->singular_values, *out, err);
}

static int declare_momenta(const struct declaring *d, struct err *err) {
    const struct net *net = d->net;
    const struct series series = {
        .dims = "t singular",
        .about = "largest singular values of the momentum of the last step over the root of the "
                 "sum of their squares; where each expert or head has its own, their means",
        .equation = "s of V/|V|_F",
        .shape = {0, (size_t)d->config->output.singular_values}};
    for (int i = 0; i < net->parameters.count; i++) {
        const struct map *map = net->parameters.item[i].map;
        const char *whole = net->parameters.item[i].whole;
        if (!map || !is_asked(d->config, map) || !sums_up(d->config, net, map) ||
            net_moved_before(net, i))
            continue;
        TRY(record_fill_by(d->record, fill_momentum, i, 1, err));
        TRY(series_add(d, 0, series, err, "singular_%s_momentum",
                       whole ? whole : map->declared.name));
    }
    return CODE_OK;
}

int singular_declare(const struct declaring *d, struct err *err) {
    TRY(declare_momenta(d, err));
    for (int i = 0; i < d->net->maps.count; i++) {
        const struct map *map = d->net->maps.item[i];
        bool known = d->net->setup.N || net_map_kind(d->net, &map->declared) == &map_limit;
        if (!is_asked(d->config, map) || !known)
            continue;
        TRY(record_fill_by(d->record, fill, i, SLOTS, err));
        for (enum slot k = 0; k < SLOTS; k++) {
            const struct series series = {.dims = k >= EDGE ? "t" : "t singular",
                                          SERIES_TEXT(forms[k]),
                                          .label = map->declared.label,
                                          .shape = {0, (size_t)d->config->output.singular_values}};
            TRY(series_add(d, k, series, err, "singular_%s%s", map->declared.name, forms[k].name));
        }
    }
    return CODE_OK;
}
