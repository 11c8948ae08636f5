/* Sequences of tokens (tokens.h). Draws are numbered by sequence and place. */
#include "solver/data/tokens.h"
#include "kernels/draws/rng.h"

/* These are owners of PURPOSE_DATA, beside those of corpus.c and normals.c. */
enum { OWNER_CHAIN = 1, OWNER_LETTERS = 2 };

void tokens_rows(const struct data *data, size_t first, size_t count, double *X) {
    size_t n = (size_t)data->n, D = (size_t)data->D, V = (size_t)data->V;
    bool positions = D > V;
    double one = sqrt((double)D / (positions ? 2 : 1));
    memset(X, 0, count * D * sizeof *X);
    for (size_t k = 0; k < count; k++) {
        X[k * D + (size_t)data->token[first + k]] = one;
        if (positions)
            X[k * D + V + (first + k) % n] = one;
    }
}

/* The root of a tree of tokens and places that rows have joined. */
static int root_of(int *above, int at) {
    while (above[at] != at)
        at = above[at] = above[above[at]];
    return at;
}

int tokens_open(const struct data *data, size_t *row, int *trained, int *count, struct err *err) {
    int n = data->n, V = data->V, one = data->D == V; /* one: all rows have one place */
    SCRATCH(int, above, (size_t)(V + n));
    for (int k = 0; k < V + n; k++)
        above[k] = k;
    *trained = *count = 0;
    for (size_t r = 0; r < data_rows(data); r++) {
        int token = root_of(above, data->token[r]),
            place = root_of(above, V + (one ? 0 : (int)(r % (size_t)n)));
        if (token == place)
            continue;
        above[token] = place;
        row[(*count)++] = r;
        *trained += r < (size_t)data->P * (size_t)n;
    }
    return CODE_OK;
}

int tokens_basis(const struct data *data, const size_t *row, int count, double *basis,
                 struct err *err) {
    int V = data->V, D = data->D;
    SCRATCH(int, set, (size_t)D + 1);
    SCRATCH(int, size, (size_t)D + 1);
    for (int i = 0; i <= D; i++)
        set[i] = i, size[i] = 1;
    for (int k = 0; k < count; k++) {
        int place = D > V ? V + (int)(row[k] % (size_t)data->n) : D;
        int A = set[data->token[row[k]]], B = set[place];
        double a = size[A], b = size[B], length = D > V ? sqrt(1 / a + 1 / b) : 1;
        TRY(base_poll(err, "directions of the inputs are found"));
        for (int i = 0; i < D; i++) {
            double part = set[i] == A ? 1 / a : set[i] == B ? -1 / b : 0;
            if (part == 0)
                continue;
            basis[(size_t)i * (size_t)count + (size_t)k] = (i < V ? part : -part) / length;
            set[i] = A;
        }
        size[A] += size[B];
    }
    return CODE_OK;
}

struct data tokens_sizes(const struct sequences *sequences, int P, int tests, int n,
                         bool positions) {
    int V = sequences->letters + (sequences->kind != SEQUENCE_MARKOV);
    return (struct data){.P = P,
                         .tests = tests,
                         .n = n,
                         .D = V + (positions ? n : 0),
                         .C = sequences->letters,
                         .per_token = true,
                         .classes = true,
                         .numbered = true,
                         .V = V};
}

double tokens_bytes(const struct sequences *sequences) {
    double pairs = (double)sequences->letters * sequences->letters;
    return sequences->kind == SEQUENCE_COPY     ? 0
           : sequences->kind == SEQUENCE_MARKOV ? pairs * sizeof(double)
                                                : pairs * sizeof(size_t);
}

/* --- draws ----------------------------------------------------------------------------------- */

static uint64_t random_bits(const struct sequences *sequences, size_t draw, size_t place) {
    struct rng_stream stream = {
        .seed = sequences->seed, .purpose = PURPOSE_DATA, .owner = OWNER_LETTERS};
    uint32_t bits[4];
    rng_bits(stream, (uint32_t)draw, (uint32_t)place, bits);
    return (uint64_t)bits[1] << 32 | bits[0];
}

/* 0 ... count - 1; the bias of 64 bits modulo count is below count 2^-64. */
static size_t random_below(const struct sequences *sequences, size_t draw, size_t place,
                           size_t count) {
    return (size_t)(random_bits(sequences, draw, place) % count);
}

/* --- sources --------------------------------------------------------------------------------- */

int tokens_chain(const struct sequences *sequences, double *T, struct err *err) {
    struct rng_stream stream = {
        .seed = sequences->seed, .purpose = PURPOSE_DATA, .owner = OWNER_CHAIN};
    size_t V = (size_t)sequences->letters;
    double pair[2];
    for (size_t a = 0; a < V; a++) {
        double *row = T + a * V, largest = -INFINITY, sum = 0;
        TRY(base_poll(err, "probabilities of the chain are drawn"));
        for (size_t b = 0; b < V; b++) {
            rng_normal_pair(stream, (uint32_t)a, (uint32_t)(b / 2), pair);
            row[b] = sequences->sharpness * pair[b % 2];
            largest = fmax(largest, row[b]);
        }
        for (size_t b = 0; b < V; b++)
            sum += row[b] = exp(row[b] - largest);
        for (size_t b = 0; b < V; b++)
            row[b] /= sum;
    }
    return CODE_OK;
}

