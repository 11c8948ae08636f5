/* The abc-symmetry, of every matrix of every network, finite and infinite: a matrix drawn s times
 * as large and used 1/s times is the same matrix, and so is its training, since rates count in
 * units of the matrix as it is used (models/language/program.h). s is a power of 2: products with
 * it are exact, and the outputs must be the same bits.
 *
 * The linker puts __wrap_weight_settle, which is here, in the place of the program's. */
#include "tests/support/support.h"

enum { N = 12, STEPS = 4, P = 3 };

static struct {
    int matrix; /* -1: none */
    double a0, s_f;
} change = {-1, 1, 1};

bool __real_weight_settle(struct program *p, struct node *node);
bool __wrap_weight_settle(struct program *p, struct node *node);

bool __wrap_weight_settle(struct program *p, struct node *node) {
    struct weight *W = &node->matrix.weight;
    if (p->net->matrices.count == change.matrix) {
        W->a0 = change.a0 * (W->a0 == 0 ? 1 : W->a0);
        W->s_f = change.s_f * (W->s_f == 0 ? 1 : W->s_f);
    }
    return __real_weight_settle(p, node);
}

struct trajectory {
    double f[STEPS][P];
    int matrices;
    char last[64]; /* the matrix that was changed, or the last one */
    bool zero;     /* nothing of it is there at the start */
};

static void follow(struct trajectory *out, const struct run *run, int width) {
    const struct training *training = &run->config.training;
    FREED(net_free) struct net net;
    *out = (struct trajectory){0};
    support_net(&net, run, width, 1);
    support_evaluate(&net, run);
    for (int t = 0; t < STEPS; t++) {
        if (t)
            ASK(integrator_of(training)->advance(&net, training, run->data.y, err));
        memcpy(out->f[t], net.output.f, sizeof out->f[t]);
    }
    out->matrices = net.matrices.count;
    const struct matrix *matrix = &net.matrices.item[change.matrix < 0 ? 0 : change.matrix];
    snprintf(out->last, sizeof out->last, "%s", matrix->name);
    out->zero = matrix->zero;
    for (int i = 0; i < net.program->nodes; i++) {
        const struct node *v = &net.program->node[i];
        if (v->matrix.map && !strcmp(v->matrix.weight.name, matrix->name))
            out->zero |= v->matrix.map->numbers.fg == 0 && v->matrix.map->numbers.fr == 0;
    }
}

static void check_network(const char *network, const char *optimizer, int width) {
    static const double s[] = {4, 0.125};
    FREED(run_free) struct run run;
    struct trajectory plain, now;
    support_run_text(
        &run, NULL,
        "[network]\n%s\n[data]\ninputs = 3\ndimension = 4\n[training]\neta0 = 0.3\n"
        "optimizer = %s\n[reference]\nwidths = %d\ncentre = no\n[solver]\nsites = 64\n",
        network, optimizer, N);
    change.matrix = -1;
    follow(&plain, &run, width);
    for (int k = 0; k < plain.matrices; k++)
        for (size_t i = 0; i < COUNT(s); i++) {
            change.matrix = k;
            change.a0 = s[i];
            change.s_f = 1 / s[i];
            follow(&now, &run, width);
            if (memcmp(now.f, plain.f, sizeof now.f))
                fail_msg("%s, %s, N = %d: matrix %s", network, optimizer, width, now.last);
            change.s_f = 1; /* that alone is another network */
            follow(&now, &run, width);
            if (!now.zero && !memcmp(now.f, plain.f, sizeof now.f))
                fail_msg("%s, %s, N = %d: no change of %s", network, optimizer, width, now.last);
        }
    change.matrix = -1;
}

TEST(a_matrix_is_its_product) {
    static const char *const networks[] = LIST(
        "model = dense\ndepth = 3", "model = resnet\ndepth = 2\nbranch = 0.7",
        "model = regime1\nq0 = 1\nexperts = 2\nexpert_layers = 2\nbias = trained\nbiases = 0.5 -1",
        "model = regime2\nexpert_width = 2\ngate = softmax\n[solver]\nexpert_sites = 16",
        "model = regime2\nparameterization = mup\nexpert_width = 2\nrho = 0.5\n[solver]\n"
        "expert_sites = 16",
        "model = regime3\niota = 0.25\n[solver]\nexpert_sites = 8\nunit_sites = 8",
        "model = regime3\niota = 0.25\nparameterization = mup\n[solver]\nexpert_sites = 8\n"
        "unit_sites = 8",
        "model = residual\nalpha = 0.5\nexpert_width = 4\ndepth = 2\n[solver]\nexpert_sites = 8");
    static const char *const optimizers[] = {"gd", "momentum", "adam", "adamw", "muon"};
    for (size_t i = 0; i < COUNT(networks); i++)
        for (size_t k = 0; k < COUNT(optimizers); k++)
            for (int width = 0; width <= N; width += N)
                check_network(networks[i], optimizers[k], width);
}
