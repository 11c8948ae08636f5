#define _POSIX_C_SOURCE 200809L
#include "solver/run/states.h"
#include "kernels/array/dist.h"
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
    char *version, *ini; /* ini: lines "section.key = value" */
    struct {
        uint64_t data;
        int N, r, T, steps;
    } of;
};

static void head_free(struct head *head) {
    free(head->version);
    free(head->ini);
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

static int write_lines(char **text, const struct params *params, struct err *err) {
    const struct param_value *value = params->values;
    static const char what[] = "the parameters";
    FILE *out;
    size_t size;
    TRY(base_text_begin(&out, text, &size, what, err));
    for (size_t s = 0; s < params->count; s++)
        for (size_t k = 0; k < params->sections[s].count; k++, value++) {
            const char *section = params->sections[s].name, *key = params->sections[s].rows[k].key;
            if (!is_free(section, key))
                fprintf(out, "%s.%s = %s\n", section, key, value->text);
        }
    for (size_t k = 0; k < params->frees; k++)
        fprintf(out, "%s.%s = %s\n", params->free[k].section->name, params->free[k].key,
                params->free[k].value.text);
    return base_text_end(out, what, CODE_OK, err);
}

static int head_of(struct head *head, const struct run *run, const struct state *state,
                   struct err *err) {
    *head = (struct head){.of = {data_hash(BASE_HASH, &run->data), state->N, state->r,
                                 run->config.training.steps, state->steps}};
    memcpy(head->mark, mark, sizeof mark);
    TRY(base_copy(&head->version, provenance_version, err));
    return write_lines(&head->ini, &run->params, err);
}

/* Takes the next line of a text apart, in place; false: the end, or no such line: *text stays. */
static bool next_line(char **text, char **section, char **key, char **value) {
    char *line = *text, *end = strchr(line, '\n');
    if (!end)
        return false;
    *end = 0;
    *key = strchr(line, '.');
    *value = *key ? strstr(*key, " = ") : NULL;
    if (!*value)
        return false;
    *text = end + 1;
    *section = line;
    *(*key)++ = 0;
    **value = 0;
    *value += 3;
    return true;
}

/* Whether a text is lines of keys and values. */
static int check_lines(const struct archive *archive, const char *text, struct err *err) {
    FREED(base_free) char *copy = NULL;
    char *section, *key, *value;
    TRY(base_copy(&copy, text, err));
    char *rest = copy;
    while (next_line(&rest, &section, &key, &value))
        ;
    return *rest ? archive_misfit(archive, "its keys and values cannot be read", err) : CODE_OK;
}

static int head_archive(struct head *head, struct archive *archive, struct err *err) {
    TRY(archive_bytes(archive, head->mark, sizeof head->mark, err));
    if (memcmp(head->mark, mark, sizeof mark) != 0)
        return archive_misfit(archive, "it is no state of this program", err);
    TRY(archive_text(archive, &head->version, err));
    TRY(archive_text(archive, &head->ini, err));
    TRY(check_lines(archive, head->ini, err));
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

/* *found: the value in lines of text, to be freed; NULL: none. */
static int value_in(const char *text, const char *section, const char *key, char **found,
                    struct err *err) {
    FREED(base_free) char *copy = NULL;
    char *s, *k, *value;
    *found = NULL;
    TRY(base_copy(&copy, text, err));
    char *rest = copy;
    while (!*found && next_line(&rest, &s, &k, &value))
        if (!strcmp(s, section) && !strcmp(k, key))
            TRY(base_copy(found, value, err));
    return CODE_OK;
}

/* The first key of `ini` that is not the same in `other`; was: which of them is of the state. */
static int compare_keys(const struct run *run, const char *path, const char *ini, const char *other,
                        bool was, struct err *err) {
    FREED(base_free) char *copy = NULL;
    char *section, *key, *value;
    TRY(base_copy(&copy, ini, err));
    char *rest = copy;
    while (next_line(&rest, &section, &key, &value)) {
        FREED(base_free) char *found = NULL;
        TRY(value_in(other, section, key, &found, err));
        const char *kept = was ? value : found;
        if (!found || !same_value(value, found))
            return params_error(
                &run->params, section, key, err,
                "the state %s was made %s %s%s%s and cannot go on with anything else", path,
                kept ? "with" : "without", key, kept ? " = " : "", kept ? kept : "");
    }
    return CODE_OK;
}

static int judge_head(const struct run *run, const char *path, const struct head *mine,
                      const struct head *found, struct err *err) {
    const struct training *training = &run->config.training;
    if (strcmp(found->version, mine->version) != 0)
        return err_set(err, CODE_INPUT,
                       "%s: was kept by version %s and this is %s, whose numbers may differ; let "
                       "that version go on, or begin anew with --force",
                       path, found->version, mine->version);
    TRY(compare_keys(run, path, mine->ini, found->ini, false, err));
    TRY(compare_keys(run, path, found->ini, mine->ini, true, err));
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
    TRY(judge_head(run, path, &mine, &found, err));
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
