#include "models/parts/block.h"
#include "models/language/operation.h"

#include <gsl/gsl_cdf.h>
#include <jansson.h>

const struct param_row balance_rows[] = {
    {"eta_bias", PARAM_REAL, NETWORK_KEY(routing.eta_bias), "0", 0, 1e6, NULL, NULL,
     "Learning rate of selection biases, which balance experts with rho < 1: each step takes "
     "b -= eta_bias (load - rho)."},
    {"balance_loss", PARAM_REAL, NETWORK_KEY(routing.balance_loss), "0", 0, 1e6, NULL, NULL,
     "Coefficient of the load-balancing loss, used with rho < 1: the mean over experts of "
     "load/rho, times M times the mean share of the expert in the gates."},
    {"z_loss", PARAM_REAL, NETWORK_KEY(routing.z_loss), "0", 0, 1e6, NULL, NULL,
     "Coefficient of the router z-loss: the mean over inputs of log(s)^2, s the sum of "
     "exp(beta psi) over experts (with many experts, their mean)."},
    {"softmax_over", PARAM_CHOICE, NETWORK_KEY(routing.softmax_over), "selected", 0, 0,
     "selected all", "gate=softmax",
     "Experts over which softmax gates add up to 1 when rho < 1.\n"
     "  selected: the selected experts\n"
     "  all: all experts, before the selection"},
    {"bias_draws", PARAM_CHOICE, NETWORK_KEY(routing.bias_draws), "normal", 0, 0,
     "normal stratified", NULL,
     "How the initial selection biases are chosen.\n"
     "  normal: from a normal distribution, anew for each replicate or seed\n"
     "  stratified: as equidistant quantiles of that distribution, one for each expert"},
    {0},
};

struct balance {
    size_t K, experts;
    double rho, eta_bias;
    bool sign;
    const double *start;        /* [sites] b(0) */
    struct rows b, q;           /* experts [1], [R]: biases, if any, scores + b; no given masks */
    struct rows load, largest;  /* [1]: mean_mu m - rho, and the mask of the largest */
    struct rows last;           /* [R] of the last evaluation */
    double *less, *changed;     /* [R] for averages, which come late from a device */
    double *qstar, *b2;         /* of rows: [R] thresholds, variance of b; of selections by b */
    double *load2, *loads;      /* spread of the loads of rows; those of numbers [sites] */
    double *most, *flips, mean; /* mean of b */
};

/* How many sites the averages of these rows are means over: those of numbers are sums. */
static double averaged_sites(struct rows rows) {
    return rows.array->backend->counted ? 1 : (double)rows.array->sites;
}

/* The share of the k-th of E stratified experts. Those of finite width are samples as their units
 * are: of two halves one has the even and the other the odd quantiles of the whole, which has the
 * first half of them first. */
static double share_of(const struct net_setup *setup, int k, int E) {
    bool halved = !setup->N && !network_keeps_nodes(setup->network);
    if (halved && setup->limit.half_number)
        return (2 * k + setup->limit.half_number - 0.5) / (2 * E);
    if (halved && setup->limit.beside_halves)
        k = k < E / 2 ? 2 * k : 2 * k - E + 1;
    return (k + 0.5) / E;
}

void balance_biases(const struct net_setup *setup, int l, int E, double *values) {
    const struct network *network = setup->network;
    struct rng_stream stream = {.seed = setup->seed,
                                .replicate = (uint32_t)setup->replicate,
                                .owner = (uint32_t)l,
                                .purpose = PURPOSE_BIAS,
                                .first_pair = net_first_pair(setup, (size_t)E)};
    double pair[2];
    for (int k = 0; k < E; k++) {
        rng_normal_pair(stream, 0, (uint32_t)k / 2, pair);
        values[k] =
            network->routing.bias_std * (network->routing.bias_draws == BIAS_NORMAL
                                             ? pair[k % 2]
                                             : gsl_cdf_ugaussian_Pinv(share_of(setup, k, E)));
    }
}

