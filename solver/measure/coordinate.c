/* Parts of what matrices make. With 0 for t = 0, W as it is used and x, y of time t,
 *
 *     W x   = W(0) x(0) (init) + W(0) (x - x(0)) (prop) + (W - W(0)) x (eff)
 *     W^T y = W(0)^T y(0) + W(0)^T (y - y(0)) + (W - W(0))^T y             y: cotangent of W x
 *
 * From W(0) x and W x: init is the former at t = 0, prop what it has become since, eff the rest.
 * Finite networks keep W(0); limit maps know it as the normals of their bases. Root mean squares
 * over sites, inputs and the matrices of a family. Inputs do not change, nor the cotangent of f:
 * the read-in, vectors and, backward, the read-out have no propagating part. */
#include "solver/measure/coordinate.h"
#include "solver/measure/observe.h"

enum slot { INIT, PROP, EFF, WHOLE, BACK, DELTA = 2 * BACK, PROP_ALIGNED, EFF_ALIGNED, SLOTS };
static const struct series_text slot[SLOTS] = {
    {"_init", "what the matrix makes of its input, initial part", "W(0) x(0)"},
    {"_prop", "what the matrix makes of its input, propagating part", "W(0) (x - x(0))"},
    {"_eff", "what the matrix makes of its input, effective part", "(W - W(0)) x"},
    {"", "what the matrix makes of its input", "W x"},
    {"_back_init", "what the matrix hands back, initial part", "W(0)^T y(0)"},
    {"_back_prop", "what the matrix hands back, propagating part", "W(0)^T (y - y(0))"},
    {"_back_eff", "what the matrix hands back, effective part", "(W - W(0))^T y"},
    {"_back", "what the matrix hands back", "W^T y"},
    {"_delta", "change of the output", "f - f(0)"},
    {"_prop_aligned", "propagating part over the entries of W(0) and of the change of the input",
     "|W(0) (x - x(0))|/(|W(0)| |x - x(0)|), |.| root mean squares"},
    {"_eff_aligned", "effective part over the entries of W - W(0) and of the input",
     "|(W - W(0)) x|/(|W - W(0)| |x|), |.| root mean squares"},
};

static bool is_matrix(const struct node *v) {
    return v->op->matrix != MATRIX_NONE;
}

static bool is_back(int k) {
    return k >= BACK && k < DELTA;
}

/* Whether it has vectors for numbers that learn. */
static bool embeds_moving(const struct program *p, const struct node *v) {
    return v->op->matrix == MATRIX_EMBED && p->node[v->argument[0]].plan.moves;
}

/* Whether a family has series k: back says that one of its matrices hands a signal back, aligned
 * that alignments of a network are asked for. */
static bool series_exists(const struct program *p, const struct node *v, int k, bool back,
                          bool parts, bool aligned) {
    if (is_back(k) && !back)
        return false;
    if (k >= PROP_ALIGNED)
        return aligned && !node_reads_no_rows(v);
    if (node_reads_no_rows(v))
        return k == INIT || k == EFF || k == WHOLE || (k == PROP && embeds_moving(p, v));
    if (v->op->matrix == MATRIX_READ_OUT)
        return k != BACK + PROP;
    if (v->op->matrix == MATRIX_MAP && !parts)
        return k == WHOLE || k == BACK + WHOLE;
    return k != DELTA;
}

/* The next matrix of the family of matrix i, i included; the number of nodes: none. */
static int next_of(const struct program *p, int i, int from) {
    while (from < p->nodes && !(is_matrix(&p->node[from]) &&
                                !strcmp(node_family(&p->node[from]), node_family(&p->node[i]))))
        from++;
    return from;
}

/* The first matrix of the next family. */
static int next_family(const struct program *p, int i) {
    while (i < p->nodes && !(is_matrix(&p->node[i]) && next_of(p, i, 0) == i))
        i++;
    return i;
}

/* A map that reads what does not move is handed no cotangent to pass on. */
static bool has_back(const struct node *v) {
    return !v->matrix.map || v->plan.part[0] >= 0;
}

