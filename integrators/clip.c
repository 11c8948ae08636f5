/* Clipping by global norm. */
#include "integrators/clip.h"

int clip_factor(const struct net *net, const struct training *training, double *factor,
                struct err *err) {
    double norm;
    *factor = 1;
    if (training->clip == 0)
        return CODE_OK;
    TRY(net_gradient_norm(net, &norm, err));
    if (norm > training->clip)
        *factor = training->clip / norm;
    return CODE_OK;
}
