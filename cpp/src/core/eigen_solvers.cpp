#include "dpoco/core/eigen_solvers.hpp"

#if defined(EIGEN_VECTORIZE) || !defined(EIGEN_NO_CPUID) || defined(__FAST_MATH__)
#error "sums must have one order everywhere: see the definitions of dpoco_core in CMakeLists.txt"
#endif

template dpoco::Cholesky& dpoco::Cholesky::compute(const Eigen::EigenBase<Eigen::MatrixXd>&);
template dpoco::Eigenvalues& dpoco::Eigenvalues::compute(const Eigen::EigenBase<Eigen::MatrixXd>&,
                                                         int);
template dpoco::EigenvaluesOfRows& dpoco::EigenvaluesOfRows::compute(
    const Eigen::EigenBase<dpoco::RowMatrix>&, int);
