#define _POSIX_C_SOURCE 200809L
#include "solver/run/states.h"
#include "kernels/array/dist.h"
#include "models/engine/describe.h"
#include "solver/files/partial.h"
#include "solver/files/provenance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mark[16] = "dmft state 1"; /* and the form of what follows */
static const char suffix[] = ".state";

/* --- what a state belongs to ----------------------------------------------------------------- */

struct head {
    char mark[sizeof mark];
    char *version, *settings; /* settings: write_settings */
    struct {
        uint64_t data;
        int N, r, T, steps;
    } of;
};

static void head_free(struct head *head) {
    free(head->version);
    free(head->settings);
    *head = (struct head){0};
}

/* Keys that decide no number of a run. */
static bool is_free(const char *section, const char *key) {
    static const char *const keys[] = {
        "training.steps",    "solver.threads",         "solver.backend",  "solver.max_memory",
        "solver.replicates", "reference.widths",       "reference.seeds", "output.checkpoint",
        "data.file",         "solver.check_tolerance", "data.folder"};
    size_t length = strlen(section);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!strncmp(keys[k], section, length) && keys[k][length] == '.' &&
            !strcmp(keys[k] + length + 1, key))
            return true;
    return false;
}

/* What decides the numbers of a run, as JSON: {"section": {"key": "value"}}. */
static int write_settings(char **text, const struct params *params, struct err *err) {
    const struct param_value *value = params->values;
    json_auto_t *all = json_object();
    bool full = !all;
    for (size_t s = 0; s < params->count; s++) {
        const struct param_section *section = &params->sections[s];
        json_t *keys = json_object();
        full |= json_object_set_new(all, section->name, keys);
        for (size_t k = 0; k < section->count; k++, value++)
            if (!is_free(section->name, section->rows[k].key))
                full |= json_object_set_new(keys, section->rows[k].key, json_string(value->text));
    }
    FOR_EACH_OF (const struct param_free, key, params->free, params->frees) {
        json_t *keys = json_object_get(all, key->section->name);
        full |= json_object_set_new(keys, key->key, json_string(key->value.text));
    }
    return describe_text(full ? NULL : all, "the settings of a state", text, err);
}

static int head_of(struct head *head, const struct run *run, const struct state *state,
                   struct err *err) {
    *head = (struct head){.of = {data_hash(BASE_HASH, &run->data), state->N, state->r,
                                 run->config.training.steps, state->steps}};
    memcpy(head->mark, mark, sizeof mark);
    TRY(base_copy(&head->version, provenance_version, err));
    return write_settings(&head->settings, &run->params, err);
}

static int head_archive(struct head *head, struct archive *archive, struct err *err) {
    TRY(archive_bytes(archive, head->mark, sizeof head->mark, err));
    if (memcmp(head->mark, mark, sizeof mark) != 0)
        return archive_misfit(archive, "it is no state of this program", err);
    TRY(archive_text(archive, &head->version, err));
    TRY(archive_text(archive, &head->settings, err));
    TRY(archive_bytes(archive, &head->of, sizeof head->of, err));
    return head->of.steps < 0 || head->of.steps > head->of.T
               ? archive_misfit(archive, "it has more steps than its run", err)
               : CODE_OK;
}

/* "0.30" is 0.3. */
static bool same_value(const char *a, const char *b) {
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return !strcmp(a, b) || (*a && *b && !*end_a && !*end_b && x == y);
}

/* The first key of `settings` that is not the same in `other`; was: which of them is of the state.
 */
static int compare_settings(const struct run *run, const char *path, json_t *settings,
                            const json_t *other, bool was, struct err *err) {
    const char *section, *key;
    json_t *keys, *text;
    json_object_foreach(settings, section, keys) json_object_foreach(keys, key, text) {
        const json_t *there = json_object_get(json_object_get(other, section), key);
        const char *value = json_string_value(text), *found = json_string_value(there),
                   *kept = was ? value : found;
        if (!value || !found || !same_value(value, found))
            return params_error(
                &run->params, section, key, err,
                "the state %s was made %s %s%s%s and cannot go on with anything else", path,
                kept ? "with" : "without", key, kept ? " = " : "", kept ? kept : "");
    }
    return CODE_OK;
}

