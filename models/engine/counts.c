/* Counts of parameters and of operations, from the program alone.
 *
 * Of each value two things are found: where it can be other than 0 (`full`, forward from masks),
 * and where something reads it (`read`, backward from the output). Both are a share of its sites
 * (or numbers) in every row, and a share of the rows: a mask over many experts leaves out sites, a
 * gate that multiplies all that one expert makes leaves out rows. */
#include "models/engine/counts.h"
#include "models/engine/node.h"

struct share {
    double sites, rows;
};
struct shares {
    struct share full, read;
};
static const struct share whole = {1, 1};

static struct share smaller_share(struct share a, struct share b) {
    return (struct share){fmin(a.sites, b.sites), fmin(a.rows, b.rows)};
}

static bool keeps_zero(const struct node *v) {
    return v->op->keeps_zero ? v->op->keeps_zero(v) : v->op->zeros == ZEROS_OF_FIRST;
}

/* What argument k leaves of rows that it multiplies: of numbers, which multiply whole rows, each is
 * 0 in so many of them. */
static struct share factor_share(const struct program *p, const struct shares *shares,
                                 const struct node *v, int k) {
    int at = v->argument[k];
    if (at < 0)
        return whole;
    struct share full = shares[at].full;
    bool numbers = v->on && !p->node[at].on;
    return numbers ? (struct share){1, full.sites * full.rows} : full;
}

static struct share full_of(const struct program *p, const struct shares *shares,
                            const struct node *v) {
    struct share a = factor_share(p, shares, v, 0), b = factor_share(p, shares, v, 1);
    double top;
    switch (v->op->zeros) {
    case ZEROS_OF_FIRST:
        return keeps_zero(v) ? a : whole;
    case ZEROS_OF_EITHER:
        return smaller_share(a, b);
    case ZEROS_OF_BOTH:
        return (struct share){fmin(1, a.sites + b.sites), fmin(1, a.rows + b.rows)};
    case ZEROS_OF_RULE:
        top = node_selects(v) / (v->on ? (double)v->on->sites : v->K);
        return top > 0 ? (struct share){top, 1} : keeps_zero(v) ? a : whole;
    case ZEROS_OF_TOKENS:
        return (struct share){node_selects(v) / v->per, 1};
    default:
        return (struct share){1, v->op->matrix == MATRIX_MAP ? a.rows : 1};
    }
}

/* What is read of argument k where so much of the value is. */
static struct share read_of(const struct program *p, const struct shares *shares,
                            const struct node *v, int k, struct share read) {
    switch (v->op->zeros) {
    case ZEROS_OF_FIRST:
    case ZEROS_OF_BOTH:
        return read;
    case ZEROS_OF_EITHER:
        return smaller_share(read, factor_share(p, shares, v, 1 - k));
    default:
        return (struct share){read.rows > 0,
                              v->op->matrix == MATRIX_MAP ? read.rows : read.rows > 0};
    }
}

static void find_shares(const struct program *p, struct shares *shares) {
    for (int i = 0; i < p->nodes; i++) {
        bool ends = i == p->output || (p->node[i].op->traits & OP_STARTS_BACKWARD);
        shares[i] = (struct shares){full_of(p, shares, &p->node[i]), {ends, ends}};
    }
    for (int i = p->nodes - 1; i >= 0; i--)
        for (int k = 0; k < 2; k++) {
            const struct node *v = &p->node[i];
            if (v->argument[k] < 0)
                continue;
            struct share *read = &shares[v->argument[k]].read,
                         more = read_of(p, shares, v, k, shares[i].read);
            *read = (struct share){fmax(read->sites, more.sites), fmax(read->rows, more.rows)};
        }
}

/* Whether a node says which sites, numbers or tokens are selected. */
static bool is_selection(const struct node *v) {
    return !operation_has_adjoint(v->op) && node_selects(v) > 0;
}

