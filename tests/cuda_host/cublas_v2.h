/* A stand-in for cuBLAS, see cuda_runtime.h beside this file. */
#pragma once

#include <cblas.h>
#include <cuda_runtime.h>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
enum cublasOperation_t { CUBLAS_OP_N = CblasNoTrans, CUBLAS_OP_T = CblasTrans };
typedef cudaStream_t *cublasHandle_t;

inline const char *cublasGetStatusString(cublasStatus_t) {
    return "success";
}

inline cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    *handle = new cudaStream_t;
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    *handle = stream;
    return CUBLAS_STATUS_SUCCESS;
}

inline void emulated_gemm(CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, int m, int n, int k,
                          double alpha, const double *a, int lda, const double *b, int ldb,
                          double beta, double *c, int ldc) {
    cblas_dgemm(CblasColMajor, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

inline void emulated_gemm(CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, int m, int n, int k,
                          float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                          float *c, int ldc) {
    cblas_sgemm(CblasColMajor, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* Factors are read at the call, matrices when the stream gets there. */
template <class real>
inline cublasStatus_t emulated_product(cublasHandle_t handle, cublasOperation_t op_a,
                                       cublasOperation_t op_b, int m, int n, int k,
                                       const real *alpha, const real *a, int lda, const real *b,
                                       int ldb, const real *beta, real *c, int ldc) {
    real factor = *alpha, old = *beta;
    a = emulated_real(a, 0);
    b = emulated_real(b, 0);
    c = emulated_real(c, 0);
    emulated_count(&emulated_counts::launches, 1);
    (*handle)->queue.push_back([=] {
        emulated_gemm((CBLAS_TRANSPOSE)op_a, (CBLAS_TRANSPOSE)op_b, m, n, k, factor, a, lda, b, ldb,
                      old, c, ldc);
    });
    return CUBLAS_STATUS_SUCCESS;
}

#define cublasDgemm emulated_product<double>
#define cublasSgemm emulated_product<float>
