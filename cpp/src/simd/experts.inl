// ---- losses and weights of experts; a part of kernels.inl ---------------------------------------

DPOCO_INLINE double admitted(double x, double low, double high, double inverse, double& count) {
  const bool finite = x - x == 0.0;
  const double clipped = x < low ? low : (x > high ? high : x);
  const bool kept = clipped == x;  // false for NaN and infinities, too
  count += kept ? 0.0 : 1.0;
  // The product may round above 1 although the clipped value is in the range.
  const double unit = (clipped - low) * inverse;
  const double bounded = unit > 1.0 ? 1.0 : unit;
  return finite ? bounded : 0.0;
}

std::uint64_t admit_losses(const double* x, std::size_t n, double low, double high, double inverse,
                           double* out) {
  double counts[kPartials] = {};
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t lane = 0; lane < kPartials; ++lane) {
      out[i + lane] = admitted(x[i + lane], low, high, inverse, counts[lane]);
    }
  }
  for (; i < n; ++i) out[i] = admitted(x[i], low, high, inverse, counts[0]);
  return static_cast<std::uint64_t>(add_partials(counts));
}

double smallest(const double* x, std::size_t n) {
  double least[kPartials];
  for (std::size_t lane = 0; lane < kPartials; ++lane) least[lane] = x[0];
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t lane = 0; lane < kPartials; ++lane) {
      least[lane] = x[i + lane] < least[lane] ? x[i + lane] : least[lane];
    }
  }
  for (; i < n; ++i) least[0] = x[i] < least[0] ? x[i] : least[0];
  for (std::size_t lane = 1; lane < kPartials; ++lane) {
    least[0] = least[lane] < least[0] ? least[lane] : least[0];
  }
  return least[0];
}

double tilt(const double* weights, const double* x, double base, double rate, std::size_t n,
            double* out) {
  double partial[kPartials] = {};
  by_eights(
      x, n, 0.0, [=](double v) { return el::exp(-rate * (v - base)); },
      [&](std::size_t i, std::size_t count, double* group) {
        if (count == kPartials) {
          if (weights != nullptr) {
            for (std::size_t lane = 0; lane < kPartials; ++lane) group[lane] *= weights[i + lane];
          }
          for (std::size_t lane = 0; lane < kPartials; ++lane) partial[lane] += group[lane];
          __builtin_memcpy(out + i, group, kPartials * sizeof(double));
        } else {
          for (std::size_t lane = 0; lane < count; ++lane) {
            if (weights != nullptr) group[lane] *= weights[i + lane];
            partial[lane] += group[lane];
            out[i + lane] = group[lane];
          }
        }
      });
  return add_partials(partial);
}

void affine(double a, const double* x, double b, std::size_t n, double* out) {
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(out + i, a * load(x + i) + b);
  for (; i < n; ++i) out[i] = a * x[i] + b;
}

double cusum(double gain, const double* x, std::size_t n, double* state) {
  double most[kPartials];
  const double lowest = -__builtin_inf();
  for (std::size_t lane = 0; lane < kPartials; ++lane) most[lane] = lowest;
  std::size_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (std::size_t lane = 0; lane < kPartials; ++lane) {
      const double old = state[i + lane];
      const double next = (old > 0.0 ? old : 0.0) + (gain - x[i + lane]);
      state[i + lane] = next;
      most[lane] = next > most[lane] ? next : most[lane];
    }
  }
  for (; i < n; ++i) {
    const double next = (state[i] > 0.0 ? state[i] : 0.0) + (gain - x[i]);
    state[i] = next;
    most[0] = next > most[0] ? next : most[0];
  }
  for (std::size_t lane = 1; lane < kPartials; ++lane) {
    most[0] = most[lane] > most[0] ? most[lane] : most[0];
  }
  return most[0];
}
