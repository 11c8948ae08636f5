#include "solver/measure/coordinate.h"
int coordinate_declare(struct record *record, const struct net_setup *setup, struct err *err) {
    (void)record, (void)setup, (void)err;
    return CODE_OK;
}
int coordinate_measure(struct coordinate *check, const struct net *net, int t, int run,
                       struct record *record, struct series **next, struct err *err) {
    (void)check, (void)net, (void)t, (void)run, (void)record, (void)next, (void)err;
    return CODE_OK;
}
void coordinate_free(struct coordinate *check) {
    *check = (struct coordinate){0};
}