static int count_back(const struct program *p, int i) {
    int count = 0;
    for (int j = i; j < p->nodes; j = next_of(p, i, j + 1))
        count += has_back(&p->node[j]);
    return count;
}

/* --- alignments ----------------------------------------------------------------------------- */

/* How far a matrix is aligned with what it meets: mean squares of its entries and of its input,
 * over which the coordinate check divides what the matrix makes. n independent entries make n^1/2
 * times the product of the two roots, and n entries of one sign n times. */
struct alignment {
    double start, learned; /* of the entries of W(0) and of W - W(0), as W is used */
    double input, moved;   /* of x and x - x(0) */
};

#define ROUND_OFF 1e-24 /* of squares */

/* The mean square of now - start. */
static int square_of_change(struct rows now, struct rows start, double *square, struct err *err) {
    FREED(array_free) struct array change = {0};
    TRY(array_keep(&change, now, err));
    aggregation_subtract(start, array_all(&change));
    *square = aggregation_square(array_all(&change));
    return CODE_OK;
}

/* x: at present; start: at t = 0. */
static int add_alignment_input(struct alignment *sum, struct rows x, struct rows start,
                               struct err *err) {
    double square;
    TRY(square_of_change(x, start, &square, err));
    sum->input += aggregation_square(x);
    sum->moved += square;
    return CODE_OK;
}

/* A map of a network that remembers its start. */
static int add_alignment_map(struct alignment *sum, const struct map *map, struct err *err) {
    size_t entries = map->declared.target->sites * map->declared.source->sites;
    SCRATCH(double, start, entries);
    SCRATCH(double, now, entries);
    TRY(map->start->kind->matrix(map->start, start, err));
    TRY(map->kind->matrix(map, now, err));
    for (size_t k = 0; k < entries; k++) {
        double change = now[k] - start[k];
        sum->start += start[k] * start[k] / (double)entries;
        sum->learned += change * change / (double)entries;
    }
    return CODE_OK;
}

/* The columns of a matrix to numbers, now and at t = 0, of which an entry is unit times W. */
static int add_alignment_thin(struct alignment *sum, struct rows W, struct rows start, double unit,
                              struct err *err) {
    double square;
    TRY(square_of_change(W, start, &square, err));
    sum->start += unit * unit * aggregation_square(start);
    sum->learned += unit * unit * square;
    return CODE_OK;
}

static double ratio_of_rms(double part, double entries, double input, int members) {
    return part * members * members / (entries * input);
}

/* What members of a family make, a sum of mean squares, over the product of these: members times a
 * square. NaN where the matrix or its input has not moved, but for round-off. */
static double alignment_of_moved(const struct alignment *sum, double part, int members) {
    bool known = sum->start > 0 && sum->moved > ROUND_OFF * sum->input;
    return known ? ratio_of_rms(part, sum->start, sum->moved, members) : (double)NAN;
}

static double alignment_of_learned(const struct alignment *sum, double part, int members) {
    bool known = sum->input > 0 && sum->learned > ROUND_OFF * sum->start;
    return known ? ratio_of_rms(part, sum->learned, sum->input, members) : (double)NAN;
}

/* --- parts ----------------------------------------------------------------------------------- */

/* Adds mean squares to square [4]. initial: W(0) x, lost; start: W(0) x(0), kept at t = 0. */
static int split_rows(struct array *start, struct rows initial, struct rows whole, int t,
                      double *square, struct err *err) {
    FREED(array_free) struct array work = {0};
    if (t == 0)
        TRY(array_keep(start, initial, err));
    TRY(array_keep(&work, whole, err));
    square[INIT] += aggregation_square(array_all(start));
    square[WHOLE] += aggregation_square(whole);
    aggregation_subtract(initial, array_all(&work));
    square[EFF] += aggregation_square(array_all(&work));
    aggregation_subtract(array_all(start), initial);
    square[PROP] += aggregation_square(initial);
    return CODE_OK;
}

