/* The list of networks: adding one adds a line here. */
#include "models/language/program.h"

extern const struct model model_dense, model_regime1, model_regime2, model_regime3, model_residual,
    model_resnet, model_script, model_stack, model_transformer;
const struct model *model_list[MODEL_MOST + 1] = {
    &model_dense,  &model_regime1, &model_regime2,     &model_regime3, &model_residual,
    &model_resnet, &model_stack,   &model_transformer, &model_script};
