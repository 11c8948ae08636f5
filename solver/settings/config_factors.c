/* Powers of quantities other than the width in [init], [rates], [eps] and [decays]: numbers, once
 * the whole configuration and the data are known. */
#include "solver/settings/config.h"
#include "solver/settings/factor.h"
#include "solver/settings/param_keys.h"
#include "solver/settings/row.h"

#include <math.h>
#include <string.h>

/* The number of a key of [network]; false: it has no effect on this network. */
static bool number_of(const struct config *config, const struct params *params, const char *key,
                      double *out) {
    const struct param_section *s = params->sections;
    while (strcmp(s->name, "network") != 0)
        s++;
    for (const struct param_row *row = s->rows; row < s->rows + s->count; row++) {
        const char *slot = (const char *)config + s->offset + row->offset;
        if (strcmp(row->key, key) != 0)
            continue;
        *out = row->type == PARAM_INT ? *(const int *)slot : *(const double *)slot;
        return row_used(s, row, param_values(params, s));
    }
    return false;
}

/* P or D. */
static double number_of_data(const char *name, int P, int D) {
    return strcmp(name, "P") ? D : P;
}

static int settle_factor(const struct config *config, const struct params *params,
                         const char *section, struct factor *factor, int P, int D,
                         struct err *err) {
    for (int k = 0; k < FACTOR_QUANTITIES; k++) {
        const struct factor_quantity *quantity = &factor_quantities[k];
        double number = number_of_data(quantity->name, P, D), times;
        if (factor->powers[k] == 0)
            continue;
        if (*quantity->key && !number_of(config, params, quantity->key, &number))
            return params_error(params, section, factor->name, err,
                                "this network has no %s, the %s ([network] %s): take it out",
                                quantity->name, quantity->doc, quantity->key);
        times = pow(number, factor->powers[k]);
        if (times == 0 || !isfinite(factor->factor * times))
            return params_error(params, section, factor->name, err,
                                "%s = %g to the power %g is beyond the range of numbers",
                                quantity->name, number, factor->powers[k]);
        factor->factor *= times;
        factor->powers[k] = 0; /* it is in the factor now */
    }
    return CODE_OK;
}

int config_factors(struct config *config, const struct params *params, int P, int D,
                   struct err *err) {
    const struct {
        const char *name;
        const struct factor_list *list;
    } sections[] = {{"init", &config->init},
                    {"rates", &config->rates},
                    {"eps", &config->eps},
                    {"decays", &config->decays}};
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
        for (int i = 0; i < sections[s].list->count; i++)
            TRY(settle_factor(config, params, sections[s].name, &sections[s].list->factor[i], P, D,
                              err));
    return CODE_OK;
}
