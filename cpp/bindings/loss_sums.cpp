#include <cmath>
#include <vector>

#include "dpoco/core/compensated.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using domains::Body;
using losses::LossSum;

namespace {

// The sum of a user's loss objects, each with value(x), gradient(x) and perhaps hessian(x). Each
// evaluation that is not finite counts as zero, because it must not influence what is released.
class ObjectSum final : public LossSum {
 public:
  explicit ObjectSum(const Body& body)
      : LossSum(Kind::custom, body, body.dimension()), direction_(Vector::Ones(dimension())) {}

  bool empty() const noexcept override { return losses_.empty(); }

  double value(std::span<const double> u) override {
    const py::object x = point(u);
    double sum = 0.0;
    double rest = 0.0;
    for (const py::object& each : losses_) add_compensated(value_of(each, x), sum, rest);
    return sum;
  }
  void gradient(std::span<const double> u, std::span<double> out) override {
    const py::object x = point(u);
    Vector sum = Vector::Zero(body().ambient());
    Vector rest = sum;
    for (const py::object& each : losses_) add_gradient(each, x, sum, rest);
    body().pull_back(view(sum), out);
  }
  void hessian(std::span<const double> u, std::span<double> out) override {
    const py::object x = point(u);
    RowMatrix sum = RowMatrix::Zero(body().ambient(), body().ambient());
    for (const py::object& each : losses_) add_hessian(each, x, sum);
    body().pull_back_matrix(view(sum), out);
  }
  bool has_hessian() const noexcept override { return smooth_; }
  void add_least_hessian(std::span<double>) const override {}

  void prepare_line(std::span<const double> u, std::span<const double> step) override {
    line_at_ = as_vector(u);
    line_along_ = as_vector(step);
  }
  double line_value(double t) override { return value(view(on_line(t))); }
  double line_slope(double t) override {
    Vector slope(dimension());
    gradient(view(on_line(t)), view(slope));
    double sum = 0.0;
    for (Index i = 0; i < dimension(); ++i) sum += slope[i] * line_along_[i];
    return sum;
  }

  void stage(py::object loss) {
    staged_smooth_ = py::hasattr(loss, "hessian");
    staged_ = std::move(loss);
  }

  double staged_value(std::span<const double> u) const override {
    return value_of(staged_, point(u));
  }
  void staged_gradient(std::span<const double> u, std::span<double> out) const override {
    Vector full = Vector::Zero(body().ambient());
    Vector rest = full;
    add_gradient(staged_, point(u), full, rest);
    body().pull_back(view(full), out);
  }
  double staged_curvature(std::span<const double> u) const override {
    if (dimension() != 1) {
      throw std::logic_error("the Hessian of a custom loss has no single direction");
    }
    double curvature;
    staged_hessian(u, {&curvature, 1});
    return curvature;
  }
  std::span<const double> staged_direction() const override { return view(direction_); }
  void staged_hessian(std::span<const double> u, std::span<double> out) const override {
    RowMatrix full = RowMatrix::Zero(body().ambient(), body().ambient());
    add_hessian(staged_, point(u), full);
    body().pull_back_matrix(view(full), out);
  }
  // The loss is convex, so it is above its tangent at the centre.
  double staged_minimum() override {
    const Vector centre = Vector::Zero(dimension());
    Vector slope(dimension());
    staged_gradient(view(centre), view(slope));
    return staged_value(view(centre)) + body().support_low(view(slope));
  }

  void commit() override {
    losses_.push_back(staged_);
    smooth_ = smooth_ && staged_smooth_;
  }

  void write(Archive&) const override {
    throw StateError("a learner of custom losses cannot be saved: its losses are Python objects");
  }
  void read(ArchiveReader&) override {
    throw StateError("a learner of custom losses cannot be restored");
  }

 private:
  py::object point(std::span<const double> u) const {
    return read_only(body().ambient(), [&](std::span<double> out) { body().embed(u, out); });
  }
  Vector on_line(double t) const { return line_at_ + t * line_along_; }