static int split_numbers(double **start, const double *initial, const double *whole, size_t count,
                         int t, double *square, struct err *err) {
    if (t == 0) {
        TRY(base_alloc(start, count, sizeof **start, err));
        memcpy(*start, initial, count * sizeof *initial);
    }
    double all = (double)count;
    for (size_t k = 0; k < count; k++) {
        double init = (*start)[k], delta = whole[k] - init;
        square[INIT] += init * init / all;
        square[PROP] += pow(initial[k] - init, 2) / all;
        square[EFF] += pow(whole[k] - initial[k], 2) / all;
        square[WHOLE] += whole[k] * whole[k] / all;
        square[DELTA] += delta * delta / all;
    }
    return CODE_OK;
}

/* One direction of a map; of a field map, only the whole. */
static int split_map(const struct node *v, bool forward, struct rows in, struct rows whole,
                     struct array *start, int t, double *square, struct err *err) {
    const struct map *map = v->matrix.map;
    FREED(array_free) struct array initial = {0};
    if (!map->kind->initial) {
        square[WHOLE] += aggregation_square(whole);
        return CODE_OK;
    }
    TRY(array_keep(&initial, whole, err)); /* its shape */
    TRY(map->kind->initial(map, v->matrix.use, forward, in, array_all(&initial), err));
    return split_rows(start, array_all(&initial), whole, t, square, err);
}

/* Few numbers; of a limit less what they are at the start. Backward rows sum_k g_k Q_k. */
static int split_look(const struct net *net, const struct node *v, struct coordinate_matrix *m,
                      int t, double *square, struct err *err) {
    const struct backend *backend = net->setup.backend;
    struct rows x = net->program->node[v->argument[0]].value, Q = array_all(&v->matrix.thin->W);
    FREED(array_free) struct array rows = {0};
    size_t count = node_numbers(v);
    SCRATCH(double, s, count);
    backend->dots(x, array_all(&m->W), s);
    for (size_t k = 0; k < count && v->matrix.start; k++)
        s[k] -= v->matrix.start[k];
    TRY(split_numbers(&m->s, s, v->s, count, t, square, err));
    TRY(array_init(&rows, backend, x.array->sites, x.array->group, 2 * x.count, err));
    struct rows initial = array_rows(&rows, 0, x.count),
                whole = array_rows(&rows, x.count, x.count);
    const double *g = node_cotangent(net->program, v)->s;
    backend->combine(initial, 0, g, array_all(&m->W));
    backend->combine(whole, 0, g, Q);
    return split_rows(&m->back, initial, whole, t, square + BACK, err);
}

/* What is read out; of a limit less what it is at the start. */
static int split_read_out(const struct net *net, const struct node *v, struct coordinate_matrix *m,
                          int t, double *square, struct err *err) {
    FREED(array_free) struct array initial = {0};
    struct rows h = net->program->node[v->argument[0]].value, w = array_all(&m->W);
    int count = net->batch.output_rows * v->K;
    const double *start = v->matrix.start;
    SCRATCH(double, s, 2 * (size_t)count);
    (v->K == 1 ? net->setup.backend->averages : net->setup.backend->dots)(h, w, s);
    for (int k = 0; k < count; k++) {
        s[k] = s[k] / net->setup.gamma0 - (start && !net->setup.N ? start[k] : 0);
        s[count + k] = v->s[k] + (start && net->setup.N ? start[k] : 0);
    }
    TRY(split_numbers(&m->s, s, s + count, (size_t)count, t, square, err));
    TRY(array_keep(&initial, array_all(&m->W), err));
    return split_rows(&m->back, array_all(&initial), array_all(&v->matrix.thin->W), t,
                      square + BACK, err);
}

/* Inputs do not change; numbers that learn do, and are met by the vectors at the start. */
static int split_read_in(const struct net *net, const struct node *v, struct coordinate_matrix *m,
                         int t, double *square, struct err *err) {
    FREED(array_free) struct array initial = {0};
    TRY(array_keep(&initial, t ? array_all(&m->out) : v->value, err));
    if (embeds_moving(net->program, v))
        net->setup.backend->combine(array_all(&initial), 0, net->program->node[v->argument[0]].s,
                                    array_all(&m->W));
    return split_rows(&m->out, array_all(&initial), v->value, t, square, err);
}

