/* The deep dense network (Bordelon & Pehlevan 2022; docs/theory/regime1.md, one expert).
 *
 *     h_1 = W1 x/sqrt D     h_l = W_l sigma(h_l-1), l = 2 ... depth
 *     f = <w, sigma(h_depth)>/gamma0
 */
#include "models/engine/net.h"

static void add_kernels(struct program *p, int l, struct value h, struct value x) {
    program_name_rows(p, h, program_name(p, "h%d", l));
    program_kernel(p, x, 1, program_name(p, "Phi%d", l), "feature kernel", "<sigma(h) sigma(h)>");
    program_gradient(p, h, 1, program_name(p, "G%d", l), "gradient kernel", "<g g>");
}

static void dense_write(struct program *p) {
    int depth = program_network(p)->block.depth;
    struct population *on = program_layer(p, "bottom", 1);
    struct population *top = depth > 1 ? program_layer(p, "top", 1) : on;
    struct value h = program_read_in(p, on, (struct weight){.name = "W1"}), x;
    for (int l = 1;; l++) {
        x = program_sigma(p, h);
        add_kernels(p, l, h, x);
        if (l == depth)
            break;
        const char *name = program_name(p, "W%d", l + 1);
        on = l + 1 < depth ? program_layer(p, name, 1) : top;
        h = program_map(p, x, on, (struct weight){.name = name});
    }
    program_kernel(p, x, 1, "PhiL", "feature kernel of the top", "<h_top h_top>");
    program_read_out(p, x, (struct weight){.name = "w"});
}

MODEL(dense, .doc = "deep dense network, infinitely wide",
      .source =
          "Bordelon & Pehlevan, Self-consistent dynamical field theory of kernel evolution in "
          "wide neural networks (2022)",
      .keys = "read_out activation depth", .write = dense_write);
