/* Full-batch gradient descent: one step of size eta0 (times gamma0^2 N and the rate of each block,
 * docs/theory/regime2.md section 1). The limit is that of the same discrete algorithm, exactly. */
#include "integrators/integrator.h"

static int gd_advance(struct net *net, const struct training *training, const double *y,
                      struct err *err) {
    (void)y;
    return net_learn(net, training->eta0, err);
}

const struct integrator integrator_gd = {.advance = gd_advance};

#define OFFSET(field) offsetof(struct training, field)
const struct param_row training_rows[] = {
    {"steps", PARAM_INT, OFFSET(steps), "20", 1, 1000000, NULL, NULL,
     "measured times T; T - 1 updates lie between them"},
    {"eta0", PARAM_REAL, OFFSET(eta0), "0.3", 0, 1e6, NULL, NULL, "learning rate eta0"},
    {"gamma0", PARAM_REAL, OFFSET(gamma0), "1", 1e-6, 1e6, NULL, NULL,
     "feature learning strength: 0.1 is lazy, 1 is rich"},
    {"loss", PARAM_CHOICE, OFFSET(loss), "mse", 0, 0, "mse logistic", NULL,
     "mse: (y - f)^2/2; logistic: log(1 + exp(-y f)), labels +-1"},
};
const size_t training_rows_count = sizeof training_rows / sizeof *training_rows;
