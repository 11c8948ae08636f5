#define _DEFAULT_SOURCE /* getrusage */
#include "solver/run/parts.h"
#include "solver/measure/observe.h"
#include "solver/run/ensemble.h"

#include <sys/resource.h>

/* Bytes of the trajectories of one ensemble: every run; means and errors, once for the largest
 * series while they are computed and twice in the image of the file, which is copied to be saved.
 * What is kept run by run is in the file as well. Matrices are kept so alone, and copied once to be
 * written: `weights` counts their part, `sites` that of what is written site by site. */
static int record_bytes(const struct run *run, int N, int runs, double *bytes, double *weights,
                        double *sites, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    FREED(record_free) struct record record = {0};
    double largest = 0, values = 0, alone = 0, copy = 0, single = 0;
    TRY(record_init(&record, 0, run->config.training.steps, err));
    TRY(observe_declare(&record, &run->config, &setup, run->data.y, err));
    FOR_EACH_OF (const struct series, series, record.series, record.count) {
        double size = (double)series->size;
        double written = 2 * (2 + (series->keep_runs ? runs : 0));
        if (series->runs_alone) {
            alone += size * runs * 3;
            copy = fmax(copy, size * runs);
            continue;
        }
        if (series->first_run)
            single += size * 3;
        else
            values += size * (runs + (series->inner ? 0 : written));
        largest = fmax(largest, size);
    }
    *weights = sizeof(double) * (alone + copy);
    *sites = sizeof(double) * single;
    *bytes = sizeof(double) * (values + 2 * largest) + *weights + *sites;
    return CODE_OK;
}

/* Roughly what measuring takes beside the net, of which it is told: the largest of what instruments
 * have while they work, and what the coordinate check and gradients keep. R rows meet one another,
 * n outputs; `all` are the rows of the net, and y those that it learns with. */
static double measured_bytes(const struct config *config, const struct net *net) {
    const struct output_settings *output = &config->output;
    const struct data_setup *data = &net->setup.data;
    double R = net_most_rows(net), P = data->P, n = (double)net->batch.output_rows * data->C,
           all = 0, y = 0, side = 0, matrix = 0, terms = gradients_terms(net);
    for (int i = 0; i < net->arrays.count; i++)
        all += (double)array_bytes(net->arrays.item[i], net->arrays.item[i]->rows);
    for (int i = 0; i < net->parameters.count; i++) {
        struct rows rows = net->parameters.item[i].y;
        y += rows.array ? (double)array_bytes(rows.array, rows.count) : 0;
    }
    for (int i = 0; i < net->maps.count; i++) {
        const struct map *map = net->maps.item[i];
        struct map_costs of = net_map_costs(net, map, integrator_evaluations(&config->training));
        double a = (double)map->declared.target->sites, b = (double)map->declared.source->sites;
        side = fmax(side, fmax(a, b));
        matrix = fmax(matrix, net->setup.N ? a * b : fmax(of.p + of.q, side) * (of.p + of.q));
    }
    bool gradients = config_asks_gradients(config), apart = net->output.loss_in_cotangent;
    double numbers = 4 * side; /* a row or two on the host */
    if (output->sharpness)
        numbers = fmax(numbers, 3 * n * n + 2 * R * R);
    if (gradients || *output->spectra)
        numbers = fmax(numbers, 2 * R * R + P * P);
    if (output->experts)
        numbers = fmax(numbers, R * side + 3 * R * R);
    if ((output->weights != WEIGHTS_NONE && net->setup.N) || *output->singular)
        numbers = fmax(numbers, 3 * matrix);
    if (config->training.clip != 0)
        numbers = fmax(numbers, net->setup.N ? fmin(2 * R * R, 257 * (R + side)) : 2 * R * R);
    int check = config->reference.coordinate_check;
    if (check == COORDINATE_ALIGNED && net->setup.N)
        numbers = fmax(numbers, 2 * matrix);
    if (check)
        numbers = fmax(numbers, aggregation_matrices(net) * matrix);
    double kept = check ? (1 + check) * all : 0, carried = 0;
    for (int k = 0; k < net->kernels.count && output->kernels && !net->setup.N; k++)
        carried =
            fmax(carried, (double)array_bytes(net->kernels.item[k].rows.array,
                                              carriers_rows(net->kernels.item[k].rows.array)));
    for (int k = 0; k < net->kernels.count && output->gradients; k++)
        numbers += net->kernels.item[k].gradient ? terms * R * R : 0;
    if (gradients)
        numbers += terms * gradients_blocks(config, net) * P * P;
    if (apart && (gradients || output->sharpness))
        kept += net->host_bytes + (output->sharpness ? net_outputs(net) + 1 : terms) * y;
    return sizeof(double) * numbers + kept + carried;
}

static int estimate_bytes(const struct run *run, int N, int runs, double *bytes, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    bool full = run->config.output.kernels == KERNELS_FULL;
    int T = full ? run->config.training.steps : 0; /* of rows kept for two-time kernels */
    FREED(net_free) struct net net = {0};
    if (ensemble_iterates(run, N))
        TRY(fixed_point_bytes(&setup, &run->config.training, &run->config.solver.fixed_point, T,
                              bytes, err));
    else
        TRY(net_bytes(&setup, integrator_evaluations(&run->config.training), T, bytes, err));
    TRY(net_declare(&net, &setup, err));
    *bytes += measured_bytes(&run->config, &net);
    if (full) /* the observer's coefficients */
        *bytes += 8.0 * run->config.training.steps * setup.data.P * setup.data.n * setup.data.P *
                  setup.data.n;
    *bytes *= ensemble_concurrent(run, N, runs);
    return CODE_OK;
}

