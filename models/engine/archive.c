/* The state of a net between two steps (net.h). What follows from the setup is made by net_init. */
#include "kernels/maps/map_limit.h"
#include "models/engine/node.h"

/* Numbers that are read and forgotten. */
static int pass_over(struct archive *archive, size_t count, struct err *err) {
    SCRATCH(double, ignored, count);
    return archive_bytes(archive, ignored, count * sizeof *ignored, err);
}

/* Vectors and origins, of which test inputs have a part; a net that is not centred has no origins.
 * of: the inputs of the net in the archive, which may have other test inputs than this one. */
static int of_inputs(struct net *net, const struct data_setup *of, struct archive *archive,
                     struct err *err) {
    const struct data_setup *data = &net->setup.data;
    bool other = of != data;
    FOR_EACH (const struct vector, vector, net->vectors) {
        if (other && vector->values == net->batch.A_rest)
            TRY(pass_over(archive, (size_t)net->batch.rows * (size_t)of->test_directions, err));
        else
            TRY(archive_bytes(archive, vector->values, vector->length * sizeof(double), err));
    }
    FOR_EACH (const struct origin, origin, net->origins) {
        size_t K = (size_t)origin->K, tests = (size_t)of->tests;
        if (!origin->all)
            continue;
        TRY(archive_bytes(archive, origin->all,
                          ((size_t)data->inputs + (other ? 0 : tests)) * K * sizeof(double), err));
        if (other)
            TRY(pass_over(archive, tests * K, err));
    }
    return CODE_OK;
}

/* Numbers of the net itself. */
static int store_numbers(struct net *net, const struct data_setup *of, struct archive *archive,
                         struct err *err) {
    const struct net_setup *setup = &net->setup;
    TRY(archive_flag(archive, &net->batch.started, err));
    TRY(archive_bytes(archive, &net->place.t, sizeof net->place.t, err));
    TRY(archive_bytes(archive, &net->place.step, sizeof net->place.step, err));
    TRY(archive_bytes(archive, &net->place.step_error, sizeof net->place.step_error, err));
    TRY(archive_bytes(archive, &net->output.loss, sizeof net->output.loss, err));
    TRY(archive_bytes(archive, &net->output.loss_scale, sizeof net->output.loss_scale, err));
    TRY(archive_bytes(archive, net->batch.index,
                      (size_t)net->setup.data.P * sizeof *net->batch.index, err));
    if (net->batch.token)
        TRY(archive_bytes(archive, net->batch.token,
                          (size_t)net->batch.rows * sizeof *net->batch.token, err));
    for (int mu = 0; mu < setup->data.P; mu++)
        if (net->batch.index[mu] < 0 || net->batch.index[mu] >= setup->data.inputs + of->tests)
            return archive_misfit(archive, "an input has an impossible number", err);
    for (int i = 0; net->batch.token && i < net->batch.rows; i++)
        if (net->batch.token[i] < 0 || net->batch.token[i] >= setup->data.V)
            return archive_misfit(archive, "a token has an impossible number", err);
    return of_inputs(net, of, archive, err);
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
    const struct map_declaration *map = &p->map->declared;
    bool on_target = p->map->kind == &map_limit && !map_learns_backward(map);
    const struct population *on = on_target ? map->target : map->source;
    return archive_expect(archive, moment, on->sites, on->group, -1, err);
}

/* An array whose shape net_init knows. */
static int known_array(struct array *array, const struct backend *backend, struct archive *archive,
                       struct err *err) {
    size_t sites = array->sites;
    int group = array->group, rows = array->rows;
    TRY(archive_array(archive, array, array->backend->counted ? array->backend : backend, err));
    return archive_expect(archive, array, sites, group, rows, err);
}

static int store_parameter(struct parameter *p, const struct backend *backend,
                           struct archive *archive, struct err *err) {
    if (p->host)
        TRY(archive_bytes(archive, p->host, (size_t)p->K * sizeof *p->host, err));
    for (int k = 0; k < 2; k++) {
        TRY(archive_array(archive, &p->moment[k], backend, err));
        TRY(expect_moment(p, &p->moment[k], archive, err));
    }
    return archive_list(archive, &p->host_moment, 2 * (size_t)p->K, sizeof *p->host_moment, err);
}

/* The node whose columns over test directions these are, or NULL. */
static const struct node *unseen_of(const struct net *net, const struct thin *thin) {
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].matrix.unseen == thin)
            return &net->program->node[i];
    return NULL;
}

