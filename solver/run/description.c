#include "solver/run/parts.h"
#include "models/engine/describe.h"
#include "solver/files/provenance.h"
#include "solver/settings/row.h"

#include <errno.h>

enum { FORMAT = 1 };

/* Sections that say what a network is and how it learns. */
static const char *const sections_told[] = {"network", "program", "data", "training", NULL};

static bool is_told(const char *name) {
    for (int k = 0; sections_told[k]; k++)
        if (!strcmp(name, sections_told[k]))
            return true;
    return false;
}

/* The object, or NULL where something in it found no memory. */
static json_t *whole_or_none(json_t *object, bool whole) {
    if (whole)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *list_of(const struct int_list *given) {
    json_t *list = json_array();
    bool whole = true;
    for (int k = 0; k < given->count; k++)
        whole &= !json_array_append_new(list, json_integer(given->value[k]));
    return whole_or_none(list, whole);
}

/* A value with its type; slot is its place in the configuration. */
static json_t *value_of(const struct param_row *row, const char *text, const void *slot) {
    const struct real_list *reals = slot;
    switch (row->type) {
    case PARAM_INT:
        return json_integer(*(const int *)slot);
    case PARAM_SEED:
        return *(const uint64_t *)slot > INT64_MAX /* beyond the whole numbers of jansson */
                   ? json_string(text)
                   : json_integer((json_int_t) * (const uint64_t *)slot);
    case PARAM_REAL:
        return json_real(*(const double *)slot);
    case PARAM_INTS:
        return list_of(slot);
    case PARAM_REALS:
        return describe_list(reals->value, (size_t)reals->count);
    default: /* words */
        return json_string(text);
    }
}

/* The keys of a section that have an effect with these settings. */
static json_t *section_of(const struct run *run, const struct param_section *section,
                          const struct param_value *values) {
    json_t *out = json_object();
    bool whole = true;
    for (size_t k = 0; k < section->count; k++) {
        const struct param_row *row = &section->rows[k];
        const char *slot = (const char *)&run->config + section->offset + row->offset;
        if (row_used(section, row, values))
            whole &= !json_object_set_new(out, row->key, value_of(row, values[k].text, slot));
    }
    FOR_EACH_OF (const struct param_free, key, run->params.free, run->params.frees) {
        if (key->section == section)
            whole &= !json_object_set_new(out, key->key, json_string(key->value.text));
    }
    return whole_or_none(out, whole);
}

static json_t *settings_of(const struct run *run) {
    const struct params *params = &run->params;
    const struct param_value *values = params->values;
    json_t *out = json_object();
    bool whole = true;
    for (size_t s = 0; s < params->count; values += params->sections[s].count, s++)
        if (is_told(params->sections[s].name))
            whole &= !json_object_set_new(out, params->sections[s].name,
                                          section_of(run, &params->sections[s], values));
    return whole_or_none(out, whole);
}

/* The network of width N; 0: the limit. It has arrays of all inputs, of which nothing but the
 * number is told, and is made for two: one row would be no row of each input. */
static int describe_width(const struct run *run, int N, json_t **out, struct err *err) {
    struct net_setup setup = run_setup(run, N, 0);
    FREED(net_free) struct net net = {0};
    int P = setup.data.P;
    setup.data.inputs = setup.data.inputs ? setup.data.inputs : P;
    setup.data.P = P < 2 ? P : 2;
    TRY(net_declare(&net, &setup, err));
    net.setup.data.P = P;
    return describe_net(&net, out, err);
}

static int add_value(json_t *whole, const char *key, json_t *value, struct err *err) {
    return json_object_set_new(whole, key, value)
               ? describe_failed("the description of the network", err)
               : CODE_OK;
}

/* The limit under its name, or why there is none. */
static int add_limit(const struct run *run, json_t *whole, struct err *err) {
    json_t *limit = NULL;
    int code = describe_width(run, 0, &limit, err);
    if (!code)
        return add_value(whole, "limit", limit, err);
    if (code != CODE_INPUT)
        return code;
    struct err reason = *err;
    *err = (struct err){0};
    TRY(add_value(whole, "no_limit", json_string(reason.text), err));
    return add_value(whole, "limit", json_null(), err);
}

static int add_networks(const struct run *run, json_t *whole, struct err *err) {
    const struct int_list *widths = &run->config.reference.widths;
    json_t *networks = json_array(), *network;
    TRY(add_value(whole, "networks", networks, err));
    for (int i = 0; i < widths->count; i++) {
        TRY(describe_width(run, widths->value[i], &network, err));
        if (json_array_append_new(networks, network))
            return describe_failed("the description of the network", err);
    }
    return CODE_OK;
}

int description_text(const struct run *run, bool limit, char **text, struct err *err) {
    errno = 0;
    json_auto_t *whole = json_pack("{s:i, s:s, s:o, s:i, s:i}", "format", FORMAT, "version",
                                   provenance_version, "settings", settings_of(run), "dimension",
                                   run->data.D, "test_inputs", run->data.tests);
    *text = NULL;
    if (!whole)
        return describe_failed("the description of the network", err);
    TRY(limit ? add_limit(run, whole, err) : add_value(whole, "limit", json_null(), err));
    TRY(add_networks(run, whole, err));
    return describe_text(whole, "the description of the network", text, err);
}
