/* Tangent kernels at equal time, whole and as the sum of the blocks of matrices: [output] tangent.
 * Of the outputs (`tangent`): in gradient flow df_mu/dt = (eta0/P) sum_nu K_mu,nu Delta_nu; of
 * several outputs of an input the mean over these of each one's own. Of the loss of the task
 * (`tangent_loss`) and of each penalty (`tangent_balance_loss`, ...) the products of the gradients
 * of two inputs (solver/measure/gradients.h). */
#include "solver/measure/observe.h"

/* What is said of the outputs, of one and of several, of the loss and of a penalty. */
static const struct series texts[] = {
    {.about = "neural tangent kernel",
     .equation = "rate <g_mu g_nu><x_mu x_nu>; df/dt = eta0/P sum_nu K Delta_nu"},
    {.about =
         "neural tangent kernel of each output with itself, the mean over the outputs of an input",
     .equation = "mean_o rate <g_mu,o g_nu,o><x_mu x_nu>"},
    {.about = "products of the gradients of the loss of the task of two inputs",
     .equation = "rate sum over outputs and tokens of Delta_mu Delta_nu <g_mu g_nu><x_mu x_nu>"},
    {.about = "products of what two inputs have of the gradient of a penalty",
     .equation = "rate <g_mu g_nu><x_mu x_nu>"},
};

/* Slots: of each term the whole kernel, then the block of each parameter. */
static int slot_of(const struct net *net, int term, int block) {
    return term * (1 + net->parameters.count) + 1 + block;
}

static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct gradients *g = &m->observer->gradients;
    for (int term = 0; term < g->terms; term++)
        for (int i = -1; i < m->net->parameters.count; i++)
            if (out[slot_of(m->net, term, i)])
                gradients_tangent(g, m->net, term, i < 0 ? "" : m->net->parameters.item[i].name,
                                  out[slot_of(m->net, term, i)]);
    return CODE_OK;
}

static int add_tangent(const struct declaring *d, int term, int block, struct err *err) {
    const struct net *net = d->net;
    struct series series = texts[term == TERM_OF_OUTPUTS ? net_outputs(net) > 1
                                 : term == TERM_OF_LOSS  ? 2
                                                         : 3];
    char name[SERIES_NAME];
    series.dims = "t mu nu";
    series.shape[1] = series.shape[2] = (size_t)net->setup.data.P;
    gradients_name(name, "tangent", gradients_term(net, term),
                   block < 0 ? "" : net->parameters.item[block].name);
    return series_add(d, slot_of(net, term, block), series, err, "%s", name);
}

int tangent_declare(const struct declaring *d, struct err *err) {
    int terms = gradients_terms(d->net), matrices = d->net->parameters.count;
    if (!d->config->output.tangent)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, terms * (1 + matrices), err));
    for (int term = 0; term < terms; term++)
        for (int i = -1; i < (d->config->output.tangent == TANGENT_BLOCKS ? matrices : 0); i++)
            TRY(add_tangent(d, term, i, err));
    return CODE_OK;
}
