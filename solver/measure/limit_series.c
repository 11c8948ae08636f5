/* What tells of the computation: ranks of the bases of a limit, normals that were not matched, and
 * the norm of the gradient that clipping goes by; the
 * error of fixed steps. */
#include "solver/measure/instrument.h"

#include <math.h>
#include <stdio.h>

/* --- of a limit ------------------------------------------------------------------------------ */

static int fill_fallback(const struct measuring *m, double *const *out, struct err *err) {
    (void)err;
    *out[0] = *out[1] = 0;
    for (int i = 0; i < m->net->populations.count; i++) {
        const struct population *population = m->net->populations.item[i];
        *out[0] += population->span.unmatched;
        *out[1] = fmax(*out[1], population->span.unmatched / (double)population->sites);
    }
    return CODE_OK;
}

static int fill_rank(const struct measuring *m, double *const *out, struct err *err) {
    (void)err;
    for (int i = 0; i < 2 * m->net->maps.count; i++)
        out[0][i] = map_rank(m->net->maps.item[i / 2], i % 2 == 0);
    return CODE_OK;
}

/* Names along the axis "basis": one block, the pointers and then the strings. */
static int add_labels(struct record *record, const struct net *net, struct err *err) {
    static const char *const side[] = {"forward", "backward"};
    size_t bases = 2 * (size_t)net->maps.count;
    TRY(base_alloc(&record->labels, bases, sizeof *record->labels + SERIES_NAME, err));
    for (size_t i = 0; i < bases; i++) {
        record->labels[i] = (char *)(record->labels + bases) + i * SERIES_NAME;
        snprintf(record->labels[i], SERIES_NAME, "%s %s", net->maps.item[i / 2]->declared.name,
                 side[i % 2]);
    }
    return CODE_OK;
}

int limit_series_declare(struct record *record, const struct config *config, const struct net *net,
                         struct err *err) {
    size_t T = (size_t)record->T;
    const struct series fallback = {
        .name = "fallback",
        .dims = "t",
        .about = "normals so far that sites were too few to make orthogonal to all others",
        .equation = "",
        .computation = true};
    const struct series unmatched = {.slot = 1,
                                     .name = "unmatched",
                                     .dims = "t",
                                     .about = "normals so far that are not orthogonal to all "
                                              "others, per site, in the population with most",
                                     .equation = "",
                                     .computation = true};
    const struct series rank = {.name = "rank",
                                .dims = "t basis",
                                .about = "rank of the basis of each map and direction",
                                .equation = "rows of q, p",
                                .shape = {T, 2 * (size_t)net->maps.count},
                                .computation = true};
    if (net->setup.N)
        return CODE_OK;
    TRY(record_fill_by(record, fill_fallback, 0, 2, err));
    TRY(record_add(record, fallback, err));
    TRY(record_add(record, unmatched, err));
    if (config->solver.method != METHOD_MARCH || !net->maps.count)
        return CODE_OK;
    TRY(add_labels(record, net, err));
    TRY(record_fill_by(record, fill_rank, 0, 1, err));
    return record_add(record, rank, err);
}

/* --- the norm of the gradient ---------------------------------------------------------------- */

static int fill_norm(const struct measuring *m, double *const *out, struct err *err) {
    return net_gradient_norm(m->net, out[0], err);
}

int limit_series_declare_norm(struct record *record, const struct config *config,
                              const struct net *net, struct err *err) {
    const struct series norm = {
        .name = "gradient_norm",
        .dims = "t",
        .about = "norm of the gradient of the loss, before clipping",
        .equation = "(sum over matrices of rate/P^2 sum_mu,nu Delta_mu Delta_nu <g_mu g_nu><x_mu "
                    "x_nu>)^1/2"};
    (void)net;
    if (config->training.clip == 0)
        return CODE_OK;
    TRY(record_fill_by(record, fill_norm, 0, 1, err));
    return record_add(record, norm, err);
}

/* --- the error of fixed steps ---------------------------------------------------------------- */

static int fill_steps(const struct measuring *m, double *const *out, struct err *err) {
    (void)err;
    *out[0] = m->net->place.step_error;
    return CODE_OK;
}

int limit_series_declare_steps(struct record *record, const struct config *config,
                               const struct net *net, struct err *err) {
    const struct series error = {
        .name = "step_error",
        .dims = "t",
        .about = "estimated errors of f of all steps of the integrator so far, added up",
        .equation = "sum over steps of 2 |d|^2/(3 |f_Euler - f_start|) + |d - d_before|/3, d = f - "
                    "f_Euler",
        .computation = true};
    (void)net;
    if (!integrator_of(&config->training)->estimates)
        return CODE_OK;
    TRY(record_fill_by(record, fill_steps, 0, 1, err));
    return record_add(record, error, err);
}
