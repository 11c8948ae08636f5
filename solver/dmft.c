/* The library: a run without a command line (include/dmft.h). */
#include "include/dmft.h"
#include "solver/files/provenance.h"
#include "solver/run/run.h"

#include <cblas.h>
#include <gsl/gsl_errno.h>
#include <pthread.h>

_Static_assert(DMFT_SYSTEM == (int)CODE_SYSTEM && DMFT_INPUT == (int)CODE_INPUT &&
                   DMFT_NUMERICAL == (int)CODE_NUMERICAL &&
                   DMFT_INTERRUPTED == (int)CODE_INTERRUPTED,
               "codes are those of the program");

/* Means and errors that were asked for. */
struct dmft_block {
    struct dmft_block *next;
    double *values;
};

struct dmft {
    char *file, *text; /* one of them */
    int overrides;
    char **override; /* section.key=value */
    struct run run;
    struct dmft_block *blocks;
    struct err err;
    volatile sig_atomic_t stop;
};

/* A child has none of the threads that OpenMP began in its parent, and would wait for them for
 * ever. They belong to the thread that has begun them: a run on a new one begins its own. */
static bool forked;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void note_fork(void) {
    forked = true;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, note_fork);
}

const char *dmft_version(void) {
    return provenance_version;
}

struct dmft *dmft_new(void) {
    pthread_once(&watched, watch_forks);
    openblas_set_num_threads(1);
    gsl_set_error_handler_off();
    io_quiet();
    return calloc(1, sizeof(struct dmft));
}

static void forget_results(struct dmft *d) {
    for (struct dmft_block *block = d->blocks, *next; block; block = next) {
        next = block->next;
        free(block->values);
        free(block);
    }
    d->blocks = NULL;
    run_free(&d->run);
    d->run = (struct run){.program = "dmft-library", .stop = &d->stop};
}

void dmft_free(struct dmft *d) {
    if (!d)
        return;
    forget_results(d);
    for (int k = 0; k < d->overrides; k++)
        free(d->override[k]);
    free(d->override);
    free(d->file);
    free(d->text);
    free(d);
}

const char *dmft_error(const struct dmft *d) {
    return d ? d->err.text : "struct dmft *d is NULL";
}

/* CODE_INPUT, and a sentence in d, if an argument that a call needs is NULL. Forgets the sentence
 * of the call before. */
static int need_argument(struct dmft *d, const char *call, const char *name, const void *argument) {
    if (!d)
        return CODE_INPUT;
    d->err = (struct err){0};
    return argument ? CODE_OK
                    : err_set(&d->err, CODE_INPUT, "%s: the argument %s is NULL", call, name);
}

/* --- networks -------------------------------------------------------------------------------- */

int dmft_add_network(struct dmft *d, const struct model *model) {
    TRY(need_argument(d, "dmft_add_network", "model", model));
    return network_add(model, &d->err);
}

size_t dmft_sites(const struct program *p) {
    return (size_t)program_setup(p)->limit.sites;
}

size_t dmft_expert_sites(const struct program *p) {
    return (size_t)program_setup(p)->limit.expert_sites;
}

size_t dmft_unit_sites(const struct program *p) {
    return (size_t)program_setup(p)->limit.unit_sites;
}

/* --- what to run ----------------------------------------------------------------------------- */

/* Takes the place of both. */
static int replace_text(struct dmft *d, char **to, const char *text) {
    char *copy;
    TRY(base_copy(&copy, text, &d->err));
    free(d->file);
    free(d->text);
    d->file = d->text = NULL;
    *to = copy;
    return CODE_OK;
}

int dmft_file(struct dmft *d, const char *ini) {
    TRY(need_argument(d, "dmft_file", "ini", ini));
    return replace_text(d, &d->file, ini);
}

int dmft_text(struct dmft *d, const char *text) {
    TRY(need_argument(d, "dmft_text", "text", text));
    return replace_text(d, &d->text, text);
}

int dmft_set(struct dmft *d, const char *key, const char *value) {
    TRY(need_argument(d, "dmft_set", "key", key));
    TRY(need_argument(d, "dmft_set", "value", value));
    char *word, **place = NULL;
    TRY(base_print(&word, &d->err, "--%s=%s", key, value));
    for (int k = 0; k < d->overrides && !place; k++)
        if (!strncmp(d->override[k], word, strlen(key) + 3)) /* --key= */
            place = &d->override[k];
    int code =
        place ? CODE_OK : base_grow(&place, &d->override, &d->overrides, sizeof *place, &d->err);
    if (code) {
        free(word);
        return code;
    }
    free(*place);
    *place = word;
    return CODE_OK;
}