/* Asks for loads and flips of masks m; `scratch` has as many rows. */
static void measure_loads(struct balance *s, const struct net *net, struct rows m,
                          struct rows scratch) {
    const struct backend *backend = m.array->backend;
    double shift = -s->rho;
    backend->combine(s->load, 0, net->output.ones, m); /* counts are exact in any precision */
    rows_scale(1.0 / m.count, s->load);
    if (s->loads)
        backend->get(s->load, s->loads);
    backend->top(s->load, 1, s->largest);
    backend->averages(s->load, s->largest, s->most);
    backend->pointwise(FN_LINEAR, NULL, &shift, s->load, s->load, (struct rows){0});
    if (s->load2)
        backend->averages(s->load, s->load, s->load2);
    rows_copy(m, scratch);
    rows_add_scaled(-1, s->last, scratch);
    backend->averages(scratch, scratch, s->changed);
    rows_copy(m, s->last);
}

/* Makes series of it, and of what measure_biases has asked for. */
static void settle_measures(struct net *net, struct node *v) {
    struct balance *s = v->constant.context;
    struct rows m = v->value;
    double sum = 0, parts = (double)m.array->sites / averaged_sites(m);
    if (net->setup.declare_only)
        return;
    *s->most = *s->most * averaged_sites(m) / s->rho;
    for (int mu = 0; mu < m.count; mu++)
        sum += s->changed[mu] / parts;
    *s->flips = net->batch.started ? sum / m.count / (2 * s->rho) : 0;
    for (int mu = 0; mu < m.count && s->qstar; mu++)
        s->qstar[mu] = (s->qstar[mu] - s->less[mu]) * (double)m.array->sites;
    if (s->qstar)
        *s->b2 -= s->mean * s->mean;
}

static void watch_forward(struct net *net, struct node *v) {
    struct rows m = argument(net, v, 0)->value;
    measure_loads(v->constant.context, net, m, v->value);
    rows_copy(m, v->value);
}

/* The K-th largest score + b is what K of them have beside K - 1; and the variance of b. */
static void measure_biases(struct balance *s, struct rows m) {
    const struct backend *backend = m.array->backend;
    backend->top(s->q, s->K - 1, m);
    backend->averages(s->q, m, s->less);
    backend->top(s->q, s->K, m);
    backend->averages(s->q, m, s->qstar);
    backend->averages(s->b, s->b, s->b2);
    backend->averages(s->b, (struct rows){0}, &s->mean);
}

/* A declared net is asked which numbers are selected at the start (ties.c), and has no memory for
 * biases, which are 0 then, nor for what is measured. */
static void select_forward(struct net *net, struct node *v) {
    struct balance *s = v->constant.context;
    struct rows c = argument(net, v, 0)->value, m = v->value;
    const struct backend *backend = m.array->backend;
    if (net->setup.declare_only || !s->b.array) {
        backend->top(c, s->K, m);
    } else {
        rows_copy(c, s->q);
        backend->combine(s->q, 1, net->output.ones, s->b);
        if (s->qstar)
            measure_biases(s, m);
        else
            backend->top(s->q, s->K, m);
    }
    if (!net->setup.declare_only)
        measure_loads(s, net, m, s->q);
}

/* Loads settle at rho. */
static void move_biases(void *context) {
    struct balance *s = context;
    if (!s->b.array)
        return;
    double c = -s->eta_bias,
           even = s->b.array->backend->bytes == 4 ? -BALANCE_EVEN_SINGLE : -BALANCE_EVEN;
    if (!s->sign) {
        rows_add(&c, s->load, s->b);
        return;
    }
    struct rows excess = rows_part(s->q, 0, 1); /* the slope of relu: 1 above 0 */
    for (double side = 1; side >= -1; side -= 2, c = -c) {
        s->b.array->backend->pointwise(FN_LINEAR, &side, &even, s->load, excess, (struct rows){0});
        rows_fn(FN_RELU, excess, excess, s->largest);
        rows_add(&c, s->largest, s->b);
    }
}

