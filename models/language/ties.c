/* Selections that begin with a tie, and the random limits that they make: the only place that
 * decides which limits are random.
 *
 * A selection takes the K largest of M numbers of an input. In the limit every look <Q_k x> is 0 at
 * the start; where no biases tell experts apart, the K-th largest logit is equal to the next one.
 * In a network, however wide, fluctuations of order N^-1/2 decide: those of the logits, and, in the
 * first step, those of the gradients of the gates, by which the logits move. Only their order
 * matters, not their size, so the choice does not become certain as N grows: the limit is a random
 * one, and each replicate is one draw of it. A replicate draws by the law of networks if its site
 * averages of order S^-1/2 have the law that averages of order N^-1/2 have in a network. All of
 * them that count are averages of one row of a forward pass with one of a backward pass, or with a
 * column of a look or of the read-out. Hence, in such a limit (net->gates.random),
 *
 *   - looks and the read-out are iid, and nothing is subtracted from looks (matrices.c);
 *   - what a matrix draws in a backward pass is conditioned on what the matrix has met, as it must
 *     be, but matched with nothing (population.h, loose). Normals of forward passes stay matched
 *     among themselves;
 *   - normals are independent, whatever [solver] draws says: averages of points, which fill space
 *     evenly, fluctuate less than those of a network;
 *   - a population has sites in proportion to its size, as a network has units (program_sites);
 *   - losses are means over replicates, as those of networks are means over networks.
 *
 * Networks are told as well: those of balanced draws have an iid read-out then. */
#include "models/engine/node.h"

bool program_tied(const double *x, int M, int K) {
    for (int i = 0; i < M; i++) {
        int larger = 0, equal = 0;
        for (int k = 0; k < M; k++) {
            larger += x[k] > x[i];
            equal += x[k] == x[i];
        }
        if (larger < K && larger + equal > K)
            return true;
    }
    return false;
}

size_t program_sites(const struct program *p, double relative) {
    const struct net_setup *setup = &p->net->setup;
    int parts =
        setup->limit.beside_halves ? 2 : 1; /* an even number, so that each half has exactly half */
    if (!p->net->gates.random)
        return (size_t)setup->limit.sites;
    return (size_t)fmax(parts, round(relative * setup->limit.sites / parts) * parts);
}

/* What is known of the numbers of a node at the start of the limit. */
struct start {
    double *x;       /* [K] */
    bool wanted;     /* it is asked for */
    bool known;      /* x is */
    bool fluctuates; /* a look whose matrix does not start at zero is among what they come from */
    bool moves;      /* so is one that learns */
};

/* Gives node i these numbers, one row of them. */
static void lay_out(struct program *p, int i, double *x, struct array *row) {
    struct node *v = &p->node[i];
    *row = (struct array){&backend_counted,
                          x,
                          .sites = (size_t)v->K,
                          .group = 1,
                          .rows = 1,
                          .capacity = 1,
                          .block = (size_t)v->K,
                          .width = (size_t)v->K,
                          .split = {.parts = 1, .end_part = 1, .blocks = 1, .end = 1}};
    v->value = array_all(row);
    v->s = x;
    v->count = 1;
}

/* Runs node i on one row, of a token of this kind. No numbers have a place yet. */
static void run_alone(struct program *p, int i, int kind, struct start *start) {
    const int at[] = {i, p->node[i].argument[0], p->node[i].argument[1]};
    struct node kept[3];
    struct array row[3];
    int *token = p->net->batch.token;
    for (int k = 0; k < 3; k++)
        if (at[k] >= 0)
            kept[k] = p->node[at[k]];
    for (int k = 0; k < 3; k++)
        if (at[k] >= 0)
            lay_out(p, at[k], start[at[k]].x, &row[k]);
    p->net->batch.token = &kind;
    p->node[i].op->forward(p->net, &p->node[i]);
    p->net->batch.token = token;
    for (int k = 0; k < 3; k++)
        if (at[k] >= 0)
            p->node[at[k]] = kept[k];
}

/* Finds the start of node i, for tokens of one of so many kinds, from that of its arguments. */
static void find_start(struct program *p, int i, int kind, int kinds, struct start *start) {
    static const struct start nothing;
    const struct node *v = &p->node[i];
    const int *from = v->argument;
    const struct start *a = from[0] < 0 ? &nothing : &start[from[0]],
                       *b = from[1] < 0 ? &nothing : &start[from[1]];
    bool look = v->op->matrix == MATRIX_LOOK && !v->matrix.use, pair = from[1] >= 0,
         same = v->op->traits & OP_SAME_AT_START && kinds == 1,
         can = v->op->traits & OP_BY_ROW || same;
    start[i].known = look || (can && (from[0] < 0 || a->known) && (!pair || b->known));
    start[i].fluctuates = look ? v->matrix.weight.a0 != 0 : a->fluctuates || b->fluctuates;
    start[i].moves = look ? !v->matrix.weight.fixed : a->moves || b->moves;
    if (start[i].known && same)
        memcpy(start[i].x, a->x, (size_t)v->K * sizeof *a->x);
    else if (start[i].known && !look)
        run_alone(p, i, kind, start);
}

