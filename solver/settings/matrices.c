/* Names come from the network itself, written without memory or draws. */
#include "kernels/base/text.h"
#include "models/engine/node.h"
#include "solver/settings/names.h"

/* Free it in any case. */
static int declare_net(struct net *net, const struct config *config, int N,
                       const struct factor_list lines[CONFIG_LINES], struct err *err) {
    struct net_setup setup = config_declare(config, N);
    setup.init = lines ? &lines[LINES_INIT] : NULL;
    setup.rates = lines ? &lines[LINES_RATES] : NULL;
    setup.eps = lines ? &lines[LINES_EPS] : NULL;
    setup.decays = lines ? &lines[LINES_DECAYS] : NULL;
    return net_init(net, &setup, err);
}

/* Collects the names of all matrices, and then common ones. */
static int collect_names(struct names *names, const struct net *net, struct err *err) {
    for (int i = 0; i < net->matrices.count; i++)
        TRY(names_add(names, net->matrices.item[i].name, err));
    return names_add_stems(names, err);
}

int matrices_list(const struct config *config, int N, char **list, struct err *err) {
    FREED(net_free) struct net net = {0};
    size_t size = 1;
    *list = NULL;
    TRY(declare_net(&net, config, N, NULL, err));
    for (int i = 0; i < net.matrices.count; i++)
        size += strlen(net.matrices.item[i].name) + 1;
    TRY(base_alloc(list, size, 1, err));
    char *end = *list;
    for (int i = 0; i < net.matrices.count; i++)
        end += sprintf(end, "%s%s", i ? " " : "", net.matrices.item[i].name);
    return CODE_OK;
}

/* Whether something that a name is for moves entry by entry. */
static bool has_eps(const struct net *net, const char *name) {
    for (int i = 0; i < net->matrices.count; i++) {
        const char *matrix = net->matrices.item[i].name, *map = NULL;
        for (int k = 0; k < net->maps.count; k++)
            map = strcmp(net->maps.item[k]->declared.name, matrix) ? map : matrix;
        if (program_addresses(name, matrix) && optimizer_by_entry(net_optimizer(&net->setup, map)))
            return true;
    }
    return false;
}

/* What a line would multiply and cannot. */
static int check_line(const struct config *config, const struct params *params, int list,
                      const struct factor *line, const struct net *net, struct err *err) {
    static const char *const reason[CONFIG_LINES] = {
        "matrix %s starts at 0 here, whatever the factor: take the line out",
        "matrix %s never learns here and has no rate: take the line out",
        "matrix %s never learns here and needs no eps: take the line out",
        "%s has no weight decay here, whatever the factor: take the line out (decays = true of a "
        "network in Lua or Python gives it some)"};
    const char *section = config_lines[list];
    char optimizers[TEXT_NOTE] = "";
    optimizer_name_by_entry(optimizers);
    if (list == LINES_EPS && !net_by_entry(&net->setup))
        return params_error(
            params, section, line->name, err,
            "eps is Adam's and Lion's: take the line out or choose [training] optimizer = %s",
            optimizers);
    if (list == LINES_EPS && !has_eps(net, line->name))
        return params_error(
            params, section, line->name, err,
            "Muon moves it, which has no eps: take the line out, or name it in [training] rest");
    if (list == LINES_EPS && line->factor == 0)
        return params_error(params, section, line->name, err,
                            "a factor of eps must be above 0: 1e-6, say");
    bool decays = params_find(params, "training", "weight_decay")->line != 0 ||
                  config->training.weight_decay > 0; /* it may be one of several, 0 among them */
    if (list == LINES_DECAYS && !decays)
        return params_error(
            params, section, line->name, err,
            "nothing decays: set [training] weight_decay, of which this is a factor, with an "
            "integrator and an optimizer that have it, or take the line out");
    if (list == LINES_RATES && line->factor == 0 && decays)
        return CODE_OK; /* then even what never learns does not decay */
    FOR_EACH (const struct matrix, matrix, net->matrices) {
        if (program_addresses(line->name, matrix->name) && (list == LINES_INIT     ? matrix->zero
                                                            : list == LINES_DECAYS ? !matrix->decays
                                                                                   : matrix->fixed))
            return params_error(params, section, line->name, err, reason[list],
                                TEXT_SHOWN_OF(matrix));
    }
    return CODE_OK;
}

static int check_names(const struct config *config, const struct params *params,
                       const struct net *net, struct err *err) {
    const struct factor_list *lists = config->lines;
    FREED(names_free) struct names names = {0};
    TRY(collect_names(&names, net, err));
    for (int k = 0; k < CONFIG_LINES; k++) {
        TRY(params_check_names(params, config_lines[k], (const char *const *)names.name,
                               names.count, err));
        for (int i = 0; i < lists[k].count; i++)
            TRY(check_line(config, params, k, &lists[k].factor[i], net, err));
    }
    return CODE_OK;
}