/* The alignment of a matrix whose input moves, and its entries with it. */
static int measure_alignment(struct coordinate_matrix *m, const struct net *net,
                             const struct node *v, int t, struct alignment *sum, struct err *err) {
    struct rows x = net->program->node[v->argument[0]].value;
    if (t == 0)
        TRY(array_keep(&m->in, x, err));
    TRY(add_alignment_input(sum, x, array_all(&m->in), err));
    if (v->matrix.map)
        return add_alignment_map(sum, v->matrix.map, err);
    double unit = 1.0 / (double)x.array->sites;
    if (v->op->matrix == MATRIX_READ_OUT)
        unit /= net->setup.gamma0;
    return add_alignment_thin(sum, array_all(&v->matrix.thin->W), array_all(&m->W), unit, err);
}

static int split_matrix(struct coordinate_matrix *m, const struct net *net, const struct node *v,
                        int t, double *square, struct err *err) {
    if (t == 0 && v->matrix.thin)
        TRY(array_keep(&m->W, array_all(&v->matrix.thin->W), err));
    if (node_reads_no_rows(v))
        return split_read_in(net, v, m, t, square, err);
    if (v->op->matrix == MATRIX_LOOK)
        return split_look(net, v, m, t, square, err);
    if (v->op->matrix == MATRIX_READ_OUT)
        return split_read_out(net, v, m, t, square, err);
    TRY(split_map(v, true, net->program->node[v->argument[0]].value, v->value, &m->out, t, square,
                  err));
    return has_back(v)
               ? split_map(v, false, node_cotangent(net->program, v)->value,
                           node_part(net->program, v, 0)->value, &m->back, t, square + BACK, err)
               : CODE_OK;
}

static int begin_check(struct coordinate *check, int nodes, struct err *err) {
    const struct backend *backend = check->backend;
    coordinate_free(check);
    TRY(base_alloc(&check->matrix, (size_t)nodes, sizeof *check->matrix, err));
    check->nodes = nodes;
    check->backend = check->aggregation.h3.backend = backend;
    FOR_EACH_OF (struct coordinate_matrix, m, check->matrix, nodes) {
        m->out.backend = m->back.backend = m->W.backend = m->in.backend = backend;
    }
    return CODE_OK;
}

/* item: the node of the first matrix of a family. The first of them makes room, at the first time,
 * for what is kept of it. */
static int fill_family(const struct measuring *m, double *const *out, struct err *err) {
    const struct program *p = m->net->program;
    struct coordinate *check = &m->observer->coordinate;
    double square[SLOTS] = {0};
    struct alignment sum = {0};
    int members = 0, back = count_back(p, m->item);
    if (m->t == 0 && m->item == next_family(p, 0))
        TRY(begin_check(check, p->nodes, err));
    for (int j = m->item; j < p->nodes; j = next_of(p, m->item, j + 1), members++) {
        TRY(split_matrix(&check->matrix[j], m->net, &p->node[j], m->t, square, err));
        if (out[EFF_ALIGNED])
            TRY(measure_alignment(&check->matrix[j], m->net, &p->node[j], m->t, &sum, err));
    }
    square[PROP_ALIGNED] = alignment_of_moved(&sum, square[PROP], members);
    square[EFF_ALIGNED] = alignment_of_learned(&sum, square[EFF], members);
    for (int k = 0; k < SLOTS; k++)
        if (out[k])
            *out[k] = sqrt(square[k] / (is_back(k) ? back : members));
    return CODE_OK;
}

static int fill_terms(const struct measuring *m, double *const *out, struct err *err) {
    struct coordinate *check = &m->observer->coordinate;
    return aggregation_fill(&check->aggregation, m->net, check->matrix, m->t, out, err);
}

