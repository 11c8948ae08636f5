#include "models/engine/aside.h"

int aside_put(struct aside *aside, struct net *net, struct err *err) {
    net->companions.rest = true;
    TRY(base_alloc(&aside->array, (size_t)net->arrays.count, sizeof *aside->array, err));
    TRY(base_alloc(&aside->vector, (size_t)net->vectors.count, sizeof *aside->vector, err));
    TRY(base_alloc(&aside->population, (size_t)net->populations.count, sizeof *aside->population,
                   err));
    TRY(base_alloc(&aside->map, (size_t)net->maps.count, sizeof *aside->map, err));
    for (int i = 0; i < net->arrays.count; i++)
        TRY(array_keep(&aside->array[i], array_all(net->arrays.item[i]), err));
    for (int i = 0; i < net->vectors.count; i++) {
        size_t length = (size_t)net->vectors.item[i].length;
        TRY(base_alloc(&aside->vector[i], length, sizeof(double), err));
        memcpy(aside->vector[i], net->vectors.item[i].values, length * sizeof(double));
    }
    TRY(base_alloc(&aside->index, (size_t)net->setup.data.P, sizeof(int), err));
    memcpy(aside->index, net->batch.index, (size_t)net->setup.data.P * sizeof(int));
    return CODE_OK;
}

void aside_maps(const struct aside *aside, const struct net *net, bool predicting) {
    for (int i = 0; i < net->maps.count; i++)
        map_set_aside(net->maps.item[i], predicting, &aside->map[i]);
}

void aside_forget(const struct aside *aside, const struct net *net) {
    for (int i = 0; i < net->maps.count; i++)
        map_put_back(net->maps.item[i], &aside->map[i]);
    for (int i = 0; i < net->populations.count; i++)
        population_put_back(net->populations.item[i], &aside->population[i]);
}

void aside_take_back(const struct aside *aside, struct net *net) {
    memcpy(net->batch.index, aside->index, (size_t)net->setup.data.P * sizeof(int));
    net_load_batch(net); /* tokens; what else it loads is among the vectors */
    for (int i = 0; i < net->arrays.count; i++)
        rows_copy(array_all(&aside->array[i]), array_all(net->arrays.item[i]));
    for (int i = 0; i < net->vectors.count; i++)
        memcpy(net->vectors.item[i].values, aside->vector[i],
               (size_t)net->vectors.item[i].length * sizeof(double));
    selected_refresh(net, -1);
}

void aside_free(struct aside *aside, struct net *net) {
    net->companions.rest = false;
    for (int i = 0; i < net->arrays.count && aside->array; i++)
        array_free(&aside->array[i]);
    for (int i = 0; i < net->vectors.count && aside->vector; i++)
        free(aside->vector[i]);
    free(aside->array);
    free(aside->vector);
    free(aside->index);
    free(aside->population);
    free(aside->map);
    *aside = (struct aside){0};
}
