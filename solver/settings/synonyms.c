/* Names of PyTorch, Hugging Face and their like; tests/test_synonyms.py asks for every one. */
#include "solver/settings/row.h"

/* others: names in lower case. */
static const struct {
    const char *others, *ours;
} keys[] = {
    {"lr learning_rate base_lr max_lr step_size", "[training] eta0"},
    {"batch_size per_device_train_batch_size micro_batch_size bsz", "[training] batch"},
    {"epochs num_epochs n_epochs num_train_epochs",
     "[training] steps, which counts steps: an epoch has inputs/batch of them"},
    {"max_steps num_steps n_steps iterations num_iterations max_iters", "[training] steps"},
    {"wd decay l2", "[training] weight_decay"},
    {"optim optimiser", "[training] optimizer"},
    {"betas", "[training] beta1 and [training] beta2"},
    {"lr_scheduler lr_scheduler_type scheduler", "[training] schedule"},
    {"warmup_steps warmup_iters num_warmup_steps", "[training] warmup"},
    {"max_grad_norm grad_clip clip_grad clip_norm gradient_clipping", "[training] clip"},
    {"criterion loss_fn objective_fn", "[training] loss"},
    {"hidden hidden_size hidden_dim hidden_width width widths d_model n_embd dim",
     "[reference] widths, the widths N of finite networks; the limit has none"},
    {"num_experts n_experts num_local_experts n_routed_experts", "[network] experts"},
    {"n_shared_experts num_shared_experts", "[network] shared_experts"},
    {"top_k topk k num_experts_per_tok n_active experts_per_token active_experts",
     "[network] rho, the share K/experts of the experts that are selected"},
    {"intermediate_size ffn_dim d_ff moe_intermediate_size mlp_ratio",
     "[network] expert_width, the units of an expert, or [network] iota, units over N"},
    {"num_layers n_layers n_layer layers num_hidden_layers blocks num_blocks", "[network] depth"},
    {"num_heads n_heads n_head num_attention_heads", "[network] heads"},
    {"act hidden_act nonlinearity act_fn activation_function", "[network] activation"},
    {"vocab_size n_vocab", "[data] vocabulary"},
    {"seq_len seq_length max_length block_size context_length n_ctx", "[data] tokens"},
    {"n_samples num_samples n_train train_size dataset_size", "[data] inputs"},
    {"n_test num_test test_size", "[data] test_inputs"},
    {"input_dim d_in in_features input_size n_features", "[data] dimension"},
    {"num_classes n_classes out_features output_size", "[network] outputs"},
    {"path data_path filename dataset_path", "[data] file"},
    {"n_seeds num_seeds", "[reference] seeds"},
    {"device", "[solver] backend"},
    {"dtype", "[reference] precision"},
    {"num_threads n_jobs num_workers", "[solver] threads"},
    {"classes side patch folder",
     "an option of dmft-data fashion, which writes a file for [data] source = file"},
    {"components switching", "an option of dmft-data mixture and dmft-data chains, which write a "
                             "file for [data] source = file"},
    {"separation", "an option of dmft-data mixture, which writes a file for [data] source = file"},
};

static const struct {
    const char *others, *ours;
} choices[] = {
    {"swish", "silu"},
    {"gelu_new gelu_tanh gelu_pytorch_tanh gelu_fast quick_gelu", "gelu"},
    {"identity none", "linear"},
    {"sgd", "gd"},
    {"mse_loss mseloss l2 squared", "mse"},
    {"ce crossentropy crossentropyloss nll", "cross_entropy"},
    {"bce bcewithlogits binary_cross_entropy", "logistic"},
    {"huber_loss smooth_l1", "huber"},
    {"float64 fp64", "double"},
    {"float32 fp32 float", "single"},
    {"gpu", "cuda"},
};

bool synonyms_tell_key(const char *given, char note[TEXT_NOTE]) {
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (text_lists(keys[k].others, given)) {
            text_append(note, "; here it is %s", keys[k].ours);
            return true;
        }
    return false;
}

bool synonyms_tell_source(const char *given, char note[TEXT_NOTE]) {
    if (!text_lists("fashion mixture", given))
        return false;
    text_append(note, "; \"dmft-data %s", given);
    text_append(note, "%s",
                *given == 'f' ? " --classes 2 4 --inputs 32 -o x.h5\""
                              : " --components 3 --inputs 64 --dimension 10 -o x.h5\"");
    text_append(note, " writes such data for source = file, file = x.h5");
    return true;
}

const char *synonyms_choice(const char *given) {
    for (size_t k = 0; k < sizeof choices / sizeof *choices; k++)
        if (text_lists(choices[k].others, given))
            return choices[k].ours;
    return NULL;
}
