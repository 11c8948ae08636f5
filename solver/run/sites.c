#include "solver/run/parts.h"
#include "kernels/array/dist.h"
#include "kernels/base/text.h"

enum { KINDS = 3, NUMBERS = 80 };
static const char *const kind[KINDS] = {"sites", "expert_sites", "unit_sites"};

static int *number_of(struct solver_settings *solver, int k) {
    int *const number[KINDS] = {&solver->sites, &solver->expert_sites, &solver->unit_sites};
    return number[k];
}

/* Whether the limit of this network draws sites of a kind; nodes of a rule stay as they are. */
static bool has_kind(const struct config *config, int k) {
    return k == 0 || (text_lists(config->network.model->solver_keys, kind[k]) &&
                      !(k == 1 && network_has_nodes(&config->network)));
}

void sites_divide(struct config *config, int by) {
    for (int k = 0; k < KINDS; k++)
        if (has_kind(config, k))
            *number_of(&config->solver, k) /= by;
}

void sites_double(struct config *config) {
    for (int k = 0; k < KINDS; k++)
        if (has_kind(config, k))
            *number_of(&config->solver, k) *= 2;
}

void sites_begin(struct config *config, int K) {
    struct solver_settings *solver = &config->solver;
    if (solver->sites)
        return;
    solver->grow = true;
    solver->sites = SITES_AUTO;
    while (solver->sites / (solver->halves ? 2 : 1) < K && solver->sites <= SITES_MOST / 2)
        solver->sites *= 2;
}

int sites_record(struct run *run, struct err *err) {
    char text[16];
    for (int k = 0; k < KINDS && run->config.solver.grow; k++)
        if (has_kind(&run->config, k)) {
            snprintf(text, sizeof text, "%d", *number_of(&run->config.solver, k));
            TRY(params_record(&run->params, "solver", kind[k], text, err));
        }
    return CODE_OK;
}

static bool too_few(const struct record *record) {
    bool found = false;
    for (int r = 0; r < record->runs; r++)
        found = found || record->cause[r] == CAUSE_SITES;
    return found;
}

/* CODE_INPUT or CODE_SYSTEM where there is no room for them. */
static int double_sites(struct run *run, struct err *err) {
    for (int k = 0; k < KINDS; k++)
        if (has_kind(&run->config, k) && *number_of(&run->config.solver, k) > SITES_MOST / 2)
            return err_set(err, CODE_INPUT, "%s is at most %d", kind[k], SITES_MOST);
    sites_double(&run->config);
    run_split(run);
    return memory_check(run, err);
}

/* "4096, expert_sites = 512": the numbers of the kinds that the network has. */
static void tell_numbers(struct config *config, char *text, size_t size) {
    snprintf(text, size, "%d", config->solver.sites);
    for (int k = 1; k < KINDS; k++)
        if (has_kind(config, k)) {
            size_t length = strlen(text);
            snprintf(text + length, size - length, ", %s = %d", kind[k],
                     *number_of(&config->solver, k));
        }
}

/* Forgets what was computed, and says why. before: the numbers that were too few. */
static int begin_again(struct run *run, const char *before, struct err *err) {
    char now[NUMBERS];
    tell_numbers(&run->config, now, sizeof now);
    record_free(&run->results.limit);
    record_free(&run->results.iterations);
    recheck_free(run);
    for (int i = 0; i < INT_LIST_MAX; i++)
        record_free(&run->results.reference[i]);
    notes_forget(&run->notes, "limit");
    TRY(sites_record(run, err));
    if (run->io_open)
        TRY(io_parameters(&run->io, &run->params, &run->config, err));
    TRY(notes_add(
        &run->notes, "sites_raised", "limit", -1, NOTE_TOLD, err,
        "sites = auto has raised the numbers of sites of the limit to sites = %s, because "
        "sites = %s were too few",
        now, before));
    log_line(&run->log, "limit: sites = %s are too few; once more with sites = %s", before, now);
    return forecast_limit(run, err);
}

int sites_raise(struct run *run, int code, bool *again, struct err *err) {
    const struct run_results *results = &run->results;
    const struct solver_settings before = run->config.solver;
    struct err hindrance;
    char numbers[NUMBERS];
    tell_numbers(&run->config, numbers, sizeof numbers);
    *again = code == CODE_NUMERICAL && before.grow &&
             dist_any(too_few(&results->limit) || too_few(&results->finer) ||
                      too_few(&results->half[0]) || too_few(&results->half[1]));
    if (!*again)
        return code;
    if (!double_sites(run, &hindrance))
        return begin_again(run, numbers, err);
    run->config.solver = before;
    run_split(run);
    *again = false;
    return err_set(err, code, "%.1000s (sites = auto goes no further: %.700s)", err->text,
                   hindrance.text);
}
