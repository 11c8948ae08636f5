#include "solver/run/ensemble.h"
#include "solver/run/parts.h"

static struct run finer_of(const struct run *run) {
    struct run finer = *run;
    finer.states.folder = NULL;
    finer.io_open = false;
    finer.config.solver.tolerance /= 3;
    return finer;
}

/* Nodes stay whose units are drawn apart from them. */
struct run recheck_half(const struct run *run, int number) {
    struct run half = *run;
    struct solver_settings *solver = &half.config.solver;
    half.io_open = false;
    half.config.half = number;
    solver->sites /= 2;
    solver->unit_sites /= 2;
    if (!network_keeps_nodes(&run->config.network))
        solver->expert_sites /= 2;
    run_split(&half);
    return half;
}

/* Where sites = auto finds too few of them. */
static struct run twice_of(const struct run *run) {
    struct run twice = *run;
    sites_double(&twice.config);
    return twice;
}

int recheck_check(const struct run *run, struct err *err) {
    const struct solver_settings *solver = &run->config.solver;
    if (!solver->replicates || !(solver->halves || solver->grow))
        return CODE_OK;
    struct run other = solver->halves ? recheck_half(run, 1) : twice_of(run);
    struct net_setup setup = run_setup(run, 0, 0), again = run_setup(&other, 0, 0);
    struct err why = {0};
    int code = alike_check(&setup, &again, &why);
    const char *key = solver->halves ? "halves" : "sites";
    if (code == CODE_INPUT)
        return params_error(&run->params, "solver", key, err, "%.1800s", why.text);
    return code ? err_set(err, code, "%.1800s", why.text) : CODE_OK;
}

static int compute_halves(struct run *run, struct err *err) {
    for (int k = 0; k < 2; k++) {
        struct run half = recheck_half(run, k + 1);
        if (run_ensemble(&half, 0, run->config.solver.replicates, &run->results.half[k], err))
            return err->code == CODE_NUMERICAL
                       ? err_set(err, err->code, "with half the sites (halves): %.1800s", err->text)
                       : err->code;
    }
    return record_set_half(&run->results.limit, run->results.half, err);
}

int recheck_compute(struct run *run, struct err *err) {
    const struct solver_settings *solver = &run->config.solver;
    if (!solver->replicates)
        return CODE_OK;
    if (solver->check_tolerance) {
        struct run finer = finer_of(run);
        if (run_ensemble(&finer, 0, 1, &run->results.finer, err))
            return err->code == CODE_NUMERICAL
                       ? err_set(err, err->code,
                                 "at a third of tolerance (check_tolerance): %.1800s", err->text)
                       : err->code;
        run->results.limit.finer = &run->results.finer;
    }
    return solver->halves ? compute_halves(run, err) : CODE_OK;
}

static int collect_other(struct run other, struct record *record, struct err *err) {
    struct ensemble e = ensemble_of(&other, 0, record);
    return record->runs ? ensemble_collect(&e, err) : CODE_OK;
}

int recheck_collect(struct run *run, struct err *err) {
    TRY(collect_other(finer_of(run), &run->results.finer, err));
    for (int k = 0; k < 2; k++)
        TRY(collect_other(recheck_half(run, k + 1), &run->results.half[k], err));
    return CODE_OK;
}

void recheck_free(struct run *run) {
    record_free(&run->results.finer);
    record_free(&run->results.half[0]);
    record_free(&run->results.half[1]);
}