/* Whether what a node has is made of selections and of constants alone. */
static bool is_counted(const struct program *p, const struct node *v) {
    bool some = false;
    for (int k = 0; k < 2; k++) {
        const struct node *a = v->argument[k] < 0 ? NULL : &p->node[v->argument[k]];
        if (a && !a->plan.counted && !(a->op->traits & OP_CONSTANT))
            return is_selection(v);
        some = some || (a && a->plan.counted);
    }
    return is_selection(v) || (some && !(v->op->traits & OP_LEARNS));
}

static bool leaves_out(struct share share) {
    return share.sites < 1 || share.rows < 1;
}

int counts_mark(struct net *net, struct err *err) {
    const struct program *p = net->program;
    SCRATCH(struct shares, shares, (size_t)p->nodes);
    find_shares(p, shares);
    for (int i = 0; i < p->nodes; i++) {
        struct node_plan *plan = &p->node[i].plan;
        plan->counted = is_counted(p, &p->node[i]);
        plan->left_out = leaves_out(shares[i].full);
        plan->left_out_g = leaves_out(shares[i].read);
    }
    return CODE_OK;
}

bool counts_counted(const struct net *net, int node, bool gradient) {
    return node >= 0 && !gradient && net->program->node[node].plan.counted;
}

bool counts_left_out(const struct net *net, int node, bool gradient) {
    const struct node_plan *plan = node < 0 ? NULL : &net->program->node[node].plan;
    return plan && (gradient ? plan->left_out_g : plan->left_out);
}

/* Adds a matrix, or biases, and what one of its uses costs. */
static void add_matrix(struct net_counts *counts, const struct program *p, int i,
                       const struct shares *shares, int dimension) {
    const struct node *v = &p->node[i];
    const struct node *x = v->argument[0] < 0 ? NULL : &p->node[v->argument[0]];
    struct share full = x ? shares[v->argument[0]].full : whole, read = shares[i].read;
    bool bias = v->op->matrix == MATRIX_NONE, learns = !v->matrix.weight.fixed;
    bool inputs = v->op->matrix == MATRIX_READ_IN, embeds = v->op->matrix == MATRIX_EMBED;
    double columns = x && x->on               ? (double)x->on->sites
                     : inputs                 ? dimension
                     : embeds                 ? v->K
                     : v->constant.groups > 1 ? v->constant.groups
                                              : 1,
           rows = v->on ? (double)v->on->sites : v->K, used = rows * read.sites;
    if (!bias)
        used *= columns * full.sites * fmin(full.rows, read.rows);
    if (learns && node_begins_matrix(v)) {
        counts->parameters += rows * columns;
        counts->active += used;
    }
    if (!bias)
        counts->flops_per_step += 2 * used * v->count * (1 + learns + (x && x->plan.moves));
}

/* Products over pairs of tokens: one for each pair and site or number, and twice as
 * many backward. */
static void add_pairs(struct net_counts *counts, const struct net *net, const struct node *v) {
    const struct node *x = &net->program->node[v->argument[1]];
    double n = net->setup.data.n, width = x->on ? (double)x->on->sites : x->K;
    counts->flops_per_step += 2.0 * net->setup.data.P * n * n * width * (1 + 2 * v->plan.moves);
}

static int count_work(const struct net *net, struct net_counts *counts, struct err *err) {
    const struct program *p = net->program;
    struct shares *shares;
    TRY(base_alloc(&shares, (size_t)p->nodes, sizeof *shares, err));
    find_shares(p, shares);
    for (int i = 0; i < p->nodes; i++) {
        if (p->node[i].matrix.weight.name)
            add_matrix(counts, p, i, shares, net->setup.data.D);
        else if (p->node[i].op->traits & OP_OVER_PAIRS)
            add_pairs(counts, net, &p->node[i]);
    }
    free(shares);
    counts->flops_per_token = counts->flops_per_step / net->batch.rows;
    return CODE_OK;
}

int net_counts_of(const struct net_setup *setup, struct net_counts *counts, struct err *err) {
    FREED(net_free) struct net net = {0};
    *counts = (struct net_counts){0};
    TRY(net_declare(&net, setup, err));
    return count_work(&net, counts, err);
}