int net_read_ins(const struct net *net) {
    int count = 0;
    for (int i = 0; i < net->program->nodes; i++)
        count += net->program->node[i].op->matrix == MATRIX_READ_IN;
    return count;
}

/* Thin matrices, and behind them (net_read_in makes them last) the columns of each read-in over
 * test directions. Those of a net with other test inputs are not of this one, whose columns are as
 * they were drawn and only decay. */
static int thin_matrices(struct net *net, const struct data_setup *of, struct archive *archive,
                         struct err *err) {
    bool other = of != &net->setup.data;
    for (int i = 0; i < net->thins.count; i++) {
        struct thin *thin = net->thins.item[i];
        const struct node *unseen = unseen_of(net, thin);
        if (other && unseen) {
            rows_scale(unseen->matrix.thin->decay, array_all(&thin->W));
            continue;
        }
        TRY(archive_bytes(archive, &thin->decay, sizeof thin->decay, err));
        TRY(known_array(&thin->W, net->setup.backend, archive, err));
    }
    for (int i = 0; i < net_read_ins(net) && other && of->test_directions; i++) {
        FREED(array_free) struct array ignored = {0};
        TRY(pass_over(archive, 1, err));
        TRY(archive_array(archive, &ignored, net->setup.backend, err));
    }
    return CODE_OK;
}

/* Rows are const to whoever reads them; the net owns their array. */
static int rows_of_net(struct rows rows, const struct backend *backend, struct archive *archive,
                       struct err *err) {
    return known_array((struct array *)rows.array, backend, archive, err);
}

/* The rows and numbers of the last evaluation that are read behind it: parameters learn from them,
 * Heun's method compares outputs, and gates say which rows an expert has. All else that the plan of
 * storage has is written anew by the next evaluation. */
static int learned_rows(struct net *net, struct archive *archive, struct err *err) {
    const struct program *p = net->program;
    const struct backend *backend = net->setup.backend;
    SCRATCH(bool, learned, (size_t)p->all);
    learned[p->output] = true;
    for (int k = 0; k < p->experts; k++)
        learned[p->expert[k]->numbers] = true;
    FOR_EACH (const struct parameter, parameter, net->parameters) {
        struct map *map = parameter->map;
        int read = node_learned_from(net, parameter, true),
            cotangent = node_learned_from(net, parameter, false);
        if (parameter->thin && parameter->thin->A)
            TRY(rows_of_net(parameter->thin->y, backend, archive, err));
        for (int i = 0; map && map->of_all_uses[0].array && i < 2; i++)
            TRY(rows_of_net(map->of_all_uses[i], backend, archive, err));
        if (read >= 0)
            learned[read] = true;
        if (cotangent >= 0)
            learned[cotangent] = true;
    }
    for (int rows = 0; rows < 2; rows++) { /* numbers say which rows experts have */
        for (int i = 0; i < p->all; i++)
            if (learned[i] && !(p->node[i].op->traits & OP_CONSTANT) &&
                (p->node[i].on != NULL) == rows)
                TRY(rows_of_net(p->node[i].value, backend, archive, err));
        selected_refresh(net, -1);
    }
    return CODE_OK;
}

int net_archive(struct net *net, const struct data_setup *of, struct archive *archive,
                struct err *err) {
    const struct backend *backend = net->setup.backend;
    const struct program *p = net->program;
    of = of ? of : &net->setup.data;
    TRY(store_numbers(net, of, archive, err));
    for (int i = 0; i < net->populations.count; i++)
        TRY(population_archive(net->populations.item[i], archive, err));
    TRY(thin_matrices(net, of, archive, err));
    for (int i = 0; i < p->kept; i++)
        TRY(known_array(net->arrays.item[i], backend, archive, err));
    TRY(learned_rows(net, archive, err));
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].matrix.map && p->node[i].matrix.use == 0) {
            struct rows all = p->node[i].matrix.map->of_all_uses[0],
                        read = all.array ? all : selected_argument(p, &p->node[i]);
            TRY(map_archive(p->node[i].matrix.map, read, archive, err));
        }
    for (int i = 0; i < net->parameters.count; i++)
        TRY(store_parameter(&net->parameters.item[i], backend, archive, err));
    return archive->mode == ARCHIVE_MEASURE ? CODE_OK : backend->sync(err);
}
