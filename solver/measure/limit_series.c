/* What tells of the computation: ranks of the bases of a limit, normals that were not matched, the
 * norm of the gradient that clipping goes by, and the error of fixed steps. */
#include "solver/measure/instrument.h"

static int fill_fallback(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    *out[0] = *out[1] = 0;
    for (int i = 0; i < m->net->populations.count; i++) {
        const struct population *population = m->net->populations.item[i];
        *out[0] += population->span.unmatched;
        *out[1] = fmax(*out[1], population->span.unmatched / (double)population->sites);
    }
    return CODE_OK;
}

static int fill_rank(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    for (int i = 0; i < 2 * m->net->maps.count; i++)
        out[0][i] = map_rank(m->net->maps.item[i / 2], i % 2 == 0);
    return CODE_OK;
}

/* Names along the axis "basis". */
static int add_labels(const struct declaring *d, struct err *err) {
    static const char *const side[] = {"forward", "backward"};
    size_t bases = 2 * (size_t)d->net->maps.count;
    TRY(record_name_axis(d->record, bases, err));
    for (size_t i = 0; i < bases; i++)
        snprintf(d->record->labels[i], SERIES_NAME, "%s %s",
                 d->net->maps.item[i / 2]->declared.name, side[i % 2]);
    return CODE_OK;
}

int limit_series_declare(const struct declaring *d, struct err *err) {
    if (d->net->setup.N)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill_fallback, 0, 2, err));
    TRY(SERIES_ADD(d, 0, "fallback", .dims = "t", .equation = "", .computation = true,
                   .about =
                       "normals so far that sites were too few to make orthogonal to all others"));
    TRY(SERIES_ADD(d, 1, "unmatched", .dims = "t", .equation = "", .computation = true,
                   .about =
                       "normals so far that are not orthogonal to all others, per site, in the "
                       "population with most"));
    if (d->config->solver.method != METHOD_MARCH || !d->net->maps.count)
        return CODE_OK;
    TRY(add_labels(d, err));
    TRY(record_fill_by(d->record, fill_rank, 0, 1, err));
    return SERIES_ADD(d, 0, "rank", .dims = "t basis",
                      .about = "rank of the basis of each map and direction",
                      .equation = "rows of q, p", .shape = {0, 2 * (size_t)d->net->maps.count},
                      .computation = true);
}

static int fill_norm(const struct measuring *m, double *const *out, struct err *err) {
    return net_gradient_norm(m->net, out[0], err);
}

int limit_series_declare_norm(const struct declaring *d, struct err *err) {
    if (d->config->training.clip == 0)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill_norm, 0, 1, err));
    return SERIES_ADD(d, 0, "gradient_norm", .dims = "t",
                      .about = "norm of the gradient of the loss, before clipping",
                      .equation = "(sum over matrices of rate/P^2 sum_mu,nu Delta_mu Delta_nu "
                                  "<g_mu g_nu><x_mu x_nu>)^1/2");
}

static int fill_steps(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    *out[0] = m->net->place.step_error;
    return CODE_OK;
}

int limit_series_declare_steps(const struct declaring *d, struct err *err) {
    if (!integrator_of(&d->config->training)->estimates)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill_steps, 0, 1, err));
    return SERIES_ADD(
        d, 0, "step_error", .dims = "t", .computation = true,
        .about = "estimated errors of f of all steps of the integrator so far, added up",
        .equation = "sum over steps of 2 |d|^2/(3 |f_Euler - f_start|) + |d - d_before|/3, "
                    "d = f - f_Euler");
}
