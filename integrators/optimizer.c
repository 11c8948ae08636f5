/* Gradient descent with memory: one step after each evaluation, with the gradient clipped
 * (integrator_clip) before anything else, at the rate eta0 s of its time (schedule_factor). Which
 * step it is, the row of the optimizer says. */
#include "integrators/integrator.h"
#include "kernels/base/text.h"
#include "kernels/maps/map_response.h"
#include "kernels/maps/polar.h"

#define OPTIMIZER_CHOICE(name) &optimizer_##name.choice,
const struct choice *const optimizer_list[] = {OPTIMIZERS(OPTIMIZER_CHOICE) NULL};
#undef OPTIMIZER_CHOICE
const struct choice *const optimizer_rest_list[] = {&optimizer_adam.choice, &optimizer_gd.choice,
                                                    NULL};

const struct optimizer *optimizer_row(size_t k) {
    return (const struct optimizer *)optimizer_list[k];
}

const char *optimizer_class(const struct optimizer *optimizer) {
    return optimizer->matrices ? "whole" : optimizer->rule ? "entry" : "matrix";
}

void optimizer_name_by_entry(char *note) {
    const char *joint = "";
    for (size_t k = 0; optimizer_list[k]; k++)
        if (optimizer_by_entry(optimizer_row(k))) {
            text_append(note, "%s%s", joint, optimizer_list[k]->name);
            joint = " or ";
        }
}

double optimizer_rate(const struct optimizer_step *step) {
    return step->training->eta0 * step->schedule * step->parameter->adam.rate;
}

double optimizer_eps(const struct optimizer_step *step) {
    return step->training->adam.eps * step->parameter->adam.eps;
}

static int move_entries(const struct optimizer_step *step, struct change *change,
                        struct array memory[2], struct err *err) {
    const struct optimizer *optimizer = step->training->optimizer;
    if (optimizer->plain)
        return change_apply(change, err);
    if (!optimizer->rule)
        return optimizer->move(step, change, memory, err);
    return change_entries(change, optimizer->rule(step), memory, optimizer->memories, err);
}

static void move_host(const struct optimizer_step *step, int K, const double *gradient,
                      double *memory, double *numbers) {
    const struct optimizer *optimizer = step->training->optimizer;
    if (optimizer->plain) {
        for (int k = 0; k < K; k++)
            numbers[k] += gradient[k];
        return;
    }
    if (!optimizer->rule) {
        optimizer->move_host(step, K, gradient, memory, numbers);
        return;
    }
    struct entry_rule rule = optimizer->rule(step);
    for (int k = 0; k < K; k++)
        numbers[k] += entry_step(&rule, gradient[k], memory + k, memory + K + k);
}

/* What the gradient is multiplied by before the optimizer sees it. */
static double factor_of(const struct net *net, const struct optimizer_step *step) {
    const struct training *training = step->training;
    if (optimizer_normalises(training->optimizer))
        return 1;
    return training->eta0 * net->setup.gamma0 * step->parameter->rate *
           (training->optimizer->plain ? step->schedule : 1);
}

/* What the terms of a map, or its responses, know of its learning moves as the map does. */
static int move_terms(const struct net *net, const struct optimizer_step *step, double rate,
                      struct parameter *p, struct err *err) {
    struct map_terms *terms = p->map->terms;
    struct change change;
    FREED(base_free) double *c = NULL, *gradient = NULL;
    TRY(base_alloc(&c, (size_t)p->rows, sizeof *c, err));
    net_coefficients(net, p, 0, rate, c);
    if (step->training->optimizer->rule) {
        TRY(map_response_change(p->map, c, &change, err));
        TRY(move_entries(step, &change, p->map->response->moment, err));
    } else {
        TRY(map_terms_gradient(p->map, c, &gradient, err));
        move_host(step, terms->numbers, gradient, terms->velocity, terms->c);
    }
    return CODE_OK;
}

