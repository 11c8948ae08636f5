/* Programs that are wrong, besides those of tests/refusals_lua.txt: what is told first, and that
 * nothing crashes or leaks. */
#include "tests/support/places.h"

static struct value rows_of_bottom(struct program *p) {
    populate(p);
    return program_read_in(p, on[BOTTOM], (struct weight){.name = "in"});
}

static void write_numbers_as_rows(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_read_out(p, program_fn(p, FN_TANH, 1, program_mean(p, x)),
                     (struct weight){.name = "w"});
    program_population(p, "late", 1, 8, 1);
}

static void write_tied_for_nothing(struct program *p) {
    const struct weight T = {.name = "T", .tied = true};
    struct value x = rows_of_bottom(p);
    program_map(p, x, on[BOTTOM], T);
    program_map(p, x, on[BOTTOM], T);
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_sum_with_ones(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_read_out(p, program_add(p, x, program_ones(p, on[BOTTOM])),
                     (struct weight){.name = "w"});
}

static void write_choice_of_none(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_read_out(
        p,
        program_multiply(
            p, program_word(p, "top_rows", (struct operands){.x = x, .constant = {-1}}), x),
        (struct weight){.name = "w"});
}

static void write_tile_that_does_not_fit(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_read_out(p, program_word(p, "tile", (struct operands){.x = x, .on = on[PAIRS]}),
                     (struct weight){.name = "w"});
}

static void write_bias_of_rows(struct program *p) {
    const double start[] = {0};
    struct value x = rows_of_bottom(p);
    program_bias(p, x, start, (struct weight){.name = "b"});
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_kernel_of_nothing(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_kernel(p, (struct value){-1}, 1, "Phi", "", "");
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_gradient_of_an_end(struct program *p) {
    struct value x = rows_of_bottom(p);
    program_gradient(p, program_fn(p, FN_TANH, 1, x), 1, "G", "", "");
    program_read_out(p, x, (struct weight){.name = "w"});
}

/* The first thing that is wrong is told, nothing crashes, and nothing leaks (make SAN=1). */
TEST(wrong_programs_are_told) {
    static const STRUCT(void (*write)(struct program * p); const char *part) cases[] = {
        {write_numbers_as_rows, "takes rows over a population"},
        {write_sum_with_ones, "a sum of rows of all inputs and of each"},
        {write_choice_of_none, "top_rows of -1 tokens"},
        {write_tile_that_does_not_fit, "tile from population bottom does not fit pairs"},
        {write_bias_of_rows, "a bias takes numbers"},
        {write_kernel_of_nothing, "kernel Phi is not of rows"},
        {write_gradient_of_an_end, "a gradient that the output does not have"},
        {write_tied_for_nothing, "does not depend on matrix T"},
    };
    static const char *const none[] = {NULL};
    FREED(run_free) struct run run;
    start(&run, none);
    for (size_t k = 0; k < COUNT(cases); k++) {
        struct model model = {.name = "wrong", .write = cases[k].write};
        struct net_setup setup = run_setup(&run, 8, 0);
        FREED(net_free) struct net net;
        struct err err = {0};
        setup.model = &model;
        assert_int_equal(net_init(&net, &setup, &err), CODE_INPUT);
        if (!strstr(err.text, cases[k].part))
            fail_msg("%s: does not say \"%s\"", err.text, cases[k].part);
        assert_int_equal(net.populations.count,
                         6); /* none behind a fault: net_free would miss it */
    }
}

/* Of populations and matrices there are as many as have draws of their own. */
static void write_too_many(struct program *p) {
    for (int k = 0; k <= RNG_OWNERS; k++)
        program_population(p, "many", 1, 8, 1);
}

TEST(draws_are_of_one_owner) {
    static const char *const none[] = {NULL};
    struct model model = {.name = "many", .write = write_too_many};
    FREED(run_free) struct run run;
    start(&run, none);
    struct net_setup setup = run_setup(&run, 8, 0);
    FREED(net_free) struct net net;
    struct err err = {0};
    setup.model = &model;
    setup.declare_only = true;
    assert_int_equal(net_init(&net, &setup, &err), CODE_INPUT);
    assert_string_equal(err.text, "network many: it has more than 65536 populations");
}
