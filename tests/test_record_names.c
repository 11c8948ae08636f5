/* Names of results: what the output needs for something else is refused before anything runs, and
 * what a series is does not follow from how it is called. */
#include "tests/support/support.h"
#include "solver/measure/observe.h"
#include "solver/run/parts.h"

/* Declares the record of a network of width 16 that shows the mean of h under this name. */
static int declare_result(const char *name, const char *const *overrides, struct series *shown,
                          struct err *out) {
    char text[512];
    char *all[8] = {text, (char *)"network.program=t.lua"};
    int count = 2;
    struct run run = {0};
    struct net net;
    struct record record;
    snprintf(text, sizeof text,
             "network.program_text=key('depth', 1)\\nlocal a = population('a')\\nlocal h = "
             "read_in(a, 'W1')\\n"
             "name_rows(h, 'u')\\nshow(mean(h), '%s')\\nread_out(h, 'w')\\n",
             name);
    for (; *overrides; overrides++)
        all[count++] = (char *)(uintptr_t)*overrides;
    *out = (struct err){0};
    if (run_configure(&run, "examples/dense.ini", count, all, out)) {
        run_free(&run);
        return out->code;
    }
    support_net(&net, &run, 16, 0);
    ASK(record_init(&record, 2, run.config.training.steps, err));
    int code = observe_declare(&record, &run.config, &net.setup, NULL, out);
    if (!code)
        *shown = *record_find(&record, name);
    record_free(&record);
    net_free(&net);
    run_free(&run);
    return code;
}

/* Names that the output needs for something else, with or without the keys that make it need them,
 * are refused before anything runs; others are free, and what a series is does not follow from how
 * it is called. */
TEST(names_of_results) {
    static const char *const keys[] = {"output.fields=u", "output.spectra=tangent",
                                       "output.weights=both", NULL},
                             *const plain[] = {NULL};
    static const struct {
        const char *name, *part;
    } cases[] = {{"n", "two arrays n: "},
                 {"sweeps", "two arrays sweeps"},
                 {"basis_name", "two arrays basis_name"},
                 {"t", "a result and an axis"},
                 {"mu", "two arrays mu"},
                 {"run", "two arrays run"},
                 {"loss", "two results of this network are called loss"},
                 {"f_tolerance", "what is written beside result f"},
                 {"loss_se", "what is written beside result loss"},
                 {"loss_pseudo", "what is written beside result loss"},
                 {"f_runs", "what is written beside result f"}},
      with_keys[] = {{"at", "two arrays at"},
                     {"site", "two arrays site"},
                     {"probability", "two arrays probability"},
                     {"k", "two arrays k"},
                     {"kept", "two arrays kept"},
                     {"W1_target", "two arrays W1_target"},
                     {"weights_w", "two results of this network are called weights_w"},
                     {"u_mean", "two results of this network are called u_mean"}};
    static const char *const free_names[] = {"at",           "site",       "i",        "N",
                                             "largest_mean", "accuracy_x", "rank_1",   "f_x",
                                             "a_diag",       "kept",       "weights_w"};
    struct series shown;
    struct err said;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        if (declare_result(cases[k].name, plain, &shown, &said) != CODE_INPUT ||
            !strstr(said.text, cases[k].part))
            fail_msg("%s: %s", cases[k].name, said.text);
    for (size_t k = 0; k < sizeof with_keys / sizeof *with_keys; k++)
        if (declare_result(with_keys[k].name, keys, &shown, &said) != CODE_INPUT ||
            !strstr(said.text, with_keys[k].part))
            fail_msg("%s: %s", with_keys[k].name, said.text);
    for (size_t k = 0; k < sizeof free_names / sizeof *free_names; k++) {
        if (declare_result(free_names[k], plain, &shown, &said))
            fail_msg("%s: %s", free_names[k], said.text);
        assert_true(!shown.no_error_law && !shown.keep_runs && !shown.computation);
    }
}