/* The letter at whose place in the sum of probabilities u in [0, 1) lies. */
static size_t pick_letter(const double *probability, size_t V, double u) {
    size_t b = 0;
    for (double sum = probability[0]; b + 1 < V && u >= sum; sum += probability[b])
        b++;
    return b;
}

/* Entropy of the next letter behind a letter of which this is the row of the chain. */
static double entropy_of_row(const double *row, size_t V) {
    double sum = 0;
    for (size_t b = 0; b < V; b++)
        sum -= row[b] > 0 ? row[b] * log(row[b]) : 0;
    return sum;
}

/* The mean entropy of the rows of a chain in the long run; share, next [V]: workspace. */
static int entropy_rate(const double *T, const double *of_row, size_t V, double *share,
                        double *next, double *rate, struct err *err) {
    for (size_t a = 0; a < V; a++)
        share[a] = 1 / (double)V;
    for (int step = 0; step < 10000; step++) {
        memset(next, 0, V * sizeof *next);
        for (size_t a = 0; a < V; a++) {
            TRY(base_poll(err, "the entropy of the chain is found"));
            for (size_t b = 0; b < V; b++)
                next[b] += share[a] * T[a * V + b];
        }
        double change = 0;
        for (size_t b = 0; b < V; b++) {
            change += fabs(next[b] - share[b]);
            share[b] = (next[b] + share[b]) / 2; /* no cycle goes on for ever */
        }
        if (change < 1e-14)
            break;
    }
    *rate = 0;
    for (size_t a = 0; a < V; a++)
        *rate += share[a] * of_row[a];
    return CODE_OK;
}

static int draw_markov(struct data *data, const struct sequences *sequences, struct err *err) {
    size_t n = (size_t)data->n, V = (size_t)data->V;
    size_t first = data->tests ? (size_t)data->P : 0;
    double *T, sum = 0;
    TRY(data_truth_init(&data->truth, err));
    TRY(data_truth_add(data->truth,
                       (struct truth_array){.name = "chain",
                                            .dims = "law letter next",
                                            .about = "probabilities of the next letter",
                                            .shape = {1, V, V}},
                       &T, err));
    TRY(tokens_chain(sequences, T, err));
    SCRATCH(double, room, 3 * V);
    for (size_t a = 0; a < V; a++) {
        TRY(base_poll(err, "the entropy of the chain is found"));
        room[a] = entropy_of_row(T + a * V, V);
    }
    TRY(entropy_rate(T, room, V, room + V, room + 2 * V, &data->truth->rate, err));
    for (size_t mu = 0; mu * n < data_rows(data); mu++) {
        size_t letter = random_below(sequences, mu, 0, V);
        for (size_t s = 0; s < n; s++) {
            TRY(base_poll(err, "sequences are drawn"));
            double u = (double)(random_bits(sequences, mu, s + 1) >> 11) * 0x1p-53;
            sum += mu >= first ? room[letter] : 0;
            data->token[mu * n + s] = (int)letter;
            letter = pick_letter(T + letter * V, V, u);
            data->y[mu * n + s] = (double)letter;
        }
    }
    data->truth->floor = sum / ((double)data_rows(data) - (double)(first * n));
    return CODE_OK;
}

static int draw_copy(struct data *data, const struct sequences *sequences, struct err *err) {
    size_t n = (size_t)data->n, m = n / 2;
    for (size_t mu = 0; mu * n < data_rows(data); mu++) {
        int *token = data->token + mu * n;
        TRY(base_poll(err, "sequences are drawn"));
        token[m] = sequences->letters;
        for (size_t s = 0; s < m; s++) {
            size_t letter = random_below(sequences, mu, s, (size_t)sequences->letters);
            token[s] = (int)letter;
            if (s + 1 < m)
                token[m + 1 + s] = (int)letter;
            data->y[mu * n + m + s] = (double)letter;
        }
    }
    return CODE_OK;
}

/* Fisher and Yates from the front, as far as pairs are used. */
static int draw_modular(struct data *data, const struct sequences *sequences, struct err *err) {
    size_t letters = (size_t)sequences->letters, pairs = letters * letters, P = (size_t)data->P;
    size_t inputs = data_rows(data) / 3;
    SCRATCH(size_t, pair, pairs);
    for (size_t k = 0; k < pairs; k++)
        pair[k] = k;
    for (size_t k = 0; k < inputs && k < pairs; k++) {
        TRY(base_poll(err, "pairs are drawn"));
        size_t other = k + random_below(sequences, 0, k, pairs - k), moved = pair[other];
        pair[other] = pair[k];
        pair[k] = moved;
    }
    for (size_t mu = 0; mu < inputs; mu++) {
        size_t k = pair[mu < P ? mu % pairs : P + (mu - P) % (pairs - P)];
        size_t a = k / letters, b = k % letters;
        data->token[3 * mu] = (int)a;
        data->token[3 * mu + 1] = (int)b;
        data->token[3 * mu + 2] = (int)letters;
        data->y[3 * mu + 2] = (double)((a + b) % letters);
    }
    return CODE_OK;
}

int tokens_draw(struct data *data, const struct sequences *sequences, struct err *err) {
    static int (*const draw[])(struct data * data, const struct sequences *sequences,
                               struct err *err) = {[SEQUENCE_MARKOV] = draw_markov,
                                                   [SEQUENCE_COPY] = draw_copy,
                                                   [SEQUENCE_MODULAR] = draw_modular};
    return draw[sequences->kind](data, sequences, err);
}