/* Matrices of other rows than those of the tokens, which are pooled, say, or mixed to fewer places:
 * two-time kernels have a row for each token. */
static int check_rows(const struct params *params, const struct net *net, struct err *err) {
    int n = net->setup.data.n;
    FOR_EACH_OF (const struct node, v, net->program->node, net->program->nodes) {
        if (v->matrix.map && v->per != n)
            return params_error(params, "solver", "method", err,
                                "matrix %s has %d rows of an input of %d tokens; fixed_point "
                                "iterates matrices with a row of each token: march",
                                TEXT_SHOWN_OF(&v->matrix.weight), v->per, n);
    }
    return CODE_OK;
}

/* What fixed_point cannot iterate of this network. */
static int check_fixed_point(const struct params *params, const struct net *net, struct err *err) {
    if (!net->maps.count)
        return params_error(params, "solver", "method", err,
                            "this network has no matrix between two wide layers, which fixed_point "
                            "iterates: march");
    for (int i = 0; i < net->maps.count; i++)
        if (net->maps.item[i]->declared.uses > 1)
            return params_error(params, "solver", "method", err,
                                "matrix %s is tied, of several uses in one evaluation; fixed_point "
                                "iterates matrices of one: march",
                                TEXT_SHOWN_OF(&net->maps.item[i]->declared));
    return check_rows(params, net, err);
}

/* The key of [network] that says most of which network it is. */
static const char *key_of_network(const struct network *network) {
    const char *name = network->model->name;
    if (!network_other_keys(name, "program"))
        return network->script.file[0] ? "program" : "program_text";
    return network_other_keys(name, "parameterization") ? "model" : "parameterization";
}

/* The limit with more and more lines, those of [init] first: the one that makes it fail is to
 * blame; with none it is the network itself. */
static int check_limit(const struct config *config, const struct params *params, struct err *err) {
    const char *section = "network", *key = key_of_network(&config->network);
    const struct factor_list *all = config->lines;
    struct factor_list lines[CONFIG_LINES];
    memcpy(lines, all, sizeof lines);
    for (int k = 0; k < CONFIG_LINES; k++)
        lines[k].count = 0;
    for (int k = 0; k < CONFIG_LINES;) {
        FREED(net_free) struct net net = {0};
        struct err why;
        int code = declare_net(&net, config, 0, lines, &why);
        if (!code && config->solver.method == METHOD_FIXED_POINT)
            TRY(check_fixed_point(params, &net, err));
        if (code == CODE_INPUT)
            return params_error(params, section, key, err, "%s", why.text);
        if (code)
            *err = why;
        TRY(code);
        while (k < CONFIG_LINES && lines[k].count == all[k].count)
            k++;
        if (k < CONFIG_LINES) {
            section = config_lines[k];
            key = all[k].factor[lines[k].count++].name;
        }
    }
    return CODE_OK;
}

/* Muon has something to move, and what it is to leave exists. */
static int check_muon(const struct params *params, const struct net *net, struct err *err) {
    const char *rest = net->setup.training.rest;
    struct text_word word;
    bool moves = false;
    for (int i = 0; i < net->parameters.count && !moves; i++)
        moves = net->parameters.item[i].map && !program_lists(rest, net->parameters.item[i].name);
    if (!moves)
        return params_error(params, "training", "optimizer", err,
                            "no matrix of this network that learns has two infinite sides%s, so "
                            "that Muon has nothing to move: gd, momentum, adam, adamw or lion",
                            rest && *rest ? " and is not named in rest" : "");
    while (rest && text_next_word(&rest, " ", &word)) {
        char name[NET_NAME];
        bool found = false;
        snprintf(name, sizeof name, "%.*s", (int)word.length, word.text);
        for (int i = 0; i < net->parameters.count && !found; i++)
            found = net->parameters.item[i].map &&
                    program_addresses(name, net->parameters.item[i].name);
        if (!found)
            return params_error(params, "training", "rest", err,
                                "no matrix with two infinite sides that learns is called %s", name);
    }
    return CODE_OK;
}

static const struct matrix *addressed_matrix(const struct net *net, const char *name) {
    for (int i = 0; i < net->matrices.count; i++)
        if (program_addresses(name, net->matrices.item[i].name))
            return &net->matrices.item[i];
    return NULL;
}

/* Where networks have several matrices the limit may have one, as of heads, which are all alike in
 * it: the name of one of them would reach networks alone. */