/* More arrays than HDF5 lets share the axis of times are refused before anything is computed. */
TEST(as_many_as_a_file_takes) {
    for (int many = 0; many < 2; many++) {
        FREED(record_free) struct record record;
        struct err said = {0};
        ASK(record_init(&record, 1, 2, err));
        for (int k = 0; k < (many ? 4010 : 3990); k++) {
            struct series series = {.dims = "t", .axes = 1, .shape = {2}, .computation = true};
            series.runs_alone = true; /* written without an error beside it */
            snprintf(series.name, sizeof series.name, "s%d", k);
            ASK(record_add(&record, series, err));
        }
        assert_int_equal(record_check_names(&record, false, &said), many ? CODE_INPUT : CODE_OK);
        if (many && !strstr(said.text, "arrays in one group, and HDF5 takes at most 4000"))
            fail_msg("%s", said.text);
    }
}

/* Whether a name, without the number of its block, is in a list that ends with NULL. */
static bool is_in(const char *const *list, const char *name) {
    size_t length = strlen(name);
    while (length && strchr("0123456789", name[length - 1]))
        length--;
    length = length < strlen(name) && length && name[length - 1] == '_' ? length - 1 : strlen(name);
    while (*list && (strlen(*list) != length || strncmp(*list, name, length) != 0))
        list++;
    return *list;
}

/* Which series have no normal errors and no law in 1/N, tell of the computation, are positive so
 * that halves correct their logarithm, and are kept run by run: docs/method.md, section 3, "What is
 * corrected", and docs/output.md. */
TEST(kinds_of_series) {
    static const char *const files[] = {"data/regime2.ini", "data/stack.ini"};
    static const char *const keys[] = {
        "network.rho=0.5",    "data.test_inputs=2",   "output.kernels=full",  "output.experts=yes",
        "output.tangent=sum", "output.gradients=yes", "output.sharpness=sum", NULL};
    static const char *const jumps[] =
        LIST("accuracy", "test_accuracy", "top_accuracy", "test_top_accuracy", "gate_largest",
             "gate_top", "expert_dead", "expert_largest", "expert_logits", "expert_of_input",
             "expert_share", "expert_share_of_input", NULL);
    static const char *const computed[] = {"rank", "fallback", "unmatched", "carriers", NULL},
                             *const kept[] = {"f", "loss", "test_loss", NULL};
    for (int k = 0; k < 4; k++) {
        int found[4] = {0};
        RUN_AND_RECORD;
        support_run(&run, files[k / 2], keys);
        struct net_setup setup = run_setup(&run, k % 2 ? 16 : 0, 0);
        ASK(record_init(&record, 0, 3, err));
        ASK(observe_declare(&record, &run.config, &setup, run.data.y, err));
        for (int i = 0; i < record.count; i++) {
            const struct series *s = &record.series[i];
            if (s->inner) /* not of the result */
                continue;
            bool law = !is_in(jumps, s->name),
                 positive = is_in((const char *const[]){"gate_participation", NULL}, s->name);
            if (s->no_error_law == law || s->computation != is_in(computed, s->name) ||
                s->keep_runs != is_in(kept, s->name) || (law && s->positive != positive))
                fail_msg("%s, N = %d: %s", files[k / 2], setup.N, s->name);
            found[0] += !law;
            found[1] += s->computation;
            found[2] += s->keep_runs;
            found[3] += positive;
        }
        assert_true(found[0] >= 8 && found[1] == (k % 2 ? 0 : 4) && found[2] == 3 && found[3] > 0);
    }
}

/* Every kernel of a fixed point has a name of its own, which the file has beside its changes. */
TEST(kernels_of_a_fixed_point) {
    static const char *const files[] = {"data/dense.ini", "data/regime2.ini"};
    static const char *const keys[] = {"solver.method=fixed_point", "reference.widths=", NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FREED(run_free) struct run run;
        FREED(record_free) struct record record = {0};
        support_run(&run, files[i], keys);
        struct net_setup setup = run_setup(&run, 0, 0);
        ASK(iteration_declare(&record, &run.config, &setup, 1, err));
        char *const *label = record.labels;
        const struct series *change = record_find(&record, "change");
        assert_true(change->shape[1] > 3);
        for (size_t k = 0; k < change->shape[1]; k++) {
            assert_true(label[k] && *label[k]);
            for (size_t l = 0; l < k; l++)
                assert_string_not_equal(label[k], label[l]);
        }
    }
}
