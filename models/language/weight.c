/* The numbers of a matrix: what its author gives, times what the settings say, and what is left of
 * both in the limit. */
#include "kernels/base/text.h"
#include "models/engine/node.h"

bool program_addresses(const char *given, const char *name) {
    size_t n = strlen(given);
    return !strncmp(given, name, n) && (!name[n] || name[n] == '_');
}

bool program_lists(const char *list, const char *name) {
    struct text_word word;
    while (list && text_next_word(&list, " \t", &word)) {
        char one[NET_NAME];
        snprintf(one, sizeof one, "%.*s", (int)word.length, word.text);
        if (word.length < sizeof one && program_addresses(one, name))
            return true;
    }
    return false;
}

/* The product of all lines for this matrix, of its own name and of common ones; of the limit
 * without the powers, whose sum is *power. */
static double product_of_settings(const struct program *p, const struct factor_list *list,
                                  const char *name, double *power) {
    int N = p->net->setup.N;
    double product = 1;
    *power = 0;
    for (int k = 0; list && k < list->count; k++) {
        const struct factor *factor = &list->factor[k];
        if (!program_addresses(factor->name, name))
            continue;
        product *= factor->factor * (N ? pow(N, factor->power) : 1);
        *power += N || factor->factor == 0 ? 0 : factor->power;
    }
    return product;
}

/* A number is c N^p of a power p that the width of the limit, N = 2^400, tells from c: a half where
 * c lies between 2^-40 and 2^40, else a third or a quarter where it lies between 2^-16 and 2^16. */
double weight_power(double number) {
    static const struct { double parts, most; } powers[] = {{2, 0.1}, {3, 0.04}, {4, 0.04}};
    if (number == 0)
        return -INFINITY;
    double exact = log2(fabs(number)) / log2(POPULATION_INFINITE);
    for (int k = 0; k < 3; k++) {
        double near = round(powers[k].parts * exact) / powers[k].parts;
        if (fabs(exact - near) <= powers[k].most)
            return near;
    }
    return exact;
}

enum order { VANISHES, STAYS };
/* What becomes of a power of N; one that grows is refused. */
static enum order order_of(struct program *p, const char *what, const char *section,
                           const struct weight *W, double power) {
    if (power > 1e-9)
        program_fail(
            p,
            "the %s of matrix %s grows as N^%.3g, so that there is no limit: its power of "
            "N must be 0 at most (lower it in [%s] or choose another [network] "
            "parameterization; finite networks alone, [solver] replicates = 0, may have it)",
            what, TEXT_SHOWN_OF(W), power, section);
    return power < -1e-9 ? VANISHES : STAYS;
}

double weight_initial(struct program *p, const struct node *node, double largest) {
    double power = node->matrix.power + weight_power(largest), a0 = node->matrix.weight.a0;
    if (p->net->setup.N)
        return a0;
    if (order_of(p, "initial scale", "init", &node->matrix.weight, power) == STAYS)
        return a0 * pow(POPULATION_INFINITE, node->matrix.power);
    return node->matrix.power < 0 ? a0 / POPULATION_INFINITE : a0;
}

double weight_column(struct program *p, const struct node *node) {
    double used = node->matrix.weight.s_f,
           left = used * weight_initial(p, node, used * node->matrix.weight.a0);
    return p->net->setup.N || weight_power(left) >= 0 ? left : 0;
}

/* What the limit leaves of a rate. */
static double rate_left(struct program *p, const struct weight *W, double rate, double power) {
    if (p->net->setup.N)
        return rate;
    bool stays = order_of(p, "learning rate", "rates", W, power + weight_power(rate)) == STAYS;
    return stays ? rate * pow(POPULATION_INFINITE, power) : 0;
}

