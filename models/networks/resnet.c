/* Deep residual dense network: width to infinity at a fixed number of blocks, branches scaled so
 * that depth to infinity exists as well (docs/theory/resnet.md).
 *
 *     h_0 = W0 x/sqrt D     x_l = sigma(h_l)     h_l+1 = h_l + (b/sqrt L) W_l x_l, l = 0 ... L - 1
 *     f = <w, h_L>/gamma0
 *
 * b = branch, L = depth. All blocks live on one population, the stream. Rates are those of the
 * matrices as they are used, (b/sqrt L) W_l: gradient descent moves W_l itself with the rate of the
 * dense network, Adam its entries by eta0/sqrt L. */
#include "models/parts/block.h"

static const struct param_row resnet_rows[] = {
    {"branch", PARAM_REAL, NETWORK_KEY(block.branch), "1", 1e-3, 1e3, NULL, NULL,
     "Factor b of the residual branches, which are multiplied by b/sqrt(depth)."},
    {0},
};

static void resnet_write(struct program *p) {
    const struct network *network = program_network(p);
    int L = network->block.depth;
    double scale = network->block.branch / sqrt(L);
    struct population *stream = program_layer(p, "stream", 1);
    struct value h = program_read_in(p, stream, (struct weight){.name = "W0"});
    block_stream_kernels(p, 0, h);
    for (int l = 0; l < L; l++) {
        struct weight W = {.name = program_name(p, "W_%d", l),
                           .s_f = scale,
                           .rate = scale * scale,
                           .adam_rate = network->block.branch / L};
        struct value x = program_sigma(p, h);
        program_kernel(p, x, 1, program_name(p, "Phi_%d", l), "feature kernel of a branch",
                       "<x_l x_l>");
        h = program_add(p, h, program_map(p, x, stream, W));
        block_stream_kernels(p, l + 1, h);
    }
    program_read_out(p, h, (struct weight){.name = "w"});
}

MODEL(resnet, .doc = "deep residual dense network, infinitely wide",
      .source =
          "Bordelon, Noci, Li, Hanin & Pehlevan, Depthwise hyperparameter transfer in residual "
          "networks: dynamics and scaling limit (2023)",
      .keys = "read_out activation depth branch", .rows = resnet_rows, .write = resnet_write);