static int judge_head(const struct archive *archive, const struct run *run, const struct head *mine,
                      const struct head *found, struct err *err) {
    const char *path = archive->path;
    const struct training *training = &run->config.training;
    if (strcmp(found->version, mine->version) != 0)
        return err_set(err, CODE_INPUT,
                       "%s: was kept by version %s and this is %s, whose numbers may differ; let "
                       "that version go on, or begin anew with --force",
                       path, found->version, mine->version);
    json_auto_t *here = json_loads(mine->settings, 0, NULL),
                *there = json_loads(found->settings, 0, NULL);
    if (!here || !there)
        return archive_misfit(archive, "its keys and values cannot be read", err);
    TRY(compare_settings(run, path, here, there, false, err));
    TRY(compare_settings(run, path, there, here, true, err));
    if (found->of.data != mine->of.data)
        return params_error(&run->params, "data", "source", err,
                            "the state %s was made with other inputs or targets", path);
    if (found->of.N != mine->of.N || found->of.r != mine->of.r)
        return err_set(err, CODE_INPUT, "%s: is the state of another replicate or seed", path);
    if (found->of.T > mine->of.T)
        return params_error(&run->params, "training", "steps", err,
                            "the state %s is of a run of %d steps, which can only become longer",
                            path, found->of.T);
    if (found->of.T != mine->of.T && schedule_follows_steps(training))
        return params_error(
            &run->params, "training", "schedule", err,
            "the rate falls to the end of the run, so that one of %d steps is not the beginning of "
            "one of %d: a run that is to become longer needs schedule_steps from the start",
            found->of.T, mine->of.T);
    return CODE_OK;
}

/* --- files ----------------------------------------------------------------------------------- */

/* folder/mup_N0064_0003.state; of halves mup_half1_0003.state */
static int path_of(char **path, const struct run *run, int N, int r, struct err *err) {
    char width[16] = "limit", side[sizeof run->share.prefix];
    snprintf(side, sizeof side, "%s", run->share.prefix);
    if (strchr(side, '/'))
        *strchr(side, '/') = '_';
    if (N)
        snprintf(width, sizeof width, "N%04d", N);
    else if (run->config.half)
        snprintf(width, sizeof width, "half%d", run->config.half);
    return base_print(path, err, "%s/%s%s_%04d%s", run->states.folder, side, width, r, suffix);
}

static int ini_path(char **path, const char *folder, struct err *err) {
    return base_print(path, err, "%s/ini", folder);
}

static int folder_of(char **folder, const char *output, struct err *err) {
    return base_print(folder, err, "%s%s", output, suffix);
}

int states_ini(char **ini, const char *output, struct err *err) {
    FREED(base_free) char *folder = NULL;
    TRY(folder_of(&folder, output, err));
    TRY(ini_path(ini, folder, err));
    static const char hint[] = " ([output] checkpoint = minutes keeps one, also at the end)";
    if (!dist_rank() && access(*ini, F_OK))
        return err_set(err, CODE_INPUT, "%s: no state %s: %s: %s%s", output,
                       access(folder, F_OK) ? "was kept of it" : "of it could be written", *ini,
                       strerror(errno), access(folder, F_OK) ? hint : "; begin it as at first");
    return CODE_OK;
}