static int check_single(const struct params *params, const char *section, const char *key,
                        const char *name, const struct net *const nets[2], struct err *err) {
    const struct net *limit = nets[0];
    const struct matrix *one = addressed_matrix(nets[1], name);
    for (int i = 0; one && !addressed_matrix(limit, name) && i < limit->matrices.count; i++)
        if (program_addresses(limit->matrices.item[i].name, one->name))
            return params_error(params, section, key, err,
                                "matrix %s is one of several of networks that the limit has as "
                                "one: name %s, or train networks alone, [solver] replicates = 0",
                                TEXT_SHOWN_OF(one), limit->matrices.item[i].name);
    return CODE_OK;
}

/* Lines of networks beside a limit, and names of `rest`, address no matrix that is one of several
 * which the limit has as one. */
static int check_singles(const struct config *config, const struct params *params,
                         const struct net *net, struct err *err) {
    const struct factor_list *lists = config->lines;
    const char *rest = net->setup.training.rest;
    struct text_word word;
    FREED(net_free) struct net limit = {0};
    TRY(declare_net(&limit, config, 0, NULL, err));
    const struct net *const nets[] = {&limit, net};
    for (int k = 0; k < CONFIG_LINES; k++)
        for (int i = 0; i < lists[k].count; i++) {
            const char *name = lists[k].factor[i].name;
            TRY(check_single(params, config_lines[k], name, name, nets, err));
        }
    while (config->training.optimizer->matrices && rest && text_next_word(&rest, " ", &word)) {
        char name[NET_NAME];
        snprintf(name, sizeof name, "%.*s", (int)word.length, word.text);
        TRY(check_single(params, "training", "rest", name, nets, err));
    }
    return CODE_OK;
}

int matrices_check(const struct config *config, const struct params *params, struct err *err) {
    bool limit = config_has_limit(config) && !config->only_told;
    if (config->solver.replicates && !config->only_told)
        TRY(check_limit(config, params, err));
    bool muon = config->training.optimizer->matrices;
    if (!params->frees && !config->network.script.text[0] && !muon)
        return CODE_OK;
    FREED(net_free) struct net net = {0};
    TRY(declare_net(&net, config, config_some_width(config), NULL, err));
    if (muon)
        TRY(check_muon(params, &net, err));
    TRY(check_names(config, params, &net, err));
    if (limit && config_some_width(config))
        TRY(check_singles(config, params, &net, err));
    if (net.place.has_step_rule && config->training.integrator->flow)
        return params_error(params, "training", "integrator", err,
                            "the program has selection biases, which move once a step of gradient "
                            "descent and have no gradient flow; choose gd");
    return config_program_keys(config, params, err);
}

/* "model = NAME", and everything else at its default or as overridden. */
static int configure_model(struct config *config, struct params *params,
                           const struct param_section *sections, size_t count, const char *network,
                           int overrides, char *const *override, struct err *err) {
    char text[64];
    snprintf(text, sizeof text, "[network]\nmodel = %.40s\n", network);
    TRY(params_read_text(params, sections, count, text,
                         &(struct param_source){"--help", NULL, overrides, override, 0}, config,
                         err));
    config->network.parameterization = config->network.parameterizations.value[0];
    if (config->network.script.file[0])
        TRY(config_program(config, params, err));
    config_shape(config, NULL);
    return CODE_OK;
}

static int print_names(const struct config *config, FILE *out, struct err *err) {
    FREED(names_free) struct names names = {0};
    FREED(net_free) struct net net = {0};
    TRY(declare_net(&net, config, config_some_width(config), NULL, err));
    TRY(collect_names(&names, &net, err));
    TRY(names_print("Matrices, for sections [init], [rates], [eps] and [decays]:", &names,
                    net.matrices.count, out, err));
    for (int i = 0; i < net.matrices.count; i++)
        if (net.matrices.item[i].label)
            fprintf(out, "    %s is %s\n", net.matrices.item[i].name, net.matrices.item[i].label);
    return CODE_OK;
}

int matrices_help(const char *network, int overrides, char *const *override, FILE *out,
                  struct err *err) {
    FREED(base_free) struct param_section *sections = NULL;
    FREED(params_free) struct params params = {0};
    struct config config = {0};
    size_t count;
    TRY(config_sections(&sections, &count, err));
    TRY(configure_model(&config, &params, sections, count, network, overrides, override, err));
    const struct model *model = config.network.model;
    fprintf(out, "%s: %s\n", model->name, model->doc);
    params_write_text("Source: ", "    ", model->source, out);
    params_write_text("Keys of [network]: ", "    ", model->keys, out);
    if (network_other_keys(model->name, "program") || config.network.script.text[0]) {
        TRY(print_names(&config, out, err));
        TRY(names_help(&config, out, err));
    } else
        fprintf(out, "Matrices: those of the program; --network.program=FILE.lua lists them\n");
    return CODE_OK;
}