/* Biases that all start at 0 are not written down one by one. */
static json_t *starts(const struct node *v) {
    const struct balance *s = v->constant.context;
    size_t zeros = 0;
    while (zeros < s->experts && s->start[zeros] == 0)
        zeros++;
    return zeros == s->experts ? json_null() : describe_list(s->start, s->experts);
}

static const struct constant_field constants[] = {
    CONSTANT_OF(struct balance, "top", FIELD_SIZE, K),
    CONSTANT_OF(struct balance, "rho", FIELD_REAL, rho),
    CONSTANT_OF(struct balance, "eta_bias", FIELD_REAL, eta_bias),
    CONSTANT_OF(struct balance, "sign", FIELD_BOOL, sign),
    {.name = "start", .type = FIELD_LIST, .list = starts},
    {0}};
static const struct constant_field of_numbers[] = {
    CONSTANT_OF(struct balance, "top", FIELD_SIZE, K),
    CONSTANT_OF(struct balance, "eta_bias", FIELD_REAL, eta_bias),
    CONSTANT_OF(struct balance, "sign", FIELD_BOOL, sign),
    {0}};

static OPERATION(watch, .rule_of = "rows", .zeros = ZEROS_OF_RULE,
                 .keeps_zero = operation_always_keeps_zero, .forward = watch_forward,
                 .finish = settle_measures, .jumps = operation_always);
static OPERATION(select, .rule_of = "rows", .constants = constants, .zeros = ZEROS_OF_RULE,
                 .forward = select_forward, .finish = settle_measures, .after_step = move_biases,
                 .jumps = operation_always, .traits = OP_IN_CONTEXT);
static OPERATION(mask, .rule_of = "numbers", .constants = of_numbers, .zeros = ZEROS_OF_RULE,
                 .forward = select_forward, .finish = settle_measures, .after_step = move_biases,
                 .jumps = operation_always, .traits = OP_IN_CONTEXT | OP_BY_ROW);

struct balance_rule balance_rule(const struct network *network, const struct population *experts,
                                 int l, int L) {
    return (struct balance_rule){.K = (size_t)lround(network->routing.rho * (double)experts->sites),
                                 .rho = network->routing.rho,
                                 .eta_bias = network->routing.eta_bias,
                                 .l = l,
                                 .L = L};
}

/* The name of a series of this rule. */
static const char *name_of(struct program *p, const struct balance_rule *rule, const char *name) {
    return program_name(p, "%s%s", name, rule->suffix ? rule->suffix : "");
}

/* A number of what is counted, of rows one of each block. */
static double *counted_series(struct program *p, struct value x, const struct balance_rule *rule,
                              const char *name, const char *about, const char *equation) {
    bool blocks = node_of(p, x)->on;
    return program_counted(p, blocks ? "t l" : "t", blocks ? rule->L : 1, blocks ? rule->l : 0,
                           name_of(p, rule, name), about, equation);
}

