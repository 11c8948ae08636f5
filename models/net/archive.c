/* The state of a net between two steps (net.h). What follows from the setup is made by net_init. */
#include "models/program/node.h"

/* Numbers of the net itself. */
static int numbers(struct net *net, struct archive *archive, struct err *err) {
    TRY(archive_bytes(archive, &net->started, sizeof net->started, err));
    TRY(archive_bytes(archive, &net->t, sizeof net->t, err));
    TRY(archive_bytes(archive, &net->step, sizeof net->step, err));
    TRY(archive_bytes(archive, &net->loss, sizeof net->loss, err));
    TRY(archive_bytes(archive, &net->loss_scale, sizeof net->loss_scale, err));
    TRY(archive_bytes(archive, net->index, (size_t)net->setup.P * sizeof *net->index, err));
    if (net->token)
        TRY(archive_bytes(archive, net->token, (size_t)net->rows * sizeof *net->token, err));
    for (int i = 0; i < net->vectors; i++)
        TRY(archive_bytes(archive, net->vector[i].values,
                          (size_t)net->vector[i].length * sizeof(double), err));
    size_t all = (size_t)(net->setup.inputs + net->setup.tests);
    for (int i = 0; i < net->origins; i++)
        TRY(archive_bytes(archive, net->origin[i].all,
                          all * (size_t)net->origin[i].K * sizeof(double), err));
    return CODE_OK;
}

static int parameter(struct parameter *p, const struct backend *backend, struct archive *archive,
                     struct err *err) {
    size_t count = 2 * (size_t)p->K;
    if (p->host)
        TRY(archive_bytes(archive, p->host, (size_t)p->K * sizeof *p->host, err));
    for (int k = 0; k < 2; k++)
        TRY(archive_array(archive, &p->moment[k], backend, err));
    return archive_list(archive, &p->host_moment, &count, sizeof *p->host_moment, err);
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
        TRY(archive_array(archive, &net->thin[i]->W, backend, err));
    for (int i = 0; i < net->arrays; i++)
        TRY(archive_array(archive, net->array[i], backend, err));
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].map && p->node[i].use == 0)
            TRY(map_archive(p->node[i].map, rows_read(p, &p->node[i]), archive, err));
    for (int i = 0; i < net->parameters; i++)
        TRY(parameter(&net->parameter[i], backend, archive, err));
    return archive->mode == ARCHIVE_MEASURE ? CODE_OK : backend->sync(err);
}