  // Errors of a conversion would quote the value, so they are replaced.
  static double value_of(const py::object& loss, const py::object& x) {
    const py::object given = loss.attr("value")(x);
    const double value = PyFloat_AsDouble(given.ptr());
    if (value == -1.0 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw py::type_error("a loss's value must be a real number");
    }
    return std::isfinite(value) ? value : 0.0;
  }
  // Whether every entry is finite.
  static bool read_array(const py::object& given, std::vector<double>& out, const char* name) {
    using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
    const py::array any = py::array::ensure(given);
    const bool real = any && std::string("fiub").find(any.dtype().kind()) != std::string::npos;
    const Doubles array = real ? Doubles::ensure(any) : Doubles();
    if (!real || !array) {
      PyErr_Clear();
      throw py::type_error(std::string(name) + " must be an array of real numbers");
    }
    expect_size(array, out.size(), name);
    std::copy(array.data(), array.data() + array.size(), out.begin());
    return std::all_of(out.begin(), out.end(), [](double each) { return std::isfinite(each); });
  }
  // Sums are compensated, so that rounding errors cannot let sums of neighbouring streams drift
  // apart.
  void add_gradient(const py::object& loss, const py::object& x, Vector& to, Vector& rest) const {
    std::vector<double> part(static_cast<std::size_t>(to.size()));
    if (!read_array(loss.attr("gradient")(x), part, "a loss's gradient")) return;
    for (Index i = 0; i < to.size(); ++i) {
      add_compensated(part[static_cast<std::size_t>(i)], to[i], rest[i]);
    }
  }
  void add_hessian(const py::object& loss, const py::object& x, RowMatrix& to) const {
    std::vector<double> part(static_cast<std::size_t>(to.size()));
    if (!read_array(loss.attr("hessian")(x), part, "a loss's Hessian")) return;
    const auto matrix = as_matrix(std::span<const double>(part), to.rows());
    to += 0.5 * matrix;
    to += 0.5 * matrix.transpose();
  }

  std::vector<py::object> losses_;
  py::object staged_;
  bool smooth_ = true;
  bool staged_smooth_ = true;
  Vector direction_;
  Vector line_at_;
  Vector line_along_;
};

}  // namespace

std::unique_ptr<LossSum> make_loss_sum(std::shared_ptr<const domains::Domain> domain, Fields from) {
  using Kind = LossSum::Kind;
  return read_whole(std::move(from), [&](Fields& own) -> std::unique_ptr<LossSum> {
    const Body body = Body::of(std::move(domain), own.read<bool>("unbounded"));
    const auto clipper = [&own] { return own.read<losses::RecordClipper>("clipper"); };
    switch (own.read_name<Kind>("kind", {{"linear", Kind::linear},
                                         {"glm", Kind::glm},
                                         {"quadratic", Kind::quadratic},
                                         {"custom", Kind::custom}})) {
      case Kind::linear:
        return losses::make_linear_sum(body, clipper());
      case Kind::glm:
        return losses::make_glm_sum(body, own.read<losses::GlmLoss>("glm"), clipper());
      case Kind::quadratic:
        return losses::make_quadratic_sum(body, own.read<double>("lipschitz"),
                                          own.read<double>("smoothness"),
                                          own.read<double>("radius"));
      case Kind::custom:
        break;
    }
    return std::make_unique<ObjectSum>(body);
  });
}

void expect_dimension(const CoupledDraws& drawn, const LossSum& sum) {
  if (drawn.dimension != sum.dimension()) {
    throw std::invalid_argument("losses are stated to have another dimension");
  }
}

void stage_object(LossSum& sum, const py::object& loss) {
  auto* objects = dynamic_cast<ObjectSum*>(&sum);
  if (objects == nullptr) throw std::invalid_argument("this sum takes no loss objects");
  if (!py::hasattr(loss, "value") || !py::hasattr(loss, "gradient")) {
    throw py::type_error("a custom loss must have methods value and gradient");
  }
  objects->stage(loss);
}

}  // namespace dpoco::bindings