/* How many states there are; remove: were. */
static int count_states(const char *folder, bool remove_them) {
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int count = 0;
    while (directory && (entry = readdir(directory))) {
        size_t length = strlen(entry->d_name), end = sizeof suffix - 1;
        if (length <= end || strcmp(entry->d_name + length - end, suffix) != 0)
            continue;
        count++;
        if (remove_them)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
    return count;
}

static int lock_folder(struct run *run, const char *output, struct err *err) {
    if (mkdir(run->states.folder, 0777) && errno != EEXIST)
        return err_set(err, CODE_SYSTEM,
                       "output %s: the folder of this name and %s, for the state of the run, "
                       "cannot be made: %s; name an output elsewhere with -o",
                       output, suffix, strerror(errno));
    run->states.lock = open(run->states.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->states.lock < 0) {
        run->states.lock = 0;
        return err_set(err, CODE_SYSTEM, "cannot open the folder %s: %s", run->states.folder,
                       strerror(errno));
    }
    if (flock(run->states.lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(run->states.lock);
        run->states.lock = 0;
        return err_set(err, CODE_INPUT,
                       "output %s: another run is at work in %s; choose another name, or wait",
                       output, run->states.folder);
    }
    return CODE_OK;
}

/* Opens a state and leaves it behind its head, which must be that of this run. */
static int open_state(struct archive *archive, const struct run *run, const char *path,
                      struct state *state, struct err *err) {
    FREED(head_free) struct head mine = {0}, found = {0};
    TRY(archive_open(archive, path, state->shared, err));
    TRY(head_of(&mine, run, state, err));
    TRY(head_archive(&found, archive, err));
    TRY(judge_head(archive, run, &mine, &found, err));
    state->steps = found.of.steps;
    return CODE_OK;
}

/* Checks the state of one run, if it has one. */
static int check_state(const struct run *run, int N, int r, struct err *err) {
    struct state state = {.N = N, .r = r};
    struct archive archive = {0};
    FREED(base_free) char *path = NULL;
    int code = CODE_OK;
    TRY(path_of(&path, run, N, r, err));
    if (!access(path, F_OK))
        code = open_state(&archive, run, path, &state, err);
    return archive_close(&archive, code, err);
}

static int check_all(const struct run *run, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    struct run part = *run;
    for (int k = 0; k <= (run->config.solver.halves ? 2 : 0); k++) {
        part.config.half = k;
        for (int r = 0; r < run->config.solver.replicates; r++)
            TRY(check_state(&part, 0, r, err));
    }
    for (int i = 0; i < widths->count; i++)
        for (int r = 0; r < run->config.reference.seeds; r++)
            TRY(check_state(run, widths->value[i], r, err));
    return CODE_OK;
}

int states_open(struct run *run, const char *output, bool force, struct err *err) {
    double minutes = states_minutes(run);
    FREED(base_free) char *path = NULL;
    if (minutes == 0 && !run->states.resume)
        return CODE_OK;
    TRY(partial_check(output, force || run->states.resume, err));
    TRY(folder_of(&run->states.folder, output, err));
    if (minutes == 0 && access(run->states.folder, F_OK)) {
        free(run->states.folder);
        run->states.folder = NULL;
        return CODE_OK;
    }
    if (run->share.side > 1) /* the first one has it */
        return run->states.resume ? check_all(run, err) : CODE_OK;
    TRY(lock_folder(run, output, err));
    if (run->states.resume)
        TRY(check_all(run, err));
    else if (count_states(run->states.folder, force) && !force)
        return err_set(err, CODE_INPUT,
                       "output %s: %s holds states of an earlier run: go on from them (--continue "
                       "%s), or add --force to begin anew",
                       output, run->states.folder, output);
    TRY(ini_path(&path, run->states.folder, err));
    return partial_write(path, NULL, run->states.ini, strlen(run->states.ini), err);
}

int states_share(struct run *run, struct err *err) {
    size_t size = run->states.folder ? strlen(run->states.folder) + 1 : 0;
    run->states.since = base_seconds();
    dist_broadcast(&size, sizeof size, 0);
    dist_broadcast(&run->states.resume, sizeof run->states.resume, 0);
    if (size && dist_rank())
        TRY(base_alloc(&run->states.folder, size, 1, err));
    dist_broadcast(run->states.folder, size, 0);
    return CODE_OK;
}

static void remove_folder(const struct run *run) {
    FREED(base_free) char *path = NULL;
    struct err ignored;
    if (ini_path(&path, run->states.folder, &ignored))
        return;
    unlink(path);
    rmdir(run->states.folder);
}

int states_count(const struct run *run) {
    return run->states.folder ? count_states(run->states.folder, false) : 0;
}

bool states_kept(const struct run *run) {
    return run->states.folder && (run->config.output.checkpoint > 0 || states_count(run));
}

void states_done(struct run *run) {
    if (!run->states.folder || run->config.output.checkpoint >= 0)
        return;
    count_states(run->states.folder, true);
    remove_folder(run);
}

void states_close(struct run *run) {
    if (run->states.lock && run->config.output.checkpoint < 0 && !states_count(run))
        remove_folder(run);
    if (run->states.lock)
        close(run->states.lock);
    free(run->states.folder);
    free(run->states.ini);
    run->states.lock = 0;
    run->states.folder = run->states.ini = NULL;
}

/* --- one run --------------------------------------------------------------------------------- */

int state_archive(const struct state *state, struct archive *archive, struct err *err) {
    TRY(net_archive(state->net, state->of, archive, err));
    return state->of ? CODE_OK
                     : observer_archive(state->observer, state->net, state->steps, archive, err);
}

int states_find(const struct run *run, struct state *state, struct err *err) {
    struct archive archive = {0};
    FREED(base_free) char *path = NULL;
    int code = CODE_OK;
    state->steps = 0;
    if (!run->states.folder || !run->states.resume)
        return CODE_OK;
    TRY(path_of(&path, run, state->N, state->r, err));
    bool exists = !access(path, F_OK);
    if (state->shared)
        dist_broadcast(&exists, sizeof exists, 0);
    if (exists)
        code = open_state(&archive, run, path, state, err);
    if (exists && !code)
        code = state_archive(state, &archive, err);
    return archive_close(&archive, code, err);
}

int states_keep(const struct run *run, const struct state *state, struct err *err) {
    struct archive archive = {0};
    struct head head = {0};
    FREED(base_free) char *path = NULL;
    int code;
    DO(path_of(&path, run, state->N, state->r, err));
    DO(archive_create(&archive, path, state->shared, err));
    DO(head_of(&head, run, state, err));
    DO(head_archive(&head, &archive, err));
    DO(state_archive(state, &archive, err));
done:
    code = archive_close(&archive, code, err);
    head_free(&head);
    return code;
}
