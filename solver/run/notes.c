#include "solver/run/notes.h"
#include "solver/measure/instrument.h"
#include "solver/measure/stats.h"
#include "solver/run/findings.h"
#include "solver/run/ensemble.h"

/* ---- the list ---- */

int notes_add(struct notes *notes, const char *code, const char *group, int t, int kind,
              struct err *err, const char *format, ...) {
    struct note *added;
    TRY(base_grow(&added, &notes->note, &notes->count, sizeof *added, err));
    assert(strlen(code) < sizeof added->code);
    *added = (struct note){.t = t, .warning = kind & NOTE_WARNS, .told = kind & NOTE_TOLD};
    snprintf(added->code, sizeof added->code, "%s", code);
    snprintf(added->group, sizeof added->group, "%s", group);
    PRINT_ARGUMENTS(added->text, sizeof added->text, format);
    text_mend(added->text);
    return CODE_OK;
}

void notes_more(struct notes *notes, const char *format, ...) {
    char *text = notes->note[notes->count - 1].text, *end = text + strlen(text);
    PRINT_ARGUMENTS(end, (size_t)(text + NOTES_TEXT - end), format);
    text_mend(text);
}

void notes_forget(struct notes *notes, const char *group) {
    int kept = 0;
    for (int k = 0; k < notes->count; k++)
        if (strcmp(notes->note[k].group, group) != 0)
            notes->note[kept++] = notes->note[k];
    notes->count = kept;
}

void notes_free(struct notes *notes) {
    free(notes->note);
    *notes = (struct notes){0};
}

static const char *kind_of(const struct note *note) {
    return note->warning ? "warning" : "note";
}

void notes_print(const struct notes *notes) {
    for (int k = 0; k < notes->count; k++)
        if (!notes->note[k].told)
            printf("%s: %s\n", kind_of(&notes->note[k]), notes->note[k].text);
}

/* ---- what is found ---- */

#define ADD(word, where, when, warns, ...)                                                         \
    TRY(notes_add(&run->notes, word, where, when, warns, err, __VA_ARGS__))

static int find_gates(struct run *run, struct err *err) {
    struct condense gates;
    int T = run->results.limit.T, few = condense_units(&run->results.limit);
    if (few < T)
        ADD("not_self_averaging", "limit", few, NOTE_WARNS,
            "from t = %d on fewer than 10 sites carry a feature kernel: the limit is not "
            "self-averaging there, its errors are too small, and networks come to it only at "
            "widths far above these; lower eta0 or gamma0",
            few);
    if (!condense_find(&run->results.limit, run->gates_unbounded, &gates))
        return CODE_OK;
    if (gates.condensed < T)
        ADD("not_self_averaging", "limit", gates.condensed, NOTE_WARNS,
            "a handful of experts carries the average: the limit is not self-averaging here, and "
            "the mean over replicates depends on expert_sites");
    else if (gates.concentrated < T)
        ADD("gates_concentrate", "limit", gates.concentrated, NOTE_WARNS,
            "gates are concentrating: standard errors may be too small and not fall as "
            "1/sqrt(sites); repeat with 4 times the expert_sites");
    return CODE_OK;
}

/* docs/method.md, section 5: whether gates turn fluctuations of networks of this run, or of wide
 * ones, into differences of order one. */
static int find_steep(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    int widest = widths->count ? widths->value[widths->count - 1] : NOTES_WIDE;
    if (run->steep * run->steep > widest)
        ADD("steep_gates", "limit", -1, 0,
            "gates or attention weights multiply averages by %.3g, and averages of networks "
            "fluctuate by N^-1/2: networks come near this limit only at widths far above the "
            "square of this factor, N = %.2g",
            run->steep, run->steep * run->steep);
    return CODE_OK;
}

/* At the last time of each replicate; of the replicate where it is largest. */
static double last_of(const struct record *limit, const char *name) {
    const struct series *series = record_find(limit, name);
    double most = 0;
    for (int r = 0; series && r < limit->runs; r++)
        if (limit->steps[r] > 0)
            most = fmax(most, *record_at(limit, series, r, limit->steps[r] - 1));
    return most;
}

/* docs/method.md section 4. */
static int find_unmatched(struct run *run, struct err *err) {
    double normals = last_of(&run->results.limit, "fallback"),
           share = last_of(&run->results.limit, "unmatched");
    if (share > NOTES_UNMATCHED)
        ADD("normals_unmatched", "limit", -1, NOTE_WARNS,
            "the limit has too few sites to make all its random vectors orthogonal: up to %g of a "
            "replicate are not (%.2g for each site of one population), and biases may be several "
            "standard errors; repeat with twice the sites, or with [solver] halves = yes",
            normals, share);
    else if (normals > 0)
        ADD("normals_unmatched", "limit", -1, 0,
            "the limit has too few sites to make all its random vectors orthogonal: up to %g of a "
            "replicate are not (more sites give smaller errors and biases)",
            normals);
    return CODE_OK;
}

