#include "solver/measure/observe.h"
#include "kernels/array/profile.h"

#define NAME(name) name,
static instrument *const instruments[] = {INSTRUMENTS(NAME) NULL};

/* [output] runs = yes: whatever has a mean over runs is stored run by run as well. */
static void keep_all_runs(struct record *record) {
    FOR_EACH_OF (struct series, series, record->series, record->count) {
        series->keep_runs |= record_averages(series) && !series->inner;
    }
}

int observe_declare(struct record *record, const struct config *config,
                    const struct net_setup *setup, const double *y, struct err *err) {
    FREED(net_free) struct net net = {0};
    const struct declaring declaring = {record, config, &net, y};
    record->no_inputs = config->output.inputs == INPUTS_NONE;
    TRY(net_declare(&net, setup, err));
    TRY(gradients_check(config, &net, err));
    for (size_t k = 0; instruments[k]; k++)
        TRY(instruments[k](&declaring, err));
    if (config->output.runs)
        keep_all_runs(record);
    return record_check_names(record, config->solver.check_tolerance, err);
}

/* Makes room for what fillers ask for. A processor fills series as soon as it has asked. */
static int make_room(struct observer *observer, const struct net *net, struct err *err) {
    const struct record *record = observer->record;
    bool late = backend_has_later(net->setup.backend);
    size_t room = 0;
    for (int i = 0; i < record->fillers; i++) {
        size_t own = record->filler[i].room;
        room = late ? room + own : own > room ? own : room;
    }
    return base_alloc(&observer->room, room, sizeof *observer->room, err);
}

int observer_init(struct observer *observer, const struct config *config, const double *y,
                  struct record *record, int run, const struct net *net, struct err *err) {
    *observer = (struct observer){.config = config, .y = y, .record = record, .run = run};
    observer->coordinate.backend = net->setup.backend;
    TRY(base_alloc(&observer->out, (size_t)record->slots, sizeof *observer->out, err));
    TRY(make_room(observer, net, err));
    TRY(kernel_history_init(&observer->history, config, net, err));
    TRY(gradients_init(&observer->gradients, config, net, err));
    return sharpness_init(&observer->sharpness, config, net, err);
}

int observer_archive(struct observer *observer, const struct net *net, int steps,
                     struct archive *archive, struct err *err) {
    TRY(record_archive(observer->record, observer->run, steps, archive, err));
    TRY(kernel_history_archive(&observer->history, archive, err));
    int check = observer->config->reference.coordinate_check;
    bool aligned = net->setup.N && check == COORDINATE_ALIGNED;
    return check ? coordinate_archive(&observer->coordinate, net, aligned, archive, err) : CODE_OK;
}

void observer_free(struct observer *observer) {
    kernel_history_free(&observer->history);
    coordinate_free(&observer->coordinate);
    gradients_free(&observer->gradients);
    sharpness_free(&observer->sharpness);
    free(observer->out);
    free(observer->room);
    *observer = (struct observer){0};
}

static struct measuring measuring_of(struct observer *observer, const struct net *net, int t) {
    return (struct measuring){observer->config, net, observer->y, observer->record, observer,
                              observer->run,    t,   0,           observer->room};
}

/* Whether the series of a filler were left out. */
static bool is_left_out(const struct record *record, const struct filler *filler) {
    return !filler->count && record->no_inputs;
}

/* Asks a device, with one wait for all, about rows of the forward pass, or about the others. */
static int ask_all(struct observer *observer, const struct net *net, int t, bool forward,
                   struct err *err) {
    const struct record *record = observer->record;
    struct measuring m = measuring_of(observer, net, t);
    int code = CODE_OK;
    backend_later(net->setup.backend, true);
    for (int i = 0; i < record->fillers && !code; m.room += record->filler[i++].room) {
        const struct filler *filler = &record->filler[i];
        m.item = filler->item;
        if (filler->ask && filler->forward == forward && !is_left_out(record, filler))
            code = filler->ask(&m, err);
    }
    backend_later(net->setup.backend, false);
    if (code) /* nobody waits for what was asked */
        backend_arrive(net->setup.backend, NULL, 0);
    return code;
}

int observer_ask(void *context, const struct net *net, struct err *err) {
    struct observer *observer = context;
    observer->asked = backend_has_later(net->setup.backend);
    return observer->asked ? ask_all(observer, net, 0, true, err) : CODE_OK;
}

static int fill_all(struct observer *observer, const struct net *net, int t, struct err *err) {
    struct record *record = observer->record;
    struct measuring m = measuring_of(observer, net, t);
    bool late = backend_has_later(net->setup.backend);
    if (late && !observer->asked)
        TRY(ask_all(observer, net, t, true, err));
    if (late)
        TRY(ask_all(observer, net, t, false, err));
    observer->asked = false;
    backend_arrive(net->setup.backend, NULL, 0);
    for (int i = 0; i < record->fillers; m.room += late ? record->filler[i].room : 0, i++) {
        const struct filler *filler = &record->filler[i];
        if (is_left_out(record, filler))
            continue;
        for (int slot = 0; slot < record->slots; slot++)
            observer->out[slot] = NULL;
        for (int s = filler->first; s < filler->first + filler->count; s++)
            observer->out[record->series[s].slot] =
                record_at(record, &record->series[s], observer->run, t);
        m.item = filler->item;
        if (filler->ask && !late)
            TRY(filler->ask(&m, err));
        TRY(filler->fill(&m, observer->out, err));
    }
    return backend_check(net->setup.backend, err);
}

int observer_measure(struct observer *observer, struct net *net, int t, struct err *err) {
    int before = profile_enter("measuring", "");
    int code = gradients_find(&observer->gradients, net, err);
    if (!code)
        code = sharpness_find(&observer->sharpness, observer->config, net, observer->y, err);
    if (!code)
        code = fill_all(observer, net, t, err);
    profile_leave(before);
    return code;
}

int observer_predict(struct observer *observer, struct net *net, int t, struct err *err) {
    struct measuring m = measuring_of(observer, net, t);
    return outputs_predict(&m, net, err);
}

int observe_rank(const struct net *net) {
    int largest = 0;
    for (int i = 0; i < 2 * net->maps.count; i++) {
        int rank = map_rank(net->maps.item[i / 2], i % 2 == 0);
        largest = rank > largest ? rank : largest;
    }
    return largest;
}