/* What the limit leaves of the eps of Adam, which must be neither nothing nor all that there is. */
static double eps_left(struct program *p, const struct weight *W, double eps, double power) {
    double left = power + weight_power(eps);
    if (p->net->setup.N || power == 0)
        return eps;
    if (fabs(left) > 1e-9)
        program_fail(p,
                     "Adam's eps of matrix %s goes as N^%.3g beside its gradient: in the limit its "
                     "power of N in [eps] must be 0 (finite networks alone, [solver] replicates "
                     "= 0, may have another)",
                     TEXT_SHOWN_OF(W), left);
    return eps * pow(POPULATION_INFINITE, power);
}

/* Refuses numbers of a network, which may have any power of N, beyond all arithmetic. */
static void check_numbers(struct program *p, const struct weight *W) {
    double start = fabs(W->a0 * W->s_f);
    bool rates = isfinite(W->rate) && isfinite(W->adam_rate) && isfinite(W->adam_eps) &&
                 isfinite(W->muon_rate);
    if (p->net->setup.N && !(start < 1e24))
        program_fail(p, "the initial scale of matrix %s is %.3g: it must be below 1e24 ([init])",
                     TEXT_SHOWN_OF(W), start);
    if (p->net->setup.N && !rates)
        program_fail(p,
                     "the learning rate or eps of matrix %s is too large for a number ([rates], "
                     "[eps])",
                     TEXT_SHOWN_OF(W));
}

/* The part of weight decay that acts on a matrix: none in a limit where it falls with the width. */
static double decays_left(struct program *p, const struct node *node) {
    const struct net_setup *setup = &p->net->setup;
    const struct weight *W = &node->matrix.weight;
    bool by_kind = node->op->matrix != MATRIX_NONE && node->op->matrix != MATRIX_VECTOR;
    double power, factor = product_of_settings(p, setup->decays, W->name, &power),
                  part = factor * (W->decays == 0 ? by_kind : fmax(W->decays, 0));
    power = part == 0 ? 0 : power + weight_power(part);
    if (!setup->N && order_of(p, "weight decay", "decays", W, power) == VANISHES)
        return 0;
    part *= setup->N || part == 0 ? 1 : pow(POPULATION_INFINITE, power - weight_power(part));
    if (setup->training.weight_decay * part > 1)
        program_fail(p,
                     "a step would take %.3g times matrix %s, and can take all of it at most: "
                     "lower [training] weight_decay (%g) or its factor of that (%.3g, by [decays] "
                     "or decays)",
                     setup->training.weight_decay * part, TEXT_SHOWN_OF(W),
                     setup->training.weight_decay, part);
    return part;
}

bool weight_settle(struct program *p, struct node *node) {
    const struct net_setup *setup = &p->net->setup;
    struct weight *W = &node->matrix.weight;
    struct matrix *matrix = program_grow(p, NET_END(p->net->matrices));
    if (!matrix)
        return false;
    *matrix =
        (struct matrix){.name = W->name, .label = W->label, .fixed = W->fixed, .zero = W->zero};
    double *ones[] = {&W->s_f, &W->rate, &W->adam_rate, &W->adam_eps}, power;
    W->muon_rate = W->muon_rate ? W->muon_rate : weight_or_one(W->adam_rate);
    for (size_t k = 0; k < sizeof ones / sizeof *ones; k++)
        *ones[k] = weight_or_one(*ones[k]);
    W->a0 = W->zero ? 0 : weight_or_one(W->a0);
    W->a0 *= product_of_settings(p, setup->init, W->name, &node->matrix.power);
    double factor = product_of_settings(p, setup->rates, W->name, &power);
    node->matrix.decays = factor ? decays_left(p, node) : 0;
    matrix->decays = node->matrix.decays > 0;
    check_numbers(p, W);
    if (W->fixed)
        return !p->code;
    bool map = node->op->matrix == MATRIX_MAP;
    const struct optimizer *optimizer = net_optimizer(setup, map ? W->name : NULL);
    double *rate = !optimizer_normalises(optimizer) ? &W->rate
                   : optimizer->matrices            ? &W->muon_rate
                                                    : &W->adam_rate;
    *rate = rate_left(p, W, *rate * factor, power);
    factor = product_of_settings(p, setup->eps, W->name, &power);
    W->adam_eps = eps_left(p, W, W->adam_eps * factor, power);
    W->fixed = *rate == 0;
    check_numbers(p, W);
    return !p->code;
}

