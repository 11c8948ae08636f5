/* The number that a backend of the processor keeps for each site.
 *
 * The files that touch such numbers are compiled twice: as they are for 64 bits, and for 32 bits by
 * a file of two lines, NAME_single.c, which defines SINGLE and includes NAME.c. What NAME.c exports
 * is listed below, because it then ends in _single. Whoever adds a function to one of these files
 * that others call adds it to the list. Sums over all sites, coefficients and all that crosses to
 * the host are of 64 bits in both; products of many rows with a matrix, which do not cross, are of
 * 32 bits where the sites are. */
#pragma once

#ifdef SINGLE

typedef float real;
typedef int real_lane; /* a whole number that is as long */
typedef unsigned real_bits;
#define REAL_BYTES 4

#define REAL_BACKEND backend_cpu_single
#define REAL_OTHER backend_cpu
#define REAL_SHADOW backend_shadow_single
#define REAL_OTHER_SHADOW backend_shadow
#define cpu_put cpu_put_single
#define cpu_get cpu_get_single
#define cpu_dots cpu_dots_single
#define cpu_averages cpu_averages_single
#define cpu_is_live cpu_is_live_single
#define cpu_combine cpu_combine_single
#define cpu_combine_rows cpu_combine_rows_single
#define cpu_times cpu_times_single
#define cpu_add cpu_add_single
#define cpu_normals cpu_normals_single
#define cpu_pointwise cpu_pointwise_single
#define cpu_multiply cpu_multiply_single
#define cpu_group_sum cpu_group_sum_single
#define cpu_tile cpu_tile_single
#define cpu_tile_mean cpu_tile_mean_single
#define cpu_entries cpu_entries_single
#define cpu_top cpu_top_single
#define few_rows_dots few_rows_dots_single
#define few_rows_times few_rows_times_single
#define few_rows_combine few_rows_combine_single
#define few_rows_add few_rows_add_single
#define few_rows_top few_rows_top_single
#define few_rows_matrix few_rows_matrix_single
#define few_rows_turned few_rows_turned_single
#define functions_apply functions_apply_single
#define functions_affine functions_affine_single
#define functions_normals functions_normals_single
#define functions_sums functions_sums_single
#define functions_multiply functions_multiply_single
#define functions_multiply_groups functions_multiply_groups_single
#define functions_sums_across functions_sums_across_single
#define functions_entries functions_entries_single

#else

typedef double real;
typedef long long real_lane;
typedef unsigned long long real_bits;
#define REAL_BYTES 8
#define REAL_BACKEND backend_cpu
#define REAL_OTHER backend_cpu_single
#define REAL_SHADOW backend_shadow
#define REAL_OTHER_SHADOW backend_shadow_single

#endif
