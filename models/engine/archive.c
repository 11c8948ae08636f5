/* The state of a net between two steps (net.h). What follows from the setup is made by net_init. */
#include "models/engine/node.h"

/* Numbers of the net itself. */
static int numbers(struct net *net, struct archive *archive, struct err *err) {
    const struct net_setup *setup = &net->setup;
    TRY(archive_bytes(archive, &net->started, sizeof net->started, err));
    TRY(archive_bytes(archive, &net->t, sizeof net->t, err));
    TRY(archive_bytes(archive, &net->step, sizeof net->step, err));
    TRY(archive_bytes(archive, &net->step_error, sizeof net->step_error, err));
    TRY(archive_bytes(archive, &net->loss, sizeof net->loss, err));
    TRY(archive_bytes(archive, &net->loss_scale, sizeof net->loss_scale, err));
    TRY(archive_bytes(archive, net->index, (size_t)net->setup.P * sizeof *net->index, err));
    if (net->token)
        TRY(archive_bytes(archive, net->token, (size_t)net->rows * sizeof *net->token, err));
    for (int mu = 0; mu < setup->P; mu++)
        if (net->index[mu] < 0 || net->index[mu] >= setup->inputs + setup->tests)
            return archive_misfit(archive, "an input has an impossible number", err);
    for (int i = 0; net->token && i < net->rows; i++)
        if (net->token[i] < 0 || net->token[i] >= setup->V)
            return archive_misfit(archive, "a token has an impossible number", err);
    for (int i = 0; i < net->vectors; i++)
        TRY(archive_bytes(archive, net->vector[i].values,
                          (size_t)net->vector[i].length * sizeof(double), err));
    size_t all = (size_t)(net->setup.inputs + net->setup.tests);
    for (int i = 0; i < net->origins; i++)
        TRY(archive_bytes(archive, net->origin[i].all,
                          all * (size_t)net->origin[i].K * sizeof(double), err));
    return CODE_OK;
}

/* Moments are there from the first step on, and have the shape of the entries that are learned. */
static int expect_moment(const struct parameter *p, const struct array *moment,
                         const struct archive *archive, struct err *err) {
    if (!moment->memory)
        return CODE_OK;
    if (p->thin)
        return archive_expect(archive, moment, p->thin->W.sites, p->thin->W.group, -1, err);
    if (!p->map)
        return archive_misfit(archive, "numbers have moments of an array", err);
    const struct population *on =
        p->map->kind == &map_limit ? p->map->declared.target : p->map->declared.source;
    return archive_expect(archive, moment, on->sites, on->group, -1, err);
}

/* An array whose shape net_init knows. */
static int known_array(struct array *array, const struct backend *backend, struct archive *archive,
                       struct err *err) {
    size_t sites = array->sites;
    int group = array->group, rows = array->rows;
    TRY(archive_array(archive, array, backend, err));
    return archive_expect(archive, array, sites, group, rows, err);
}

static int parameter(struct parameter *p, const struct backend *backend, struct archive *archive,
                     struct err *err) {
    if (p->host)
        TRY(archive_bytes(archive, p->host, (size_t)p->K * sizeof *p->host, err));
    for (int k = 0; k < 2; k++) {
        TRY(archive_array(archive, &p->moment[k], backend, err));
        TRY(expect_moment(p, &p->moment[k], archive, err));
    }
    return archive_list(archive, &p->host_moment, 2 * (size_t)p->K, sizeof *p->host_moment, err);
}

/* What a matrix has read, in all of its uses. */
static struct rows rows_read(const struct program *p, const struct node *v) {
    struct rows all = v->map->gather[0];
    return all.array ? all : p->node[v->argument[0]].value;
}

int net_archive(struct net *net, struct archive *archive, struct err *err) {
    const struct backend *backend = net->setup.backend;
    const struct program *p = net->program;
    TRY(numbers(net, archive, err));
    for (int i = 0; i < net->populations; i++)
        TRY(population_archive(net->population[i], archive, err));
    for (int i = 0; i < net->thins; i++)
        TRY(known_array(&net->thin[i]->W, backend, archive, err));
    for (int i = 0; i < net->arrays; i++)
        TRY(known_array(net->array[i], backend, archive, err));
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].map && p->node[i].use == 0)
            TRY(map_archive(p->node[i].map, rows_read(p, &p->node[i]), archive, err));
    for (int i = 0; i < net->parameters; i++)
        TRY(parameter(&net->parameter[i], backend, archive, err));
    return archive->mode == ARCHIVE_MEASURE ? CODE_OK : backend->sync(err);
}
