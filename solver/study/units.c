#define _GNU_SOURCE
#include "solver/study/units.h"
#include "solver/files/provenance.h"
#include "solver/run/states.h"
#include "solver/settings/param_keys.h"

#include <errno.h>
#include <omp.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- keys ---- */

/* Numbers have an order along which an optimum can be sought; words and seeds never have. */
static const char *type_of(const struct params *params, const char *name) {
    FOR_EACH_OF (const struct param_section, section, params->sections, params->count) {
        size_t length = strlen(section->name);
        if (strncmp(name, section->name, length) || name[length] != '.')
            continue;
        const struct param_row *row = param_find_row(section, name + length + 1);
        if (!row)
            return section->rows ? "word" : "number"; /* factors of matrices */
        return row->type == PARAM_INT    ? "integer"
               : row->type == PARAM_REAL ? "number"
               : row->type == PARAM_PATH ? "path"
                                         : "word";
    }
    return "word";
}

static int answer_keys(json_t *names, json_t *answer, struct err *err) {
    struct param_section *sections;
    struct params params = {0};
    size_t k;
    json_t *name, *types = json_array();
    TRY(units_put(answer, "types", types, err));
    TRY(config_sections(&sections, &params.count, err));
    FREED(base_free) struct param_section *all = sections;
    params.sections = sections;
    json_array_foreach (names, k, name)
        TRY(units_append(types, json_string(type_of(&params, units_text(name))), err));
    return CODE_OK;
}

/* ---- files ---- */

/* What a run that was cut has left of the file of a unit goes; its states, from which this one goes
 * on, stay. */
static int open_file(struct run *run, const char *output, struct err *err) {
    FREED(base_free) char *partial = NULL;
    TRY(base_print(&partial, err, "%s.partial", output));
    unlink(partial);
    run->states.resume = true;
    return run_open(run, output, true, err);
}

/* A point has nothing to change: after a numerical failure its states would fail again. */
static int answer_run(const struct units *units, json_t *question,
                      const volatile sig_atomic_t *stop, int cores, struct err *err) {
    struct run run = {.stop = stop, .program = "dmft-sweep"};
    const char *output, *version;
    int jobs, column, code;
    if (json_unpack(question, "{s:s,s:s,s:i,s:i}", "output", &output, "version", &version, "jobs",
                    &jobs, "column", &column))
        return err_set(err, CODE_INPUT, "a run needs output, version, jobs and column");
    if (strcmp(version, provenance_version) != 0)
        return err_set(err, CODE_SYSTEM,
                       "the dmft-solve here is %s, and the sweep is of %s: their numbers may "
                       "differ; the same version must be on all machines",
                       provenance_version, version);
    omp_set_num_threads(jobs > 0 && cores > jobs ? cores / jobs : 1);
    DO(units_read(units, 0, column, &run, err));
    DO(run_prepare(&run, err));
    DO(open_file(&run, output, err));
    DO(run_march(&run, err));
    DO(run_failures(&run, true, err));
    DO(run_finish(&run, true, err));
done:
    if (code == CODE_NUMERICAL)
        states_done(&run);
    run_free(&run);
    return code;
}

/* ---- questions ---- */

static int answer_question(json_t *question, json_t *reply, const volatile sig_atomic_t *stop,
                           int cores, struct err *err) {
    json_t *part;
    struct units units = {0};
    if ((part = json_object_get(question, "keys")))
        return answer_keys(part, reply, err);
    if ((part = json_object_get(question, "open"))) {
        TRY(units_of(&units, part, err));
        return units_open(&units, reply, cores, err);
    }
    if ((part = json_object_get(question, "check"))) {
        TRY(units_of(&units, part, err));
        return units_check(&units, reply, err);
    }
    if (!(part = json_object_get(question, "run")))
        return err_set(err, CODE_INPUT, "a question is keys, open, check or run");
    TRY(units_of(&units, part, err));
    return answer_run(&units, question, stop, cores, err);
}

static int answer_line(const char *line, FILE *answers, const volatile sig_atomic_t *stop,
                       int cores, struct err *err) {
    struct err why = {0};
    json_auto_t *question = json_loads(line, 0, NULL), *reply = json_object();
    int code = question && reply
                   ? answer_question(question, reply, stop, cores, &why)
                   : err_set(&why, CODE_INPUT, "no question in JSON, or no memory for it");
    if (code) {
        TRY(units_put(reply, "code", json_integer(why.code), err));
        TRY(units_put(reply, "error", json_string(why.text), err));
    }
    if (json_dumpf(reply, answers, JSON_COMPACT) || fputc('\n', answers) == EOF || fflush(answers))
        return err_set(err, CODE_SYSTEM, "an answer cannot be written: %s", strerror(errno));
    return CODE_OK;
}

int units_answer(FILE *questions, FILE *answers, const volatile sig_atomic_t *stop,
                 struct err *err) {
    FREED(base_free) char *line = NULL;
    size_t room = 0;
    int code = CODE_OK, cores = omp_get_max_threads();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!code && !*stop && getline(&line, &room, questions) >= 0)
        code = answer_line(line, answers, stop, cores, err);
    return code;
}