/* Nodes of numbers that those of node `last` come from, in order, into list; returns how many. */
static int find_sources(const struct program *p, int last, struct start *start, int *list) {
    int count = 0;
    start[last].wanted = true;
    for (int i = last; i >= 0; i--)
        for (int k = 0; k < 2 && start[i].wanted; k++) {
            int from = p->node[i].argument[k];
            if (from >= 0 && !p->node[from].on)
                start[from].wanted = true;
        }
    for (int i = 0; i <= last; i++)
        if (start[i].wanted)
            list[count++] = i;
    return count;
}

/* Numbers of which gates are made, or some selected: what is known of them at the start of the
 * limit, of tokens of all kinds. */
struct selection {
    int K;        /* that are selected */
    bool of_rows; /* not among the numbers: of each, tokens are selected by its values there */
    bool above;   /* and only those where it is above 0 */
    bool bends;   /* and its slope differs there, so that what is exactly 0 has one */
    bool softmax; /* gates are a function of differences */
    bool known;   /* the numbers */
    bool tied;    /* fluctuations select the K largest */
    double gap;   /* the smallest difference that a gate depends on */
    double scale; /* the largest initial scale of a look among what they come from */
};

static double smallest_gap(const double *x, int M, const struct selection *selection) {
    double gap = INFINITY;
    for (int i = 0; i < M; i++) {
        gap = selection->softmax ? gap : fmin(gap, fabs(x[i]));
        for (int k = 0; k < i && (selection->softmax || selection->K < M); k++)
            gap = fmin(gap, fabs(x[i] - x[k]));
    }
    return gap;
}

/* Whether fluctuations decide between tokens of one kind, whose numbers are equal but for them:
 * also where a look starts at zero and learns, since the first step moves it by those of its
 * gradient. Whether a number is above 0 is decided by them where it is 0. */
static bool rows_tied(const struct start *start, int M, const struct selection *selection) {
    bool tied = !selection->above;
    for (int k = 0; k < M; k++)
        tied = tied || start->x[k] == 0;
    return tied && (start->fluctuates || (start->moves && !selection->bends));
}

/* Judges a selection among the numbers of node `last`. */
static int find_selection(struct program *p, int last, struct selection *selection,
                          struct err *err) {
    struct start *start = NULL;
    int *list = NULL, count = 0, kinds = 1, code = CODE_OK, M = p->node[last].K;
    selection->known = true;
    selection->gap = INFINITY;
    DO(base_alloc(&start, (size_t)last + 1, sizeof *start, err));
    DO(base_alloc(&list, (size_t)last + 1, sizeof *list, err));
    count = find_sources(p, last, start, list);
    for (int i = 0; i < count; i++) {
        const struct node *v = &p->node[list[i]];
        kinds = v->constant.groups > kinds ? v->constant.groups : kinds;
        if (v->op->matrix == MATRIX_LOOK)
            selection->scale =
                fmax(selection->scale, fabs(v->matrix.weight.a0 * v->matrix.weight.s_f));
        DO(base_alloc(&start[list[i]].x, (size_t)v->K, sizeof *start->x, err));
    }
    for (int kind = 0; kind < kinds; kind++) {
        for (int i = 0; i < count; i++)
            find_start(p, list[i], kind, kinds, start);
        selection->known = selection->known && start[last].known;
        if (start[last].known)
            selection->tied |=
                selection->of_rows
                    ? rows_tied(&start[last], M, selection)
                    : start[last].fluctuates && program_tied(start[last].x, M, selection->K);
        if (start[last].known)
            selection->gap = fmin(selection->gap, smallest_gap(start[last].x, M, selection));
    }
done:
    for (int i = 0; i < count; i++)
        free(start[list[i]].x);
    free(list);
    free(start);
    return code;
}

static void add_selection(struct program *p, struct value s, struct selection selection) {
    if (p->code || p->net->gates.tied)
        return;
    program_failed(p, find_selection(p, s.at, &selection, &p->err));
    p->net->gates.tied = selection.tied;
}

void program_selects(struct program *p, struct value s, int K) {
    if (node_given_numbers(p, "a selection", s) && K < node_of(p, s)->K)
        add_selection(p, s, (struct selection){.K = K});
}

void program_selects_rows(struct program *p, struct value s, int C, bool above) {
    if (!node_given_numbers(p, "a selection", s))
        return;
    const struct node *v = node_of(p, s);
    bool mask = v->op->jumps && v->op->jumps(p, s.at); /* what is 0 there is exactly so */
    if (above ? !mask : C < v->per)
        add_selection(p, s,
                      (struct selection){.K = node_of(p, s)->K, .of_rows = true, .above = above});
}

void program_bends(struct program *p, struct value s) {
    if (node_given_numbers(p, "a function of numbers", s))
        add_selection(p, s,
                      (struct selection){
                          .K = node_of(p, s)->K, .of_rows = true, .above = true, .bends = true});
}

void program_steep(struct program *p, double factor) {
    p->net->gates.steep = fmax(p->net->gates.steep, fabs(factor));
}

/* A fluctuation of logits changes gates by beta times it, or changes their order. */
void program_steep_gates(struct program *p, struct value s, double beta, bool softmax, int K) {
    struct selection selection = {.K = K, .softmax = softmax};
    if (!node_given_numbers(p, "a gate", s) || p->net->setup.N)
        return;
    program_failed(p, find_selection(p, s.at, &selection, &p->err));
    double sharp = selection.known ? fmin(fabs(beta), 1 / selection.gap) : fabs(beta);
    program_steep(p, fmax(1, selection.scale) * sharp);
}