/* Site arrays of so many bytes, where they live in a memory of their own. */
static int check_device(struct run *run, double bytes, struct err *err) {
    double room;
    TRY(backend_list[run->config.solver.backend]->open(&room, err));
    if (bytes > room)
        return err_set(err, CODE_SYSTEM,
                       "the run would need about %.3g GB on the device, which has %.3g GB free; "
                       "try fewer threads, sites or steps, or smaller widths",
                       1e-9 * bytes, 1e-9 * room);
    if (isfinite(room))
        log_line(&run->log, "memory of the device: %.3g GB free", 1e-9 * room);
    return CODE_OK;
}

/* What a limit of this network can have less of. */
static void name_sites(const struct run *run, char *note) {
    static const char *const more[] = {"expert_sites", "unit_sites"};
    const char *keys = run->config.network.model->solver_keys;
    text_append(note, "fewer sites");
    for (int k = 0; k < 2; k++)
        if (text_lists(keys, more[k]))
            text_append(note, ", %s", more[k]);
    text_append(note, "%s, inputs or steps", run->data.n > 1 ? ", tokens" : "");
}

/* What a run will need: the limit, the largest networks, all results and, among these, matrices
 * and what is written site by site; and its states on disk. */
struct need {
    double limit, networks, results, weights, sites, states;
    int wide; /* width of the largest networks */
};

static int find_need(const struct run *run, struct need *need, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    bool halves = run->config.solver.halves;
    *need = (struct need){0};
    for (int k = 0; k <= widths->count; k++) {
        int N = k ? widths->value[k - 1] : 0,
            runs = k ? run->config.reference.seeds : run->config.solver.replicates;
        double bytes, results, weights, sites, times = !k && halves ? 3 : 1;
        if (!runs)
            continue;
        TRY(estimate_bytes(run, N, runs, &bytes, err));
        TRY(record_bytes(run, N, runs, &results, &weights, &sites, err));
        need->results += results * times;
        need->sites += sites * times;
        need->weights += weights;
        need->states += bytes / ensemble_concurrent(run, N, runs) * runs * (times > 1 ? 2 : 1);
        if (bytes > (k ? need->networks : need->limit)) {
            *(k ? &need->networks : &need->limit) = bytes;
            need->wide = N;
        }
    }
    return CODE_OK;
}

/* Refuses a run beyond max_memory, and names the settings to lower. */
static int refuse_memory(const struct run *run, const struct need *need, double total,
                         struct err *err) {
    bool results = need->results > need->limit && need->results > need->networks,
         networks = need->limit <= need->networks && need->results <= need->networks,
         full = run->config.output.kernels == KERNELS_FULL;
    char fewer[TEXT_NOTE] = "", wide[64] = "";
    name_sites(run, fewer);
    const char *matrices = run->config.output.weights >= WEIGHTS_BOTH
                               ? "[output] weights = final or none, fewer seeds"
                               : "[output] weights = none, fewer seeds";
    const char *remedy =
        results && need->weights > need->results / 2 ? matrices
        : results && need->sites > need->results / 2
            ? "a smaller [output] field_sites, fewer inputs or steps"
        : results && full              ? "kernels = diagonal, or fewer steps, replicates or seeds"
        : results && run->data.n > 1   ? "fewer tokens, inputs, steps, replicates or seeds"
        : results                      ? "fewer inputs, steps, replicates or seeds"
        : need->limit > need->networks ? fewer
        : run->data.n > 1              ? "smaller widths, fewer tokens or inputs"
                                       : "smaller widths";
    if (networks)
        snprintf(wide, sizeof wide, ", mostly for width %d", need->wide);
    return params_error(
        &run->params, "solver", "max_memory", err,
        "the run would need about %.3g GB%s; try %s%s, fewer threads, or raise max_memory", total,
        wide, full && !results ? "kernels = diagonal, " : "", remedy);
}

double memory_most(void) {
    struct rusage used;
    char line[128];
    long most = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && !most && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %ld kB", &most);
    if (status)
        fclose(status);
    getrusage(RUSAGE_SELF, &used);
    return 1024 * (double)(most ? most : used.ru_maxrss);
}

/* What libraries take once they are at work: buffers of OpenBLAS, caches of HDF5. */
static const double libraries = 10e6;

/* Nobody knows before how many directions a limit will meet: its bases are counted as large as
 * those of other runs were. */
int memory_check(struct run *run, struct err *err) {
    struct need need;
    TRY(find_need(run, &need, err));
    if (run->config.output.checkpoint > 0)
        log_line(&run->log, "states: at most about %.3g GB on disk",
                 1e-9 * (need.states + need.results));
    log_line(&run->log,
             "memory: about %.3g GB for the limit, %.3g GB for networks, %.3g GB of results, "
             "beside %.3g GB of the program and its data",
             1e-9 * need.limit, 1e-9 * need.networks, 1e-9 * need.results,
             1e-9 * (memory_most() + libraries));
    double most = fmax(need.limit, need.networks), total = 1e-9 * (most + need.results);
    run->config.solver.fixed_point.bytes_left =
        fmax(1, 1e9 * run->config.solver.max_memory - need.limit - need.results) /
        ensemble_concurrent(run, 0, run->config.solver.replicates);
    return total <= run->config.solver.max_memory ? check_device(run, most, err)
                                                  : refuse_memory(run, &need, total, err);
}