/* Where the map moves as a whole, `along` is what goes with its change. */
static int move_along(const struct net *net, double rate, struct parameter *p,
                      struct change *change, struct change *along, struct err *err) {
    struct map_response *response = p->map->response;
    SCRATCH(double, c, (size_t)p->rows);
    net_coefficients(net, p, 0, rate, c);
    int code = map_response_whole(p->map, c, along, err);
    if (code) {
        change_free(change);
        return code;
    }
    change->along = along;
    change->along_memory = &response->moment[0];
    return CODE_OK;
}

static int move_parameter(const struct net *net, const struct optimizer_step *step, double clip,
                          struct parameter *p, struct err *err) {
    double rate = factor_of(net, step);
    bool terms = p->map && p->map->terms, entries = !p->map || p->map->kind->change;
    struct change change, along;
    SCRATCH(double, host, (size_t)p->K);
    if (p->K && !p->host_moment)
        TRY(base_alloc(&p->host_moment, 2 * (size_t)p->K, sizeof *p->host_moment, err));
    TRY(net_change(net, p, clip * rate, &change, host, err));
    if (p->K)
        move_host(step, p->K, host, p->host_moment, p->host);
    if (terms && step->training->optimizer->matrices)
        TRY(move_along(net, clip * rate, p, &change, &along, err));
    if (!p->host && entries)
        TRY(move_entries(step, &change, p->moment, err));
    if (terms && !step->training->optimizer->matrices)
        TRY(move_terms(net, step, clip * rate, p, err));
    return CODE_OK;
}

/* The parameters that are moved as one matrix with parameter i, the first of them; how many. */
static int find_parts(struct net *net, int i, struct parameter **found) {
    int count = 0;
    for (int k = i; k < net->parameters.count; k++) {
        struct parameter *p = &net->parameters.item[k];
        if (net_moved_together(&net->parameters.item[i], p))
            found[count++] = p;
    }
    return count;
}

static int move_parts(const struct net *net, const struct optimizer_step *step, double clip,
                      struct parameter *const *p, int parts, struct err *err) {
    struct polar_part *part;
    int code = CODE_OK, made = 0;
    TRY(base_alloc(&part, (size_t)parts, sizeof *part, err));
    for (; made < parts; made++) {
        DO(net_change(net, p[made], clip, &part[made].change, NULL, err));
        part[made].velocity = &p[made]->moment[0];
    }
    DO(step->training->optimizer->move_parts(
        step, part, parts, net_stacked(net, p[0], p[1]) == (net->setup.N > 0), err));
    made = 0; /* they have been used up */
done:
    for (int k = 0; k < made; k++)
        change_free(&part[k].change);
    free(part);
    return code;
}

/* Parameter i, with those that are moved as one matrix with it. */
static int move_with(struct net *net, const struct optimizer_step *step, double clip, int i,
                     struct err *err) {
    SCRATCH(struct parameter *, p, (size_t)net->parameters.count);
    int parts = find_parts(net, i, p);
    return parts > 1 ? move_parts(net, step, clip, p, parts, err)
                     : move_parameter(net, step, clip, p[0], err);
}

static int optimizer_advance(struct net *net, const struct training *training, const double *y,
                             struct err *err) {
    struct optimizer_step step = {.stop = &net->setup.stop,
                                  .schedule = schedule_factor(training, net->place.t),
                                  .t = net->place.t};
    struct training rest = *training; /* of what a rest_optimizer moves */
    double clip;
    rest.optimizer = training->muon.rest_optimizer;
    rest.eta0 = training->muon.rest_eta0;
    TRY(integrator_clip(net, training, &clip, err));
    TRY(net_keep(net, 0, true, err));
    net_decay(net, step.schedule * training->weight_decay);
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(base_go_on(step.stop, err));
        step.parameter = &net->parameters.item[i];
        step.training =
            net_optimizer(&net->setup, step.parameter->map ? step.parameter->name : NULL) ==
                    training->optimizer
                ? training
                : &rest;
        if (!net_moved_before(net, i))
            TRY(move_with(net, &step, clip, i, err));
    }
    net_next(net);
    return net_evaluate(net, training->loss, y, err);
}

const struct integrator integrator_optimizer = {.stages = 1, .advance = optimizer_advance};