static int read_settings(struct dmft *d, struct err *err) {
    struct run *run = &d->run;
    size_t sections;
    if (d->file)
        return run_configure(run, d->file, d->overrides, d->override, err);
    if (!d->text)
        return err_set(err, CODE_INPUT, "nothing to run: dmft_file or dmft_text comes first");
    TRY(config_sections(&run->sections, &sections, err));
    TRY(params_read_text(&run->params, run->sections, sections, d->text,
                         &(struct param_source){"ini", NULL, d->overrides, d->override, 0},
                         &run->config, err));
    TRY(config_complete(&run->config, &run->params, err));
    return run_prepare(run, err);
}

/* --- runs ------------------------------------------------------------------------------------ */

struct job {
    struct dmft *d;
    const char *output;
    bool force;
};

static int do_job(const struct job *job) {
    struct dmft *d = job->d;
    struct err *err = &d->err;
    void *before = base_locale_begin();
    int code;
    d->stop = 0; /* one that came after the last run was meant for that */
    forget_results(d);
    base_heed(&d->stop);
    DO(read_settings(d, err));
    DO(run_open(&d->run, job->output, job->force, err));
    DO(run_march(&d->run, err));
    DO(run_finish(&d->run, job->force, err));
done:
    base_heed(NULL);
    base_locale_end(before);
    return code;
}

static void *work_apart(void *job) {
    do_job(job);
    return NULL;
}

int dmft_run(struct dmft *d, const char *output, int force) {
    TRY(need_argument(d, "dmft_run", "d", d));
    struct job job = {d, output, force != 0};
    pthread_t thread;
    if (!forked)
        return do_job(&job);
    d->err = (struct err){0};
    if (pthread_create(&thread, NULL, work_apart, &job))
        return err_set(&d->err, CODE_SYSTEM, "dmft_run: a forked process cannot begin a thread");
    pthread_join(thread, NULL);
    return d->err.code;
}

void dmft_stop(struct dmft *d) {
    if (d)
        d->stop = 1;
}

/* --- results --------------------------------------------------------------------------------- */

/* NULL, and a sentence, if there is none. */
static const struct record *record_of(struct dmft *d, int N) {
    const struct int_list *widths = &d->run.config.reference.widths;
    const struct record *record = N ? NULL : &d->run.results.limit;
    for (int i = 0; i < widths->count; i++)
        if (N && widths->value[i] == N)
            record = &d->run.results.reference[i];
    if (record && record->count)
        return record;
    err_set(&d->err, CODE_INPUT, N ? "no networks of width %d were run" : "no limit was run", N);
    return NULL;
}

int dmft_series(struct dmft *d, int N, const char *name, struct dmft_series *out) {
    TRY(need_argument(d, "dmft_series", "name", name));
    TRY(need_argument(d, "dmft_series", "out", out));
    struct err *err = &d->err;
    const struct record *record = record_of(d, N);
    const struct series *series = record ? record_find(record, name) : NULL;
    double *mean = NULL, *se = NULL;
    if (!record)
        return err->code;
    if (!series)
        return err_set(err, CODE_INPUT, "%s is not among what was measured", name);
    if (series->runs_alone)
        return err_set(err, CODE_INPUT, "%s is kept run by run, in the file, and has no mean",
                       name);
    struct dmft_block *block;
    TRY(base_alloc(&block, 1, sizeof *block, err));
    int code = record_average(record, name, &mean, &se, err);
    *block = (struct dmft_block){d->blocks, mean};
    d->blocks = block;
    *out = (struct dmft_series){.name = series->name,
                                .dims = series->dims,
                                .about = series->about,
                                .runs = record->runs,
                                .axes = series->axes,
                                .shape = series->shape,
                                .size = series->size,
                                .mean = mean,
                                .se = se};
    return code;
}

const char *dmft_name(struct dmft *d, int N, int k) {
    const struct record *record = need_argument(d, "dmft_name", "d", d) ? NULL : record_of(d, N);
    return record && k >= 0 && k < record->count ? record->series[k].name : NULL;
}
