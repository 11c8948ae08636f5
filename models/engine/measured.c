/* What a program measures: kernels, numbers and averages, in the normalisation of the pages. */
#include "models/engine/node.h"

void program_add_kernel(struct program *p, struct kernel kernel, const char *name) {
    if (!p->code && (kernel.node == -1 || (kernel.node >= 0 && !p->node[kernel.node].on)))
        program_fail(p, "kernel %s is not of rows", name);
    struct kernel *added = program_grow(p, NET_END(p->net->kernels));
    if (!added)
        return;
    *added = kernel;
    snprintf(added->name, sizeof added->name, "%s", name);
    if (kernel.node < 0)
        return;
    struct node *node = &p->node[kernel.node];
    *(!kernel.gradient  ? &node->plan.measured
      : kernel.as_it_is ? &node->plan.kept_g
                        : &node->plan.measured_g) = true;
    if (kernel.gradient)
        added->scale /= node->on->cotangent_scale * node->on->cotangent_scale;
}

void program_kernel(struct program *p, struct value x, double scale, const char *name,
                    const char *about, const char *equation) {
    program_add_kernel(p, (struct kernel){"", about, equation, .scale = scale, .node = x.at}, name);
}

void program_gradient(struct program *p, struct value x, double scale, const char *name,
                      const char *about, const char *equation) {
    program_add_kernel(
        p, (struct kernel){"", about, equation, .scale = scale, .node = x.at, .gradient = true},
        name);
}

void program_read_out_kernel(struct program *p, const char *name, const char *about,
                             const char *equation) {
    program_add_kernel(p,
                       (struct kernel){"", about, equation, .scale = 1, .for_all_inputs = true,
                                       .node = KERNEL_OF_READ_OUT},
                       name);
}

/* values [first][second], or [first] where dims name one axis besides t. */
static void add_numbers(struct program *p, struct numbers numbers, const char *name) {
    struct numbers *added = program_grow(p, NET_END(p->net->numbers));
    if (!added)
        return;
    *added = numbers;
    for (const char *at = numbers.dims; *at; at++)
        added->axes += *at == ' ';
    snprintf(added->name, sizeof added->name, "%s", name);
}

/* Adds an axis of tokens; the words outlive the program. */
static const char *with_tokens(const char *dims) {
    static const char *const known[][2] = {{"t mu", "t mu token"},
                                           {"t mu i", "t mu token i"},
                                           {"t mu j", "t mu token j"},
                                           {"t mu source", "t mu token source"}};
    size_t k = 0;
    while (strcmp(known[k][0], dims)) {
        k++;
        assert(k < sizeof known / sizeof *known);
    }
    return known[k][1];
}

static void show_numbers(struct program *p, struct value s, bool gradient, struct numbers numbers,
                         const char *name) {
    if (p->code)
        return;
    const struct node *node = &p->node[s.at];
    numbers.gradient = gradient;
    numbers.node = s.at;
    numbers.shape[0] = p->net->setup.data.P;
    numbers.shape[1] = node->K;
    if (node->per > 1) {
        numbers.dims = with_tokens(numbers.dims);
        numbers.shape[1] = node->per;
        numbers.shape[2] = node->K;
    }
    add_numbers(p, numbers, name);
}

void program_show(struct program *p, struct value s, const char *dims, const char *name,
                  const char *about, const char *equation) {
    show_numbers(p, s, false, (struct numbers){.dims = dims, .about = about, .equation = equation},
                 name);
}

void program_show_gradient(struct program *p, struct value s, const char *dims, const char *name,
                           const char *about, const char *equation) {
    show_numbers(p, s, true, (struct numbers){.dims = dims, .about = about, .equation = equation},
                 name);
}

bool node_shown(const struct net *net, int i, bool gradient) {
    for (int k = 0; k < net->numbers.count && !net->setup.measure.no_inputs; k++)
        if (net->numbers.item[k].node == i && net->numbers.item[k].gradient == gradient)
            return true;
    return false;
}

/* The `width` numbers of element `index`, of a series that is there, or is added. */
static double *series_element(struct program *p, struct numbers numbers, size_t width, int index,
                              const char *name) {
    for (int k = 0; k < p->net->numbers.count && !p->code; k++)
        if (!strcmp(p->net->numbers.item[k].name, name))
            return p->net->numbers.item[k].values + (size_t)index * width;
    if (p->code || program_failed(p, net_vector(p->net, (size_t)numbers.shape[0], width,
                                                &numbers.values, &p->err)))
        return NULL;
    add_numbers(p, numbers, name);
    return numbers.values + (size_t)index * width;
}

double *program_series(struct program *p, const char *dims, int count, int index, const char *name,
                       const char *about, const char *equation) {
    return series_element(p,
                          (struct numbers){"", dims, about, equation, .shape = {count}, .node = -1},
                          1, index, name);
}

double *program_counted(struct program *p, const char *dims, int count, int index, const char *name,
                        const char *about, const char *equation) {
    return series_element(
        p,
        (struct numbers){"", dims, about, equation, .shape = {count}, .node = -1, .counted = true},
        1, index, name);
}

double *program_series_of(struct program *p, struct value x, int count, int index, const char *name,
                          const char *about, const char *equation) {
    int P = p->net->setup.data.P, per = p->code ? 1 : p->node[x.at].per;
    const char *dims = per > 1 ? "t l mu token" : "t l mu";
    return series_element(
        p, (struct numbers){"", dims, about, equation, .shape = {count, P, per}, .node = -1},
        (size_t)P * (size_t)per, index, name);
}

void program_measure(struct program *p, struct value x, bool gradient, int power, double *out) {
    double scale = 1;
    struct measure *added = program_grow(p, &p->measure, &p->measures, sizeof *added);
    if (!added)
        return;
    for (int k = 0; k < power && gradient; k++)
        scale /= p->node[x.at].on->cotangent_scale;
    *added = (struct measure){x.at, gradient, power, scale, out, false};
}

/* Whether rows are made of exponentials of what matrices write: they have no bound. */
static bool has_exponential(struct program *p, int last) {
    bool *reached = program_memory(p, (size_t)p->nodes * sizeof *reached);
    if (!reached)
        return false;
    reached[last] = true;
    for (int i = last; i >= 0; i--) {
        const struct node *v = &p->node[i];
        if (!reached[i] || v->matrix.map || !v->on)
            continue;
        if ((v->op->traits & OP_FUNCTION) && v->constant.fn == FN_EXP)
            return true;
        for (int k = 0; k < 2; k++)
            if (v->argument[k] >= 0)
                reached[v->argument[k]] = true;
    }
    return false;
}

void program_gates(struct program *p, struct value phi, struct value psi, struct gate_rule rule) {
    if (p->code)
        return;
    p->gates = phi.at;
    p->logits = psi.at;
    p->net->gates.rule = rule;
    p->net->gates.condenses = has_exponential(p, phi.at);
    if (psi.at >= 0)
        p->node[psi.at].plan.measured |= p->net->setup.measure.router;
    p->node[phi.at].plan.measured = p->net->gates.present = true;
}

void program_aggregation(struct program *p, struct value x1, struct value phi, double scale,
                         struct gate_rule rule) {
    p->mixture = (struct mixture){.x1 = x1.at, .phi = phi.at, .scale = scale, .rule = rule};
}

void program_expert(struct program *p, struct value s2, size_t experts) {
    struct mixture *mixture = &p->mixture;
    int *added = program_grow(p, &mixture->s2, &mixture->rows, sizeof *added);
    if (!added)
        return;
    *added = s2.at;
    mixture->experts = experts;
}
