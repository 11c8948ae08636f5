#include "solver/settings/names.h"
#include "kernels/base/text.h"

#include <ctype.h>
#include <search.h>

static int in_order(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Hundreds of experts in tens of blocks have ten thousands of names, which a tree holds. */
static int add_part(struct names *names, const char *text, size_t length, struct err *err) {
    FREED(base_free) char *copy = NULL;
    char **added;
    TRY(base_print(&copy, err, "%.*s", (int)length, text));
    if (tfind(copy, &names->tree, in_order))
        return CODE_OK;
    TRY(base_grow(&added, &names->name, &names->count, sizeof *added, err));
    *added = copy; /* names_free frees it */
    copy = NULL;
    return tsearch(*added, &names->tree, in_order)
               ? CODE_OK
               : err_set(err, CODE_SYSTEM, "out of memory: %d names", names->count);
}

int names_add(struct names *names, const char *text, struct err *err) {
    return add_part(names, text, strlen(text), err);
}

/* The length of what comes before a number, as W1 of W1_0; 0: nothing shorter than `length`. */
static size_t stem_length(const char *name, size_t length) {
    size_t n = length;
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    return n < length && n > 1 && name[n - 1] == '_' ? n - 1 : 0;
}

int names_add_stems(struct names *names, struct err *err) {
    int count = names->count;
    for (int i = 0; i < count; i++)
        for (size_t n = strlen(names->name[i]); (n = stem_length(names->name[i], n));)
            TRY(add_part(names, names->name[i], n, err));
    return CODE_OK;
}

void names_free(struct names *names) {
    for (int k = 0; k < names->count; k++) {
        tdelete(names->name[k], &names->tree, in_order);
        free(names->name[k]);
    }
    free(names->name);
    *names = (struct names){0};
}

int names_print(const char *title, const struct names *names, int single, FILE *out,
                struct err *err) {
    FREED(base_free) char *text = NULL;
    size_t size;
    FILE *list;
    TRY(base_text_begin(&list, &text, &size, "the names", err));
    fputs(title, list);
    for (int k = 0; k < names->count; k++)
        fprintf(list, "%s %s", k == single ? "; several at once:" : "", names->name[k]);
    TRY(base_text_end(list, "the names", CODE_OK, err));
    params_write_text("", "    ", text, out);
    return CODE_OK;
}

/* The names of all rows and of all matrices between populations, how many of them are no common
 * ones; a matrix of [output] singular that the limit has no singular values of, or ""; whether many
 * experts are routed, or any. */
struct known {
    struct names names, maps;
    int single, single_maps;
    char by_entry[NET_NAME];
    bool routed, experts;
};

static void known_free(struct known *known) {
    names_free(&known->names);
    names_free(&known->maps);
}

static int add_map(struct known *known, const struct config *config, const struct net *net,
                   const struct map_declaration *map, struct err *err) {
    if (program_lists(config->output.singular, map->name) && !net->setup.N &&
        net_map_kind(net, map) != &map_limit)
        snprintf(known->by_entry, sizeof known->by_entry, "%s", map->name);
    return names_add(&known->maps, map->name, err);
}

/* Adds the names of rows and maps of a network of width N (0: the limit). */
static int add_rows(struct known *known, const struct config *config, int N, struct err *err) {
    struct net_setup setup = config_declare(config, N);
    FREED(net_free) struct net net = {0};
    char name[NET_NAME];
    setup.measure.fields_of = setup.measure.cross_of = setup.measure.kernels_of = NULL;
    TRY(net_init(&net, &setup, err));
    for (int i = 0; i < net_names(&net); i++)
        if (net_name(&net, i, name))
            TRY(names_add(&known->names, name, err));
    for (int i = 0; i < net.maps.count; i++)
        TRY(add_map(known, config, &net, &net.maps.item[i]->declared, err));
    known->routed |= net.gates.present;
    known->experts |= net.routers.count > 0;
    return CODE_OK;
}

/* Collects the names of the limit, if there is one, and of networks. */
static int collect_known(struct known *known, const struct config *config, struct err *err) {
    int N = config_some_width(config);
    *known = (struct known){0};
    if ((config_has_limit(config) && !config->only_told) || !N)
        TRY(add_rows(known, config, 0, err));
    if (N)
        TRY(add_rows(known, config, N, err));
    known->single = known->names.count;
    known->single_maps = known->maps.count;
    TRY(names_add_stems(&known->maps, err));
    return names_add_stems(&known->names, err);
}

static bool is_among(const struct names *names, struct text_word word) {
    for (int k = 0; k < names->count; k++)
        if (text_is(word, names->name[k]))
            return true;
    return false;
}

/* things: what the names are of. */
static int refuse_name(const struct params *params, const char *key, const char *things,
                       struct text_word word, const struct names *names, struct err *err) {
    char note[TEXT_NOTE] = "", list[TEXT_NOTE] = "", given[TEXT_CLIP_SIZE], whole[TEXT_NOTE];
    snprintf(whole, sizeof whole, "%.*s", (int)word.length, word.text);
    struct text_nearest nearest = {.given = whole};
    for (int k = 0; k < names->count; k++) {
        text_nearest_try(&nearest, (struct text_word){names->name[k], strlen(names->name[k])});
        text_append(list, " %s", names->name[k]);
    }
    text_nearest_tell(&nearest, note);
    if (!names->count)
        return params_error(params, "output", key, err, "the network has no %s", things);
    return params_error(params, "output", key, err, "no %s are called %s%s; names are%s", things,
                        text_clip(given, whole), note, list);
}

/* No word twice, and (names not NULL) each of them a name. */
static int check_words(const struct params *params, const char *key, const char *words,
                       const char *things, const struct names *names, struct err *err) {
    const char *cursor = words, *before;
    struct text_word word, other;
    while (cursor && text_next_word(&cursor, " \t", &word)) {
        if (names && !is_among(names, word))
            return refuse_name(params, key, things, word, names, err);
        for (before = words; text_next_word(&before, " \t", &other) && other.text < word.text;)
            if (text_same(other, word))
                return params_error(params, "output", key, err, "%.*s comes twice",
                                    (int)word.length, word.text);
    }
    return CODE_OK;
}

static int check_times(const struct config *config, const struct params *params, struct err *err) {
    const struct int_list *at = &config->output.fields_at;
    for (int k = 0; k < at->count; k++) {
        if (at->value[k] >= config->training.steps)
            return params_error(params, "output", "fields_at", err,
                                "measured times are 0 to %d = steps - 1",
                                config->training.steps - 1);
        if (k && at->value[k] <= at->value[k - 1])
            return params_error(params, "output", "fields_at", err, "times must increase");
    }
    return CODE_OK;
}

/* Singular values of a limit belong to a march of matrices of finite rank. */
static int check_singular(const struct config *config, const struct params *params,
                          const struct known *known, struct err *err) {
    static const char *const others[] = {"singular_values", "singular_every"};
    const char *words = config->output.singular;
    for (int k = 0; k < 2 && !*words; k++)
        if (!params_at_default(params, "output", others[k]))
            return params_error(params, "output", others[k], err,
                                "it is used only with singular, which names the matrices whose "
                                "singular values are written: give that, or take this out");
    if (*words && config->solver.replicates && config->solver.method == METHOD_FIXED_POINT)
        return params_error(
            params, "output", "singular", err,
            "method = fixed_point draws fields and has no matrices: method = march");
    if (known->by_entry[0] && !config_some_width(config))
        return params_error(params, "output", "singular", err,
                            "the limit has no singular values of %s, whose entries the optimizer "
                            "moves one by one, so that what it learns is of no finite rank: give "
                            "[reference] widths of networks, which have them",
                            known->by_entry);
    return check_words(params, "singular", words, "matrices between populations", &known->maps,
                       err);
}

int names_check(const struct config *config, const struct params *params, struct err *err) {
    const struct output_settings *output = &config->output;
    const char *const keys[] = {"fields", "cross", "kernels_of"}, *const words[] = {
                                                                      output->fields, output->cross,
                                                                      output->kernels_of};
    FREED(known_free) struct known known = {0};
    TRY(check_times(config, params, err));
    TRY(check_words(params, "spectra", output->spectra, NULL, NULL, err));
    TRY(collect_known(&known, config, err));
    for (int k = 0; k < 3; k++)
        TRY(check_words(params, keys[k], words[k], "rows", &known.names, err));
    TRY(check_singular(config, params, &known, err));
    if (output->router && !known.routed)
        return params_error(params, "output", "router", err,
                            "the network has no router over many experts: no");
    if (output->experts && !known.experts)
        return params_error(
            params, "output", "experts", err,
            "the network has no gates of experts (a network in Lua tells them by gates): no");
    return CODE_OK;
}

int names_help(const struct config *config, FILE *out, struct err *err) {
    FREED(known_free) struct known known = {0};
    TRY(collect_known(&known, config, err));
    TRY(names_print("Rows, for [output] fields, kernels_of and cross:", &known.names, known.single,
                    out, err));
    if (known.maps.count)
        TRY(names_print("Matrices between populations, for [output] singular:", &known.maps,
                        known.single_maps, out, err));
    return CODE_OK;
}