int coordinate_declare(const struct declaring *d, struct err *err) {
    const struct program *p = d->net->program;
    int check = d->config->reference.coordinate_check, N = d->net->setup.N;
    bool parts = N || d->config->solver.method == METHOD_MARCH;
    if (!check)
        return CODE_OK;
    for (int i = next_family(p, 0); i < p->nodes; i = next_family(p, i + 1)) {
        const struct node *v = &p->node[i];
        bool back = count_back(p, i) > 0, aligned = N && check == COORDINATE_ALIGNED;
        TRY(record_fill_by(d->record, fill_family, i, SLOTS, err));
        for (int k = 0; k < SLOTS; k++) {
            bool f = v->op->matrix == MATRIX_READ_OUT && (k < BACK || k == DELTA);
            const struct series series = {
                .dims = "t",
                SERIES_TEXT(slot[k]),
                .label = v->matrix.weight.family ? NULL : v->matrix.weight.label};
            if (series_exists(p, v, k, back, parts, aligned))
                TRY(series_add(d, k, series, err, "rms_%s%s", f ? "f" : node_family(v),
                               slot[k].name));
        }
    }
    return aggregation_declare(d, fill_terms, err);
}

/* Fails unless a state that was read has all that splitting counts on, in the network's shapes. */
static int expect_arrays(const struct archive *archive, const struct net *net, const struct node *v,
                         const struct coordinate_matrix *m, bool aligned, struct err *err) {
    bool look = v->op->matrix == MATRIX_LOOK, read_out = v->op->matrix == MATRIX_READ_OUT;
    if (v->matrix.thin)
        TRY(archive_expect_like(archive, &m->W, array_all(&v->matrix.thin->W), err));
    if (aligned && !node_reads_no_rows(v))
        TRY(archive_expect_like(archive, &m->in, net->program->node[v->argument[0]].value, err));
    if ((look || read_out) && !m->s)
        return archive_misfit(archive, "numbers of the coordinate check are missing", err);
    if (look)
        return archive_expect_like(archive, &m->back, net->program->node[v->argument[0]].value,
                                   err);
    if (read_out)
        return archive_expect_like(archive, &m->back, array_all(&v->matrix.thin->W), err);
    if (v->matrix.map && !v->matrix.map->kind->initial)
        return CODE_OK;
    TRY(archive_expect_like(archive, &m->out, v->value, err));
    return v->matrix.map && has_back(v)
               ? archive_expect_like(archive, &m->back, node_part(net->program, v, 0)->value, err)
               : CODE_OK;
}

int coordinate_archive(struct coordinate *check, const struct net *net, bool aligned,
                       struct archive *archive, struct err *err) {
    const struct program *p = net->program;
    if (archive_reads(archive))
        TRY(begin_check(check, p->nodes, err));
    for (int i = 0; i < check->nodes; i++) {
        struct coordinate_matrix *m = &check->matrix[i];
        size_t count = (size_t)p->node[i].count * (size_t)p->node[i].K;
        TRY(archive_array(archive, &m->out, check->backend, err));
        TRY(archive_array(archive, &m->back, check->backend, err));
        TRY(archive_array(archive, &m->W, check->backend, err));
        TRY(archive_list(archive, &m->s, count, sizeof *m->s, err));
        if (aligned)
            TRY(archive_array(archive, &m->in, check->backend, err));
        if (archive_reads(archive) && is_matrix(&p->node[i]))
            TRY(expect_arrays(archive, net, &p->node[i], m, aligned, err));
    }
    return aggregation_archive(&check->aggregation, net, archive, err);
}

void coordinate_free(struct coordinate *check) {
    for (int i = 0; i < check->nodes && check->matrix; i++) {
        struct coordinate_matrix *m = &check->matrix[i];
        array_free(&m->out);
        array_free(&m->back);
        array_free(&m->W);
        array_free(&m->in);
        free(m->s);
    }
    free(check->matrix);
    aggregation_free(&check->aggregation);
    *check = (struct coordinate){0};
}
