#pragma once

// Eigen's solvers, compiled once, in eigen_solvers.cpp, because their templates take seconds in
// every file that instantiates them.
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include "dpoco/core/types.hpp"

namespace dpoco {

using Cholesky = Eigen::LLT<Eigen::MatrixXd>;
using Eigenvalues = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;
using EigenvaluesOfRows = Eigen::SelfAdjointEigenSolver<RowMatrix>;

}  // namespace dpoco

extern template dpoco::Cholesky& dpoco::Cholesky::compute(const Eigen::EigenBase<Eigen::MatrixXd>&);
extern template dpoco::Eigenvalues& dpoco::Eigenvalues::compute(
    const Eigen::EigenBase<Eigen::MatrixXd>&, int);
extern template dpoco::EigenvaluesOfRows& dpoco::EigenvaluesOfRows::compute(
    const Eigen::EigenBase<dpoco::RowMatrix>&, int);