/* The first node before `last` that has the tied matrix of this name; NULL: there is none. */
static const struct node *first_use(const struct program *p, const struct node *last,
                                    const char *name) {
    const struct node *v = p->node;
    while (v < last && !(v->matrix.written.tied && !strcmp(v->matrix.written.name, name)))
        v++;
    return v < last ? v : NULL;
}

static bool numbers_alike(const struct weight *a, const struct weight *b) {
    return a->a0 == b->a0 && a->s_f == b->s_f && a->rate == b->rate &&
           a->adam_rate == b->adam_rate && a->adam_eps == b->adam_eps && a->zero == b->zero &&
           a->fixed == b->fixed && a->decays == b->decays;
}

/* Makes node a use of the matrix of `first`. */
static void use_again(struct program *p, struct node *node, const struct node *first,
                      struct weight W) {
    if (node->count != first->count)
        program_fail(p, "the tied matrix %s has %d and %d rows of each input", TEXT_SHOWN_OF(&W),
                     first->per, node->per);
    if (!numbers_alike(&W, &first->matrix.written))
        program_fail(p, "the tied matrix %s has other numbers where it is used again",
                     TEXT_SHOWN_OF(&W));
    const char *label = first->matrix.written.label;
    if (W.label && (!label || strcmp(W.label, label) != 0))
        program_fail(p,
                     "the tied matrix %s has another label where it is used again; give one label, "
                     "where the matrix is used first",
                     TEXT_SHOWN_OF(&first->matrix.written));
    node->matrix = first->matrix;
    node->matrix.written = W;
}

bool weight_tied_thin(struct program *p, struct node *node, const struct population *on,
                      struct weight W) {
    const struct node *first = W.tied && !p->code ? first_use(p, node, W.name) : NULL;
    if (!first && W.tied && node->op->matrix != MATRIX_EMBED)
        program_fail(p, "matrix %s: %s is tied to an embedding of this name, which must come first",
                     TEXT_SHOWN_OF(&W), node->op->name);
    if (!first)
        return false;
    if (!first->matrix.thin) {
        program_fail(p, "%s of the tied matrix %s, which is a map", node->op->name,
                     TEXT_SHOWN_OF(&W));
        return true;
    }
    if (first->on != on || first->K != node->K) {
        program_fail(p, "%s of the tied matrix %s, which must have %d numbers on %s",
                     node->op->name, TEXT_SHOWN_OF(&W), first->K, TEXT_SHOWN_OF(first->on));
        return true;
    }
    use_again(p, node, first, W);
    node->matrix.start = NULL;
    node->matrix.use = first->matrix.thin->uses++;
    if (node->op->matrix != MATRIX_EMBED)
        node->matrix.weight.family = program_name(p, "%s_%s", W.name, node->op->name);
    return true;
}

bool weight_tied(struct program *p, struct node *node, struct population *target, struct weight W) {
    const struct node *first = W.tied && !p->code ? first_use(p, node, W.name) : NULL;
    if (!first)
        return false;
    if (!first->matrix.map) {
        program_fail(p, "the tied matrix %s is an embedding, and cannot be a map",
                     TEXT_SHOWN_OF(&W));
        return true;
    }
    const struct map_declaration *map = &first->matrix.map->declared;
    if (node->on != map->source || target != map->target)
        program_fail(p, "the tied matrix %s maps %s to %s, and cannot map %s to %s",
                     TEXT_SHOWN_OF(&W), TEXT_SHOWN_OF(map->source), TEXT_SHOWN_OF(map->target),
                     TEXT_SHOWN_OF(node->on), TEXT_SHOWN_OF(target));
    use_again(p, node, first, W);
    node->matrix.use = node->matrix.map->declared.uses++;
    node->on = target;
    return true;
}
