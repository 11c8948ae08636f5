/* The keys of section [data]. */
#include "solver/settings/config.h"

#define OFFSET(field) offsetof(struct data_settings, field)
const struct param_row config_data_rows[] = {
    {"source", PARAM_CHOICE, OFFSET(source), "gaussian", 0, 0,
     "gaussian file multi_index markov copy modular text power_law", NULL,
     "Where the training inputs and targets come from.\n"
     "  gaussian: inputs of independent standard normals, targets +1 and -1 in turn\n"
     "  file: X [P][D] and y [P] of an HDF5 file, as dmft-data makes them of npz, csv, images\n"
     "    and known laws (docs/data.md)\n"
     "  multi_index: inputs as gaussian, y = (x1 + x1 x2 + x1 x2 x3 + x1 x2 x3 x4)/2\n"
     "  markov: letters of a Markov chain; the target is the next letter\n"
     "  copy: letters, a separator, the same letters again, which are the targets\n"
     "  modular: two numbers a and b; the target is a + b modulo vocabulary\n"
     "  text: windows of a text; the target is the next letter\n"
     "  power_law: inputs and linear targets whose parts along the directions fall as powers"},
    {"inputs", PARAM_INT, OFFSET(inputs), "4", 1, 100000, NULL,
     "source=gaussian|multi_index|markov|copy|modular|text|power_law",
     "Number P of training inputs. Of text they are windows, drawn without repetition in an order "
     "drawn anew."},
    {"test_inputs", PARAM_INT, OFFSET(tests), "0", 0, 100000, NULL,
     "source=gaussian|multi_index|markov|copy|modular|text|power_law",
     "Number of test inputs, which are not trained on: further draws, or windows of what is held "
     "out. A file has them as X_test and y_test."},
    {"dimension", PARAM_INT, OFFSET(dimension), "10", 1, 1000000, NULL,
     "source=gaussian|multi_index|power_law", "Dimension D of an input, or of each of its tokens."},
    {"tokens", PARAM_INT, OFFSET(tokens), "1", 1, 10000, NULL, "source=gaussian|markov|copy|text",
     "Number n of tokens of an input. Of copy these are n/2 letters, the separator, and all of the "
     "letters but the last."},
    {"vocabulary", PARAM_INT, OFFSET(vocabulary), "0", 0, 100000, NULL,
     "source=file|markov|copy|modular|text",
     "Number of letters; copy and modular have one token more. With a file it is the number V of "
     "tokens, and 0 takes what the file says or has. Of a text these are the most frequent "
     "letters, all others being the last token, and 0 takes all."},
    {"sharpness", PARAM_REAL, OFFSET(sharpness), "1", 0, 100, NULL, "source=markov",
     "Standard deviation of the logits of the Markov chain: the probabilities of the next letter "
     "are the softmax of sharpness times standard normals."},
    {"spectrum_decay", PARAM_REAL, OFFSET(law.spectrum), "1", 0, 100, NULL, "source=power_law",
     "Exponent a of the variances of the inputs along direction i, i^-a."},
    {"target_decay", PARAM_REAL, OFFSET(law.target), "1", 0, 100, NULL, "source=power_law",
     "Exponent b of the share of the targets' variance along direction i, i^-b."},
    {"noise", PARAM_REAL, OFFSET(law.noise), "0", 0, 1000, NULL, "source=power_law",
     "Standard deviation of normal noise that is added to the targets, of variance 1."},
    {"positions", PARAM_CHOICE, OFFSET(positions), "yes", 0, 0, "no yes",
     "source=file|markov|copy|modular|text",
     "Whether the vector of a token contains its place in the sequence.\n"
     "  no: it is the one-hot token alone\n"
     "  yes: it is the one-hot token and the one-hot place"},
    {"seed", PARAM_SEED, OFFSET(seed), "1", 0, 0, NULL,
     "source=gaussian|multi_index|markov|copy|modular|text|power_law",
     "Seed of the random inputs and targets."},
    {"label_noise", PARAM_REAL, OFFSET(wrong.share), "0", 0, 1, NULL, NULL,
     "Probability with which the target of a training input is wrong on purpose: another class, "
     "all being equally likely, or the other sign. Test targets stay right."},
    {"label_noise_seed", PARAM_SEED, OFFSET(wrong.seed), "1", 0, 0, NULL, NULL,
     "Seed of which targets label_noise makes wrong, and how."},
    {"file", PARAM_PATH, OFFSET(file), "", 0, 0, NULL, "source=file|text",
     "Path of the data file or the text, relative to the folder of the ini that names it."},
    {"weight", PARAM_TEXT, OFFSET(weight), "", 0, 0, NULL, "source=file",
     "Name of the array of the data file that says how often each input counts in the loss, "
     "relative to the others; test inputs count by NAME_test where the file has it. Empty: all "
     "inputs count once."},
    {"unit", PARAM_CHOICE, OFFSET(text.unit), "characters", 0, 0, "characters bytes", "source=text",
     "What a letter of a text is.\n"
     "  characters: a character of UTF-8\n"
     "  bytes: a byte, of any file"},
    {"alphabet", PARAM_TEXT, OFFSET(text.alphabet), "", 0, 0, NULL, "source=text",
     "The letters in the order of their tokens, \\n being the end of a line; all others of the "
     "text are one token more. Empty: those that the text has, in the order of their codes."},
    {"stride", PARAM_INT, OFFSET(text.stride), "0", 0, 1000000, NULL, "source=text",
     "Letters from the beginning of a window to that of the next. 0: as many as tokens, so that "
     "each letter is asked for once."},
    {"held_out", PARAM_REAL, OFFSET(text.held_out), "0.1", 0, 0.9, NULL, "source=text",
     "Share of the text, its last part, that test inputs lie in and no training input."},
};
const size_t config_data_rows_count = sizeof config_data_rows / sizeof *config_data_rows;
#undef OFFSET
