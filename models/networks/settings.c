/* The keys of section [network], put together from those of the models. */
#include "models/networks/settings.h"
#include "kernels/base/text.h"
#include "models/language/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *names; /* of the models, blank-separated */

static const struct param_row common[] = {
    {"model", PARAM_CHOICE, NETWORK_KEY(model), NULL, 0, 0, NULL, NULL, "the network"},
    {"outputs", PARAM_INT, NETWORK_KEY(outputs), "0", 0, 100000, NULL, NULL,
     "outputs C; 0: as many as the data have"},
    {"pooling", PARAM_CHOICE, NETWORK_KEY(pooling), "data", 0, 0, "data mean token", NULL,
     "outputs of the mean over the tokens of an input, or of each token; data: as there are "
     "targets"},
    {"parameterization", PARAM_CHOICES, NETWORK_KEY(parameterizations), "mssp", 0, 0,
     "mup mssp sp ntp simp", NULL,
     "scales of weights and rates: muP, the maximally scale-stable one, and, for networks only, "
     "the "
     "standard and the neural-tangent one, and (regime1) muP with the router of a hidden layer; "
     "several: dmft-compare sets them side by side"},
    {"read_out", PARAM_CHOICE, NETWORK_KEY(read_out), "normal", 0, 0, "normal zero", NULL,
     "initial read-out w: standard normal, or zero"},
    {"activation", PARAM_CHOICE, NETWORK_KEY(activation), "tanh", 0, 0,
     "linear tanh erf relu gelu softplus silu", NULL,
     "sigma; erf is erf(h), gelu is h Phi(h), silu is h/(1 + exp(-h))"},
    {"expert_activation", PARAM_CHOICE, NETWORK_KEY(expert_activation), "same", 0, 0,
     "same linear tanh erf relu gelu softplus silu", NULL, "sigma inside of experts"},
    {"depth", PARAM_INT, NETWORK_KEY(depth), "3", 1, 32, NULL, NULL,
     "hidden layers (dense), blocks (residual, resnet, stack, transformer)"},
    {"kappa", PARAM_REAL, NETWORK_KEY(kappa), "1", 1e-3, 1e3, NULL, NULL, "experts per width, M/N"},
    {"iota", PARAM_REAL, NETWORK_KEY(iota), "1", 1e-3, 1e3, NULL, NULL,
     "hidden units of an expert per width, N_e/N"},
    {"branch_power", PARAM_REAL, NETWORK_KEY(branch_power), "1", 0, 2, NULL, NULL,
     "branches are added with depth^-branch_power"},
    {"expert_width", PARAM_INT, NETWORK_KEY(expert_width), "2", 0, 4096, NULL, NULL,
     "hidden units per expert, N_e; 0: infinite (residual)"},
    {"shared_experts", PARAM_INT, NETWORK_KEY(shared_experts), "0", 0, 32, NULL, NULL,
     "experts beside the routed ones that every input has, with gate 1"},
    {"experts", PARAM_INT, NETWORK_KEY(experts), "2", 0, 1000000, NULL, NULL,
     "experts, fixed while the width grows (residual: with expert_width = 0; transformer: 0 for "
     "attention alone)"},
    {0},
};

static size_t length(const struct param_row *rows) {
    size_t n = 0;
    while (rows && rows[n].key)
        n++;
    return n;
}

static struct param_row *all; /* of the section */

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

static int join_names(struct err *err) {
    size_t size = 1;
    for (const struct model *const *model = model_list; *model; model++)
        size += strlen((*model)->name) + 1;
    TRY(base_alloc(&names, size, 1, err));
    for (const struct model *const *model = model_list; *model; model++) {
        strcat(names, model == model_list ? "" : " ");
        strcat(names, (*model)->name);
    }
    return CODE_OK;
}

int network_rows(const struct param_row **rows, size_t *count, struct err *err) {
    static size_t known;
    const struct param_row *const shared[] = {common, gate_rows, router_rows, balance_rows,
                                              attention_rows};
    if (!all) {
        for (size_t k = 0; k < sizeof shared / sizeof *shared; k++)
            known += length(shared[k]);
        for (const struct model *const *model = model_list; *model; model++)
            known += length((*model)->rows);
        TRY(join_names(err));
        TRY(base_alloc(&all, known, sizeof *all, err));
        size_t at = 0;
        for (size_t k = 0; k < sizeof shared / sizeof *shared; k++)
            for (size_t i = 0; i < length(shared[k]); i++)
                all[at++] = shared[k][i];
        for (const struct model *const *model = model_list; *model; model++)
            for (size_t i = 0; i < length((*model)->rows); i++)
                all[at++] = (*model)->rows[i];
        all[0].choices = names;
    }
    *rows = all;
    *count = known;
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
    return network->activation == FN_RELU || network->expert_activation == 1 + FN_RELU;
}

bool network_compresses(const struct network *network) {
    return !has_relu(network) && network->rho == 1;
}

const char *network_uncompressed(const struct network *network) {
    return !has_relu(network) ? "rho < 1" : network->rho == 1 ? "relu" : "relu and rho < 1";
}

bool network_has_nodes(const struct network *network) {
    return network->bias_draws == BIAS_STRATIFIED && network->q0 <= 0;
}

const char *network_step_rule(const struct network *network) {
    return network->eta_bias != 0 ? "eta_bias" : network->bias_noise != 0 ? "bias_noise" : NULL;
}

const char *network_check_balance(const struct network *network, const char **key) {
    bool routed = network->gate != GATE_CONSTANT;
    bool terms[] = {network->balance_loss > 0, network->eta_bias != 0, network->z_loss > 0};
    const char *const keys[] = {"balance_loss", "eta_bias", "z_loss"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (terms[k] && (!routed || (network->rho == 1 && k < 2))) {
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
    return N && !network_whole(network->iota * N)
               ? "iota times the width must be a whole number of hidden units, at least 1"
               : NULL;
}
