#include "models/networks/settings.h"
#include "kernels/base/text.h"
#include "models/language/program.h"

/* The words of activations, and a line of help for each. */
#define FN_X "h"
#define NEXT_WORD(number, word, ...) " " word
#define FORMULA(number, word, formula, ...) "\n  " word ": " formula
#define ACTIVATIONS "linear" FN_ACTIVATIONS(NEXT_WORD)

static const struct param_row common[] = {
    {"model", PARAM_ROW, NETWORK_KEY(model), NULL, 0, 0, model_list, NULL,
     "Network to train; dmft-solve --help NETWORK describes one."},
    {"outputs", PARAM_INT, NETWORK_KEY(outputs), "0", 0, 100000, NULL, NULL,
     "Number C of outputs. 0 takes as many as the targets of the data have."},
    {"pooling", PARAM_CHOICE, NETWORK_KEY(block.pooling), "data", 0, 0, "data mean token", NULL,
     "Whether the network has outputs for a whole input or for each of its tokens.\n"
     "  data: as the targets of the data are\n"
     "  mean: for the input, from the mean over its tokens\n"
     "  token: for each token"},
    {"parameterization", PARAM_CHOICES, NETWORK_KEY(parameterizations), "mssp", 0, 0,
     "mup mssp sp ntp simp", NULL,
     "How initial scales and learning rates depend on the width. With several, dmft-compare "
     "sets them side by side.\n"
     "  mup: muP\n"
     "  mssp: the maximally scale-stable parameterization\n"
     "  sp: the standard parameterization, for finite networks only\n"
     "  ntp: the neural-tangent parameterization, for finite networks only\n"
     "  simp: muP with the router scaled as a hidden layer, for finite networks with a fixed "
     "number of experts only"},
    {"read_out", PARAM_CHOICE, NETWORK_KEY(read_out), "normal", 0, 0, "normal zero", NULL,
     "Distribution of the initial entries of the read-out w.\n"
     "  normal: standard normal\n"
     "  zero: all entries are 0"},
    {"activation", PARAM_CHOICE, NETWORK_KEY(activation), "tanh", 0, 0, ACTIVATIONS, NULL,
     "Activation function sigma(h) of hidden units.\n  linear: h" FN_ACTIVATIONS(FORMULA)},
    {"expert_activation", PARAM_CHOICE, NETWORK_KEY(experts.activation), "same", 0, 0,
     "same " ACTIVATIONS, NULL,
     "Activation function of the hidden units inside experts.\n"
     "  same: the one that activation names\n"
     "  " ACTIVATIONS ": the function of that name"},
    {"depth", PARAM_INT, NETWORK_KEY(block.depth), "3", 1, 1000, NULL, NULL,
     "Number of hidden layers (dense) or of blocks (residual, resnet, stack, transformer)."},
    {"kappa", PARAM_REAL, NETWORK_KEY(routing.kappa), "1", 1e-3, 1e3, NULL, NULL,
     "Number of experts divided by the width, kappa = M/N."},
    {"iota", PARAM_REAL, NETWORK_KEY(experts.iota), "1", 1e-3, 1e3, NULL, NULL,
     "Number of hidden units of an expert divided by the width, iota = N_e/N."},
    {"branch_power", PARAM_REAL, NETWORK_KEY(block.branch_power), "1", 0, 2, NULL, NULL,
     "Exponent a of the factor depth^-a by which the output of every residual branch is "
     "multiplied."},
    {"expert_width", PARAM_INT, NETWORK_KEY(experts.width), "2", 0, 4096, NULL, NULL,
     "Number N_e of hidden units of an expert. In residual, 0 makes experts infinitely wide."},
    {"shared_experts", PARAM_INT, NETWORK_KEY(experts.shared), "0", 0, 32, NULL, NULL,
     "Number of shared experts, which process every input with gate 1 beside the routed ones. In "
     "stack and transformer, not with many_experts (examples/ has such a network in Lua)."},
    {"experts", PARAM_INT, NETWORK_KEY(experts.count), "2", 0, 1000000, NULL, NULL,
     "Number of experts, which stays fixed while the width grows. Their outputs are added up, but "
     "in residual: with sigmoid gates the rate eta0 that trains goes as 1/experts (0.3 for 8, "
     "0.005 for 500), with a softmax over all of them as experts. In residual it is used with "
     "expert_width = 0; in transformer, 0 leaves attention alone."},
    {0},
};

