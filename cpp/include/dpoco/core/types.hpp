#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>

namespace dpoco {

using Index = Eigen::Index;
using Vector = Eigen::VectorXd;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstVectorRef = Eigen::Ref<const Vector>;
using VectorRef = Eigen::Ref<Vector>;
using ConstRowMatrixRef = Eigen::Ref<const RowMatrix>;
using RowMatrixRef = Eigen::Ref<RowMatrix>;

}  // namespace dpoco