/* docs/method.md section 3. */
static int find_bias(struct run *run, struct err *err) {
    struct correction taken;
    TRY(correction_find(&run->results.limit, &taken, err));
    if (taken.size > NOTES_TAKEN)
        ADD("bias_of_sites", "limit", -1, NOTE_WARNS,
            "halves have removed a bias of %.2g standard errors from %s (t = %d), and as much may "
            "be left: repeat with twice the sites",
            taken.size, taken.series, taken.t);
    return CODE_OK;
}

/* Fixed steps of gradient flow, by their own estimate (integrators/flow.c), over the largest f. */
static int find_coarse(struct run *run, const char *group, const struct record *record,
                       struct err *err) {
    const struct series *f = record_find(record, "f");
    double error = last_of(record, "step_error"), most = 0;
    if (error == 0 || !f)
        return CODE_OK;
    for (int r = 0; r < record->runs; r++)
        if (record->steps[r] > 0)
            most = fmax(most, stats_largest(record_at(record, f, r, 0),
                                            f->size / f->shape[0] * (size_t)record->steps[r]));
    if (error > NOTES_COARSE * most)
        ADD("coarse_steps", group, -1, 0,
            "steps of %s are too coarse for gradient flow: their estimated errors of f add up to "
            "%.2g, beside a largest f of %.2g;\n  raise substeps, with whose square they fall, or "
            "take integrator = bs32",
            run->config.training.integrator->choice.name, error, most);
    return CODE_OK;
}

static int find_noiseless(struct run *run, struct err *err) {
    const struct record *record = &run->results.limit;
    const struct series *f = record_find(record, "f");
    double *mean = NULL, *se;
    if (record->runs < 2 || run->config.solver.method != METHOD_MARCH || record->finer || !f)
        return CODE_OK;
    TRY(record_average(record, "f", &mean, &se, err));
    double size = 0, error = 0;
    for (size_t k = 0; k < f->size; k++)
        if (isfinite(se[k])) { /* of two replicates or more */
            size = fmax(size, fabs(mean[k]));
            error = fmax(error, se[k]);
        }
    bool noiseless = size > 0 && error <= 1e-8 * size;
    free(mean);
    if (noiseless)
        ADD("no_sampling_error", "limit", -1, NOTE_WARNS,
            "the limit has no sampling error here, and its intervals do not contain the error of "
            "[solver] tolerance;\n  check_tolerance = yes adds it");
    return CODE_OK;
}

static int find_edge(struct run *run, struct err *err) {
    double exponent, se;
    int T = run->config.training.steps;
    bool reached;
    TRY(stability_reached(run, &reached, err));
    TRY(stability_exponent(run, T / 2, T, &exponent, &se, err));
    if (reached)
        ADD("edge_of_stability", run->results.limit.runs ? "limit" : "", T / 2, NOTE_WARNS,
            "at the edge of stability: from t = %d on the variance of f over networks goes as "
            "N^%.2f(%.2f),\n  not as 1/N; a + b/N and z mean nothing there; lower eta0 or gamma0",
            T / 2, exponent, se);
    return CODE_OK;
}

static int find_rest(struct run *run, struct err *err) {
    if (!at_rest_of_limit(run))
        return CODE_OK;
    if (!run->inputs.K || at_rest_of_networks(run)) {
        ADD("nothing_trains", "limit", -1, 0,
            "training moves nothing here, in networks as in the limit: gradients are 0, or below "
            "the last digit of what they would move");
        return CODE_OK;
    }
    return at_rest_tell(run, err);
}

/* The first time that one of the failed runs did not reach; T: none has failed. */
static int first_loss(const struct record *record) {
    int t = record->T;
    for (int r = 0; r < record->runs; r++)
        if (record->failed[r] && record->steps[r] < t)
            t = record->steps[r];
    return t;
}

