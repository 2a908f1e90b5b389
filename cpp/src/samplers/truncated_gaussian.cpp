#include "dpoco/samplers/truncated_gaussian.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/samplers/special.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "truncated_gaussian_parts.hpp"

namespace dpoco::samplers {

using Kind = domains::Body::Kind;

TruncatedGaussian::TruncatedGaussian(domains::Body body) : body_(std::move(body)) {
  switch (body_.kind()) {
    case Kind::space:
    case Kind::ball:
      work_.resize(static_cast<std::size_t>(body_.dimension()));
      return;
    case Kind::box:
      return;
    case Kind::polytope:
      if (!body_.simplex())
        throw std::invalid_argument("of the polytopes only simplices have exact draws");
      work_.resize(3 * static_cast<std::size_t>(body_.ambient()));
      return;
    case Kind::lp_ball:
      break;
  }
  throw std::invalid_argument("an l_p ball needs p = 2 or p = inf for exact draws");
}

void TruncatedGaussian::sample(random::Source& source, std::span<const double> mean, double scale,
                               std::span<double> out) {
  const Index n = body_.dimension();
  assert(std::ssize(mean) == n && std::ssize(out) == n);
  switch (body_.kind()) {
    case Kind::space:
      source.fill(random::Variate::gaussian, work_);
      for (Index i = 0; i < n; ++i) out[i] = mean[i] + scale * work_[static_cast<std::size_t>(i)];
      return;
    case Kind::box: {
      const Vector& h = body_.half_widths();
      for (Index i = 0; i < n; ++i) out[i] = truncated_normal(source, mean[i], scale, -h[i], h[i]);
      return;
    }
    case Kind::ball:
      sample_ball(source, body_.extent(), mean, scale, out, work_);
      return;
    case Kind::polytope:
    case Kind::lp_ball:
      break;
  }
  // A Gaussian on the simplex's hyperplane is a Gaussian of all coordinates, given their sum.
  const auto d = static_cast<std::size_t>(body_.ambient());
  const std::span<double> x = std::span(work_).first(d);
  body_.embed(mean, x);
  sample_simplex(source, body_.extent(), x, scale, x, std::span(work_).subspan(d));
  body_.coordinates(x, view(out));
}

bool TruncatedGaussian::has_log_mass() const noexcept {
  return body_.kind() == Kind::space || body_.kind() == Kind::ball || body_.kind() == Kind::box;
}

double TruncatedGaussian::log_mass(std::span<const double> mean, double scale) const {
  switch (body_.kind()) {
    case Kind::space:
      return 0.0;
    case Kind::box:
      return log_normal_box(view(body_.half_widths()), mean, scale);
    case Kind::ball:
      return log_ball_mass(body_.extent(), mean, scale);
    case Kind::polytope:
    case Kind::lp_ball:
      break;
  }
  throw std::logic_error("the mass of this body has no closed form");
}

}  // namespace dpoco::samplers
