/* A network of one's own, from C: gated units, of which every one is the product of a feature and
 * of a gate. Five lines say what it is; the limit, finite networks and their gradients follow.
 *
 *     cc -fopenmp own_network.c $(pkg-config --cflags --libs dmft) -o own_network && ./own_network
 */
#include <dmft.h>
#include <models/language/program.h>
#include <stdio.h>

/* h = W1 x/sqrt D, g = W2 tanh h, f = <w, tanh(W3 tanh h) sigmoid(g)>/gamma0 */
static void gated_write(struct program *p) {
    size_t sites = dmft_sites(p);
    struct population *bottom = program_population(p, "bottom", 1, sites, 1);
    struct population *top = program_population(p, "top", 1, sites, 1);
    struct value x = program_sigma(p, program_read_in(p, bottom, (struct weight){.name = "W1"}));
    struct value gate =
        program_fn(p, FN_SIGMOID, 1, program_map(p, x, top, (struct weight){.name = "W2"}));
    struct value h = program_sigma(p, program_map(p, x, top, (struct weight){.name = "W3"}));
    struct value out = program_multiply(p, h, gate);
    program_kernel(p, out, 1, "Phi", "feature kernel of the top", "<h_top h_top>");
    program_read_out(p, out, (struct weight){.name = "w"});
}

static const struct model gated = {.name = "gated",
                                   .doc = "one layer of gated units on one of features",
                                   .source = "this file",
                                   .keys = "read_out activation",
                                   .write = gated_write};

static const char ini[] = "[network]\nmodel = gated\n"
                          "[data]\ninputs = 4\ndimension = 10\n"
                          "[training]\nsteps = 10\n"
                          "[solver]\nsites = 512\nreplicates = 4\n"
                          "[reference]\nwidths = 128\nseeds = 8\n";

int main(void) {
    struct dmft *d = dmft_new();
    struct dmft_series limit, network;
    int code = 1;
    if (d && !dmft_add_network(d, &gated) && !dmft_text(d, ini) &&
        !dmft_set(d, "training.eta0", "1") && !dmft_run(d, NULL, 0) &&
        !dmft_series(d, 0, "loss", &limit) && !dmft_series(d, 128, "loss", &network)) {
        printf("  t    limit               N = 128\n");
        for (size_t t = 0; t < limit.size; t++)
            printf("%3zu  %.5f +- %.5f  %.5f +- %.5f\n", t, limit.mean[t], limit.se[t],
                   network.mean[t], network.se[t]);
        code = 0;
    } else if (d) {
        fprintf(stderr, "%s\n", dmft_error(d));
    }
    dmft_free(d);
    return code;
}