static int find_failures(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    for (int i = 0; i < widths->count; i++) {
        const struct record *record = &run->results.reference[i];
        char group[ENSEMBLE_GROUP];
        int first, failed = record->runs ? record_failures(record, &first) : 0;
        ensemble_group(group, widths->value[i]);
        if (failed)
            ADD("networks_failed", group, first_loss(record), 0,
                "%d of %d networks of N = %d failed and count until then; the first:\n  %.1000s",
                failed, record->runs, widths->value[i], record->failure.text);
    }
    if (run->failed.code && run->results.limit.runs &&
        record_failures(&run->results.limit, &(int){0}))
        ADD("limit_failed", "limit", first_loss(&run->results.limit), NOTE_WARNS, "%.1200s",
            run->failed.text);
    return CODE_OK;
}

/* Checks only the widest networks: one note is enough. */
static int find_coarse_networks(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    char group[ENSEMBLE_GROUP];
    int last = widths->count - 1;
    if (last < 0)
        return CODE_OK;
    ensemble_group(group, widths->value[last]);
    return find_coarse(run, group, &run->results.reference[last], err);
}

/* Notes what [output] singular gives of networks and not of the limit. */
static int find_left_out(struct run *run, struct err *err) {
    const struct record *networks = run->results.reference;
    static const char prefix[] = "singular_";
    struct text_names names = {0};
    for (int k = 0; run->config.reference.widths.count && k < networks->count; k++) {
        const struct series *series = &networks->series[k];
        const char *name = series->name;
        if (!series->slot && !strncmp(name, prefix, strlen(prefix)) &&
            !record_find(&run->results.limit, name))
            text_name(&names, name + strlen(prefix));
    }
    if (names.count)
        ADD("singular_values_of_networks", "limit", -1, 0,
            "the limit has no singular values of %s: the optimizer moves entries one by one, so "
            "that what is learned has no finite rank; only networks have them",
            names.text);
    return CODE_OK;
}

/* Notes which of [output] responses the limit does not have. */
static int find_responses(struct run *run, struct err *err) {
    struct net_setup setup = run_setup(run, 0, 0);
    char text[TEXT_NOTE] = "";
    TRY(response_tell(&run->config, &setup, text, err));
    if (*text)
        ADD("no_responses", "limit", -1, 0, "%s", text);
    return CODE_OK;
}

/* Notes what training never moves (solver/measure/still.c), of the runs of width N (0: the limit),
 * whose record this is, unless it has been said of the same names before. */
static int find_never_moves(struct run *run, int N, const struct record *record, struct err *err) {
    static const char *const why[STILL_CAUSES] = {
        [STILL_READS_NOTHING] = "what is read there is exactly 0 at every step",
        [STILL_UNANSWERED] = "the gradient is exactly 0 at every step, since nothing that depends "
                             "on it reaches the loss (experts that no input selects, say)",
        [STILL_ONE_GATE] = "the gradient is exactly 0 at every step, since one expert is selected, "
                           "and a softmax over the selected is 1 whatever the logits; a softmax "
                           "over all has a gradient ([network] softmax_over = all)"};
    struct net_setup setup = run_setup(run, N, 0);
    char group[ENSEMBLE_GROUP], text[NOTES_TEXT];
    struct text_names names;
    FREED(net_free) struct net net = {0};
    ensemble_group(group, N);
    TRY(net_declare(&net, &setup, err));
    for (int cause = STILL_READS_NOTHING; cause < STILL_CAUSES; cause++) {
        bool told = false;
        still_find(record, &net, cause, &names);
        snprintf(text, sizeof text, "%s never move%s: %s", names.text, names.count > 1 ? "" : "s",
                 why[cause]);
        for (int k = 0; k < run->notes.count; k++)
            told = told || !strcmp(run->notes.note[k].text, text);
        if (names.count && !told)
            ADD("never_moves", group, -1, 0, "%s", text);
    }
    return CODE_OK;
}

static bool has_note(const struct notes *notes, const char *code) {
    bool found = false;
    for (int k = 0; k < notes->count; k++)
        found = found || !strcmp(notes->note[k].code, code);
    return found;
}

int notes_collect(struct run *run, struct err *err) {
    if (run->results.limit.runs)
        TRY(condense_ask(run, err));
    bool whole = true; /* what compares ensembles needs all of them to the end */
    for (int i = 0; i < run->config.reference.widths.count; i++)
        whole = whole && run->results.reference[i].runs;
    if (run->results.limit.runs)
        whole = whole && record_reached(&run->results.limit, run->results.limit.T - 1) ==
                             run->results.limit.runs;
    if (whole && !run->failed.code) {
        TRY(find_rest(run, err));
        TRY(find_edge(run, err));
    }
    TRY(find_failures(run, err));
    if (run->results.limit.runs && !has_note(&run->notes, "rests"))
        TRY(find_never_moves(run, 0, &run->results.limit, err));
    for (int i = 0; i < run->config.reference.widths.count; i++)
        if (run->results.reference[i].runs)
            TRY(find_never_moves(run, run->config.reference.widths.value[i],
                                 &run->results.reference[i], err));
    if (!run->results.limit.runs)
        return find_coarse_networks(run, err);
    TRY(find_coarse(run, "limit", &run->results.limit, err));
    TRY(find_noiseless(run, err));
    TRY(find_unmatched(run, err));
    TRY(find_bias(run, err));
    TRY(find_steep(run, err));
    TRY(find_left_out(run, err));
    TRY(find_responses(run, err));
    return find_gates(run, err);
}