/* What given masks and selected ones share, for rows or numbers like x; NULL after a failure. */
static struct balance *make_balance(struct program *p, struct value x,
                                    const struct balance_rule *rule) {
    int R = program_count(p, x);
    if (p->code)
        return NULL;
    bool rows = node_of(p, x)->on;
    if (rows && R > program_net(p)->batch.rows)
        program_fail(p, "a selection among experts that is measured takes one row of each input or "
                        "token, not of each pair of tokens");
    if (rule->eta_bias != 0)
        program_count_inputs_once(p, "eta_bias");
    struct balance *s = program_memory(p, sizeof *s);
    double *less = program_memory(p, 2 * (size_t)R * sizeof *less);
    if (!s || !less)
        return NULL;
    *s = (struct balance){.rho = rule->rho,
                          .less = less,
                          .changed = less + R,
                          .load = program_keep(p, x, 1, NULL),
                          .largest = program_keep(p, x, 1, NULL),
                          .last = program_keep(p, x, R, NULL)};
    if (rows)
        s->load2 =
            counted_series(p, x, rule, "load2", "spread of the loads of the experts about rho",
                           "<(mean_mu m_k - rho)^2>");
    else
        s->loads = program_counted(p, "t i", node_of(p, x)->K, 0, name_of(p, rule, "load"),
                                   "share of the inputs that an expert has", "mean_mu m_i");
    s->most = counted_series(p, x, rule, "load_largest", "largest load of an expert over rho",
                             "max_k mean_mu m_k / rho");
    s->flips = counted_series(p, x, rule, "flips",
                              "share of the selected experts that were not at the last evaluation",
                              "mean_mu <(m(t) - m(t-1))^2> / (2 rho)");
    return s;
}

struct value balance_watch(struct program *p, struct value mask, struct balance_rule rule) {
    struct balance *s = make_balance(p, mask, &rule);
    return s ? program_rule(p, &operation_watch, mask, s) : mask;
}

struct value balance_select(struct program *p, struct value scores, struct balance_rule rule) {
    struct balance *s = make_balance(p, scores, &rule);
    if (!s)
        return (struct value){-1};
    bool rows = node_of(p, scores)->on;
    s->K = rule.K;
    s->eta_bias = rule.eta_bias;
    s->sign = rule.sign;
    s->experts = node_array(node_of(p, scores)).sites;
    s->start = rule.start ? rule.start : program_memory(p, s->experts * sizeof *s->start);
    if (rows || rule.eta_bias != 0)
        s->b = program_keep(p, scores, 1, s->start);
    s->q = program_keep(p, scores, program_count(p, scores), NULL);
    if (!rows) {
        program_selects(p, scores, (int)rule.K);
        return program_rule(p, &operation_mask, scores, s);
    }
    s->qstar = program_series_of(p, scores, rule.L, rule.l, name_of(p, &rule, "qstar"),
                                 "selection threshold: the K-th largest score + b", "");
    s->b2 = counted_series(p, scores, &rule, "b2", "variance of the biases", "<b_k^2> - <b_k>^2");
    return program_rule(p, &operation_select, scores, s);
}

/* Averages over the experts of block l. */
static void add_mean(struct program *p, int l, struct value x, bool gradient, int power,
                     const char *name, const char *about, const char *equation) {
    int L = program_network(p)->block.depth;
    program_measure(p, x, gradient, power, program_series_of(p, x, L, l, name, about, equation));
}

struct value balance_write(struct program *p, struct value h, struct population *experts,
                           struct weight R, int l) {
    const struct network *network = program_network(p);
    struct value logits = program_map(p, h, experts, R);
    program_name_rows(p, logits, program_name(p, "p_%d", l));
    struct value c = program_fn(p, FN_SIGMOID, 1, logits);
    if (network->routing.rho < 1) {
        double *start = program_memory(p, experts->sites * sizeof *start);
        if (!start)
            return c;
        balance_biases(program_setup(p), l, (int)experts->sites, start);
        struct balance_rule rule = balance_rule(network, experts, l, network->block.depth);
        rule.start = start;
        struct value mask = balance_select(p, c, rule);
        c = program_multiply(p, mask, c);
    }
    program_routes(p, c, logits, network->routing.rho < 1, program_name(p, "_%d", l));
    add_mean(p, l, logits, false, 1, "p", "mean router logit", "<p_k>");
    add_mean(p, l, logits, false, 2, "p2", "mean squared router logit", "<p_k^2>");
    add_mean(p, l, c, true, 1, "A", "mean gradient of the gate", "<A_k>");
    program_gradient(p, logits, 1, program_name(p, "MAA_%d", l), "gradient kernel of the routers",
                     "<sd_k A_k sd_k A_k>");
    return c;
}
