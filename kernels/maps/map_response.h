/* The responses of a limit map, measured while it is at work:
 *
 *     W x_t   = u_t + sum_{s<t}  A(t,s) y_s + learned part      A(t,s) = fr^2 <dx_t/dv_s>
 *     W^T y_t = v_t + sum_{s<=t} B(t,s) x_s + learned part      B(t,s) = fg^2 <dy_t/du_s>
 *
 * with u and v the Gaussian parts of what the map answers, and sums over input indices too. The
 * derivatives are those of single sites, every average held fixed: of the companions of the sites
 * (companions.h), all v are shifted by epsilon times probes of +-1 in the first, all u in the
 * second, and
 *
 *     A(t,s) = fr^2 <x'_t - x_t, probe_s>/epsilon    B(t,s) = fg^2 <y''_t - y_t, probe_s>/epsilon
 *
 * Probes and epsilon are as in field.h.
 *
 * The map itself combines its bases, which know sites only as they are. What a site that has been
 * shifted gets instead of that is added here: memory terms with the A and B that are measured at
 * the same time, and what the matrix has learned from the shifted site. Of an optimizer that adds,
 * the latter is sum_s c_s <y_s y_t> (x'_s - x_s) backward (forward it is in Z). Of one that moves
 * entry by entry it is a matrix D of entries that learned from y' and x, forward, while backward
 * the companions of the entries of map_adam have learned from y and x'. Of one that moves the
 * matrix as a whole, M -> L M with L of averages alone (polar.h), it is sum_s <l_s y_t> (x'_s -
 * x_s), where l_s, on the target sites, is the sum of L applied to what c_s y_s has left in M at
 * each step (or, where it learns backward, forward sum_s <m_s x_t> (y''_s - y_s), m_s of the
 * source sites). Where the matrix decays, A and B contain what is left of it at both times. */
#pragma once

#include "kernels/maps/map.h"

/* 0: x, and A, on the source sites, where v lives. 1: y, and B, on the target sites, and u. */
struct response_side {
    struct population *pool;   /* of the field: the units of groups that share them */
    double response;           /* fr^2, fg^2 */
    struct array change[2];    /* rows of all evaluations, of both companions, less the rows */
    struct array probes, work; /* of the field; work over the pool */
    double *now; /* A or B of the last pass, [rows][probes]; 0 of fields that are still to come */
};

struct map_response {
    double epsilon;
    struct response_side side[2];
    struct map_terms terms;
    struct array y;            /* rows of all evaluations, of an optimizer that adds */
    struct array sum;          /* scratch, a row over the source */
    struct array D, moment[2]; /* of one that moves entries: [source sites] over target sites */
    struct array whole; /* l or m, of one that moves matrices; what it remembers is moment[0] */
};

/* After map_init of a limit over populations with companions. */
int map_response_init(struct map *map, double epsilon, struct err *err);
void map_response_free(struct map *map);
/* After a pass of the map; nothing where companions rest. */
int map_response_forward(struct map *map, struct rows x, struct rows out, struct err *err);
int map_response_backward(struct map *map, struct rows y, struct rows out, struct err *err);
/* What map_decay does, but for the terms. */
void map_response_decay(struct map *map, double factor);
/* For optimizers that move entry by entry: the change of D. */
int map_response_change(struct map *map, const double *c, struct change *change, struct err *err);
/* For those that move matrices: the change of l, to be made along that of the map. */
int map_response_whole(struct map *map, const double *c, struct change *change, struct err *err);
int map_response_archive(struct map *map, struct archive *archive, struct err *err);
/* Bytes after so many evaluations of x_rows and y_rows, of a declared map, but for D and what its
 * optimizer remembers. */
double map_response_bytes(const struct map *map, double evaluations, int x_rows, int y_rows);
