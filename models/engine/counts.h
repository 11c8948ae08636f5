/* How large a network is, and what an evaluation of it costs: numbers that learn, those of them
 * that act on one row, and the operations of its matrices. */
#pragma once

#include "models/engine/net.h"

/* parameters: numbers that learn, as PyTorch counts them: entries of matrices (of a read-in as many
 * columns as a row of the inputs has numbers) and biases. What never learns is none.
 *
 * active: those of them that take part in the output of one row, where selections leave experts
 * out. A matrix counts with the share of its columns at which what it reads is not always 0, times
 * the share of its rows that something reads: W_in of experts of which K out of M are selected with
 * K/M of its entries, a router with all of them, since selecting reads every logit. Of tokens that
 * experts choose it is the mean over the tokens. Two masks on the same sites count as if one lay
 * within the other; what is added up, as if they did not overlap.
 *
 * flops_per_step: multiplications and additions of matrices and of attention in one evaluation,
 * forward and backward, of all rows of a step: 2 for each active entry and row forward, 2 for what
 * the matrix learns and 2 for what it hands back. Attention counts all pairs of tokens. What is
 * done site by site, selecting and the optimizer are left out. flops_per_token: of one row, that is
 * of a token, or of an input without tokens. */
struct net_counts {
    double parameters, active, flops_per_token, flops_per_step;
};

/* Finds, for a program that is written, what independent runs may have the same of by chance, so
 * that their spread of 0 is no error: of the rows or numbers of a node, or of their cotangent
 * (node < 0: neither), whether they are counted, made of selections and constants alone as a load
 * is; and whether they are left out, 0 where a selection leaves out what they are of. */
int counts_mark(struct net *net, struct err *err);
bool counts_counted(const struct net *net, int node, bool gradient);
bool counts_left_out(const struct net *net, int node, bool gradient);
/* Counts those of a network of finite width with this setup, without building it. */
int net_counts_of(const struct net_setup *setup, struct net_counts *counts, struct err *err);