/* ---- the file ---- */

/* The first time from which a warning speaks of the group, or networks have failed in it. */
static int valid_until(const struct notes *notes, const char *group, const struct record *record) {
    int t = first_loss(record);
    FOR_EACH_OF (const struct note, note, notes->note, notes->count) {
        bool here = !strcmp(note->group, group) && note->warning && note->t >= 0;
        t = here && note->t < t ? note->t : t;
    }
    return t;
}

static int write_causes(struct io *io, const char *group, const struct record *record,
                        struct err *err) {
    static const char *const name[CAUSES] = {"not_ended", "failed_diverged", "failed_sites",
                                             "failed_tolerance"};
    int count[CAUSES] = {0}, failed = 0;
    for (int r = 0; r < record->runs; r++) {
        failed += record->failed[r];
        if (record->failed[r] || record->steps[r] < record->T)
            count[record->failed[r] ? record->cause[r] : CAUSE_NONE]++;
    }
    TRY(io_attribute(io, group, "runs", record->runs, err));
    TRY(io_attribute(io, group, "failed", failed, err));
    for (int k = 0; k < CAUSES; k++)
        TRY(io_attribute(io, group, name[k], count[k], err));
    return CODE_OK;
}

static int write_group(struct run *run, int N, const struct record *record, struct err *err) {
    struct io *io = &run->io;
    char group[ENSEMBLE_GROUP];
    ensemble_group(group, N);
    if (!record->runs)
        return CODE_OK;
    TRY(write_causes(io, group, record, err));
    TRY(io_attribute(io, group, "valid_until", valid_until(&run->notes, group, record), err));
    TRY(io_attribute(io, group, "edge_of_stability", has_note(&run->notes, "edge_of_stability"),
                     err));
    if (N)
        return CODE_OK;
    struct condense gates;
    bool over_many = condense_find(record, run->gates_unbounded, &gates);
    if (over_many || record_find(record, "carriers"))
        TRY(io_attribute(io, group, "self_averaging",
                         gates.condensed == record->T && condense_units(record) == record->T, err));
    TRY(io_attribute(io, group, "rests", has_note(&run->notes, "rests"), err));
    return io_attribute(io, group, "unmatched", last_of(record, "unmatched"), err);
}

/* In one line. */
static void unfold_lines(char *text) {
    for (char *at; (at = strstr(text, "\n  "));) {
        *at = ' ';
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
}

static int write_list(struct io *io, const struct notes *notes, struct err *err) {
    int count = notes->count;
    enum { CODE, KIND, GROUP, TEXT, COLUMNS };
    static const char *const name[COLUMNS] = {"code", "kind", "group", "text"};
    FREED(base_free) const char **word = NULL;
    if (!count)
        return CODE_OK;
    TRY(base_alloc(&word, COLUMNS * (size_t)count, sizeof *word, err));
    SCRATCH(double, t, (size_t)count);
    SCRATCH(struct note, copy, (size_t)count);
    for (int k = 0; k < count; k++) {
        copy[k] = notes->note[k];
        unfold_lines(copy[k].text);
        word[CODE * count + k] = copy[k].code;
        word[KIND * count + k] = kind_of(&copy[k]);
        word[GROUP * count + k] = *copy[k].group ? copy[k].group : "/";
        word[TEXT * count + k] = copy[k].text;
        t[k] = copy[k].t < 0 ? (double)NAN : copy[k].t;
    }
    for (int c = 0; c < COLUMNS; c++)
        TRY(io_scale(io, "notes", name[c], "note", NULL, word + c * count, count, err));
    return io_scale(io, "notes", "t", "note", t, NULL, count, err);
}

int notes_write(struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    if (!run->io_open)
        return CODE_OK;
    TRY(write_group(run, 0, &run->results.limit, err));
    for (int i = 0; i < widths->count; i++)
        TRY(write_group(run, widths->value[i], &run->results.reference[i], err));
    TRY(write_list(&run->io, &run->notes, err));
    return io_flush(&run->io, err);
}
