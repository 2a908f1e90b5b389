#include "dpoco/core/eigen_solvers.hpp"

template dpoco::Cholesky& dpoco::Cholesky::compute(const Eigen::EigenBase<Eigen::MatrixXd>&);
template dpoco::Eigenvalues& dpoco::Eigenvalues::compute(const Eigen::EigenBase<Eigen::MatrixXd>&,
                                                         int);
template dpoco::EigenvaluesOfRows& dpoco::EigenvaluesOfRows::compute(
    const Eigen::EigenBase<dpoco::RowMatrix>&, int);
