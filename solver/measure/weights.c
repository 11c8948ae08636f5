/* The matrices of networks as they are used, [output] weights, run by run: first, last, both, or at
 * all times. The limit has none.
 *
 *     weights_NAME       between populations    [target][source]     (W x)_i = sum_j W_ij x_j
 *                        a read-in              [site][k]            sum_k W_ik A_mu,k
 *                        a look                 [k][site]            <Q_k x>, a mean over sites
 *                        the read-out           [output][site]       f_c = <w_c h>/gamma0 - f_c(0)
 *                        a bias                 [k], [set][k]        s_k + b_k
 *     weights_NAME_rest  a read-in              [site][direction]    columns of what test inputs
 *                                                                    alone have; they never learn
 *
 * A are the coordinates of the inputs (config_coordinates), in the file /data/coordinates. A tied
 * matrix is there once. */
#include "solver/measure/instrument.h"
#include "models/engine/node.h"

/* What a node writes: its matrix, and of a read-in the columns of what test inputs alone have. */
enum slot { WHOLE, REST, SLOTS };
enum form { MAP, READ_IN, EMBED, LOOK, READ_OUT, BIAS, UNSEEN, VECTOR };
static const struct {
    const char *about, *equation;
} forms[] = {
    [MAP] = {"matrix between populations, as it is used", "(W x)_i = sum_j W_ij x_j"},
    [READ_IN] = {"read-in, as it is used on A, the coordinates of the inputs",
                 "h_mu,i = sum_k W_ik A_mu,k"},
    [EMBED] = {"a vector for each number, as it is used", "h_i = sum_k W_ik s_k"},
    [LOOK] = {"matrix from a population to numbers, as it is used", "s_k = <Q_k x>"},
    [READ_OUT] = {"read-out, as it is used", "f_c = <w_c h>/gamma0 - f_c(0)"},
    [BIAS] = {"numbers that are added", "s_k + b_k"},
    [UNSEEN] = {"what the read-in does with directions that test inputs alone have, the last of "
                "their coordinates",
                "sum_k W_ik A_nu,K+k"},
    [VECTOR] = {"a trained number at each site", "v_i"},
};

static enum form form_of(const struct node *v, enum slot slot) {
    switch (v->op->matrix) {
    case MATRIX_MAP:
        return MAP;
    case MATRIX_EMBED:
        return EMBED;
    case MATRIX_READ_IN:
        return slot == WHOLE ? READ_IN : UNSEEN;
    case MATRIX_VECTOR:
        return VECTOR;
    case MATRIX_LOOK:
        return LOOK;
    case MATRIX_READ_OUT:
        return READ_OUT;
    default:
        return BIAS;
    }
}

/* Targets and sources of a part, 0 sources of one set of numbers; false: there is no such part. The
 * net may be declared alone. */
static bool shape_of(const struct net *net, const struct node *v, enum slot slot, size_t shape[2]) {
    enum form form = form_of(v, slot);
    size_t K = (size_t)(form == UNSEEN ? net->setup.data.test_directions : v->K);
    if (form == MAP) {
        shape[0] = v->matrix.map->declared.target->sites;
        shape[1] = v->matrix.map->declared.source->sites;
    } else if (form == VECTOR) {
        shape[0] = v->on->sites;
        shape[1] = 0;
    } else if (form == BIAS) {
        shape[0] = v->constant.groups > 1 ? (size_t)v->constant.groups : K;
        shape[1] = v->constant.groups > 1 ? K : 0;
    } else {
        bool in = form == READ_IN || form == UNSEEN || form == EMBED;
        shape[0] = in ? v->on->sites : K;
        shape[1] = in ? K : net->program->node[v->argument[0]].on->sites;
    }
    return K > 0 || form == MAP ? slot == WHOLE || form == UNSEEN : false;
}

/* W [K] columns over sites into out [site][K]. */
static int transpose_columns(struct rows W, double *out, struct err *err) {
    size_t K = (size_t)W.count, sites = W.array->sites;
    SCRATCH(double, column, sites);
    for (size_t k = 0; k < K; k++) {
        W.array->backend->get(rows_part(W, (int)k, 1), column);
        for (size_t i = 0; i < sites; i++)
            out[i * K + k] = column[i];
    }
    return CODE_OK;
}

/* item: the node. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct node *v = &m->net->program->node[m->item];
    size_t shape[2];
    if (!out[WHOLE]) /* not a time that is kept */
        return CODE_OK;
    switch (form_of(v, WHOLE)) {
    case MAP:
        return v->matrix.map->kind->matrix(v->matrix.map, out[WHOLE], err);
    case EMBED:
    case READ_IN:
        if (out[REST])
            TRY(transpose_columns(array_all(&v->matrix.unseen->W), out[REST], err));
        return transpose_columns(array_all(&v->matrix.thin->W), out[WHOLE], err);
    case BIAS:
        shape_of(m->net, v, WHOLE, shape);
        memcpy(out[WHOLE], v->matrix.start,
               shape[0] * (shape[1] ? shape[1] : 1) * sizeof *v->matrix.start);
        return CODE_OK;
    default:
        m->net->setup.backend->get(array_all(&v->matrix.thin->W), out[WHOLE]);
        return CODE_OK;
    }
}

/* Axes have names of their own, since those of a group have one extent each. */
static int add_weights(const struct declaring *d, const struct node *v, enum slot slot,
                       enum series_times times, struct err *err) {
    enum form form = form_of(v, slot);
    const char *name = v->matrix.weight.name, *first = d->record->times[times].axis,
               *rest = slot == REST ? "_rest" : "";
    size_t shape[2];
    char dims[256];
    if (!shape_of(d->net, v, slot, shape))
        return CODE_OK;
    const struct series series = {.dims = dims,
                                  SERIES_TEXT(forms[form]),
                                  .label = v->matrix.weight.label,
                                  .times = times,
                                  .runs_alone = true,
                                  .shape = {0, shape[0], shape[1]}};
    if (shape[1])
        snprintf(dims, sizeof dims, "%s %.32s_target %.32s%s_source", first, name, name, rest);
    else
        snprintf(dims, sizeof dims, "%s %.32s_target", first, name);
    return series_add(d, slot, series, err, "weights_%.32s%s", name, rest);
}

/* The times that are kept, into the record. */
static enum series_times choose_times(struct record *record, int weights) {
    struct int_list *list = &record->times[TIMES_WEIGHTS].list;
    int last = record->T - 1;
    if (weights == WEIGHTS_ALL)
        return TIMES_ALL;
    *list = (struct int_list){1, {weights == WEIGHTS_FINAL ? last : 0}};
    if (weights == WEIGHTS_BOTH && last)
        list->value[list->count++] = last;
    return TIMES_WEIGHTS;
}

int weights_declare(const struct declaring *d, struct err *err) {
    const struct program *p = d->net->program;
    if (d->config->output.weights == WEIGHTS_NONE || !d->net->setup.N)
        return CODE_OK;
    enum series_times times = choose_times(d->record, d->config->output.weights);
    for (int i = 0; i < p->nodes; i++) {
        if (!node_begins_matrix(&p->node[i]))
            continue;
        TRY(record_fill_by(d->record, fill, i, SLOTS, err));
        for (enum slot slot = WHOLE; slot < SLOTS; slot++)
            TRY(add_weights(d, &p->node[i], slot, times, err));
    }
    return CODE_OK;
}