static struct param_row *all; /* of the section */
static int known;             /* how many */

static int add_rows(const struct param_row *rows, struct err *err) {
    struct param_row *added;
    for (; rows && rows->key; rows++) {
        TRY(base_grow(&added, &all, &known, sizeof *added, err));
        *added = *rows;
    }
    return CODE_OK;
}

int network_add(const struct model *model, struct err *err) {
    int count = 0;
    if (!model->name || !*model->name || strpbrk(model->name, " \t#;\""))
        return err_set(err, CODE_INPUT, "a network needs a name without blanks");
    for (; model_list[count]; count++)
        if (!strcmp(model_list[count]->name, model->name))
            return err_set(err, CODE_INPUT, "there is a network %s already", model->name);
    if (!model->doc || !model->source || !model->keys || !model->write)
        return err_set(err, CODE_INPUT, "network %s: doc, source, keys and write must be given",
                       model->name);
    if (all || count == MODEL_MOST)
        return err_set(err, CODE_INPUT, "network %s: %s", model->name,
                       all ? "networks are added before anything is read"
                           : "there are too many networks");
    model_list[count] = model;
    return CODE_OK;
}

int network_rows(const struct param_row **rows, size_t *count, struct err *err) {
    static bool complete;
    const struct param_row *const shared[] = {common, gate_rows, router_rows, balance_rows,
                                              attention_rows};
    if (!complete) {
        known = 0; /* memory may have run out before */
        for (size_t k = 0; k < sizeof shared / sizeof *shared; k++)
            TRY(add_rows(shared[k], err));
        for (const struct model *const *model = model_list; *model; model++)
            TRY(add_rows((*model)->rows, err));
        complete = true;
    }
    *rows = all;
    *count = (size_t)known;
    return CODE_OK;
}

bool network_only_others(const char *const *lists, int count, int chosen, const char *key) {
    bool listed = false;
    for (int k = 0; k < count; k++)
        listed |= text_lists(lists[k], key);
    return listed && !text_lists(lists[chosen], key);
}

const char *network_other_keys(const char *name, const char *key) {
    for (const struct model *const *model = model_list; *model; model++) {
        const char *keys = (*model)->keys;
        if (strcmp((*model)->name, name))
            continue;
        if (!strcmp(key, "model") || !strcmp(key, "outputs") || !strcmp(key, "pooling"))
            return NULL;
        return text_lists(keys, key) ? NULL : keys;
    }
    return NULL; /* an unknown name is refused for itself */
}

static bool has_relu(const struct network *network) {
    return network->activation == FN_RELU || network->experts.activation == 1 + FN_RELU;
}

bool network_compresses(const struct network *network) {
    return !has_relu(network) && network->routing.rho == 1;
}

const char *network_uncompressed(const struct network *network) {
    return !has_relu(network) ? "rho < 1" : network->routing.rho == 1 ? "relu" : "relu and rho < 1";
}

bool network_has_nodes(const struct network *network) {
    return network->routing.bias_draws == BIAS_STRATIFIED && network->routing.q0 <= 0;
}

bool network_keeps_nodes(const struct network *network) {
    return network_has_nodes(network) && !network->experts.width;
}

const char *network_step_rule(const struct network *network) {
    return network->routing.eta_bias != 0     ? "eta_bias"
           : network->routing.bias_noise != 0 ? "bias_noise"
                                              : NULL;
}

const char *network_check_balance(const struct network *network, const char **key) {
    bool routed = network->routing.gate != GATE_CONSTANT;
    bool terms[] = {network->routing.balance_loss > 0, network->routing.eta_bias != 0,
                    network->routing.z_loss > 0};
    const char *const keys[] = {"balance_loss", "eta_bias", "z_loss"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (terms[k] && (!routed || (network->routing.rho == 1 && k < 2))) {
            *key = keys[k];
            return routed ? "with rho = 1 every expert has every input: there is nothing to balance"
                          : "gate = constant has no router, which this acts on";
        }
    return NULL;
}

bool network_whole(double count) {
    return count > 0.5 && count < 1e9 && fabs(count - round(count)) <= 1e-9 * count;
}

const char *network_check_iota(const struct network *network, int N, const char **key) {
    *key = "iota";
    return N && !network_whole(network->experts.iota * N)
               ? "iota times the width must be a whole number of hidden units, at least 1"
               : NULL;
}
