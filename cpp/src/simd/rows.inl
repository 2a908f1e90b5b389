// ---- rows of a matrix, eight at a time ----------------------------------------------------------
// Group k holds eight rows: `stride` columns of eight entries. Every lane adds up its own rows in
// their order, so the instruction sets agree.

// out[8 k + lane] = sum_j u_j entry_j
void lane_dots(const double* groups, std::size_t count, std::size_t stride, const double* u,
               std::size_t n, double* out) {
  for (std::size_t k = 0; k < count; ++k, groups += kPartials * stride, out += kPartials) {
    Doubles acc[kParts] = {};
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t p = 0; p < kParts; ++p) {
        acc[p] += u[j] * load(groups + kPartials * j + p * kWidth);
      }
    }
    for (std::size_t p = 0; p < kParts; ++p) store(out + p * kWidth, acc[p]);
  }
}

// sums[8 c + lane] += sum_k weights[8 k + lane] entry_(first + c), for kColumns columns.
template <std::size_t kColumns, class Weight>
DPOCO_INLINE void add_columns(const double* groups, std::size_t count, std::size_t stride,
                              Weight weight, double* sums) {
  Doubles acc[kColumns][kParts];
  for (std::size_t c = 0; c < kColumns; ++c) {
    for (std::size_t p = 0; p < kParts; ++p) acc[c][p] = load(sums + kPartials * c + p * kWidth);
  }
  for (std::size_t k = 0; k < count; ++k, groups += kPartials * stride) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Doubles w = weight(k, p);
      for (std::size_t c = 0; c < kColumns; ++c) {
        acc[c][p] += w * load(groups + kPartials * c + p * kWidth);
      }
    }
  }
  for (std::size_t c = 0; c < kColumns; ++c) {
    for (std::size_t p = 0; p < kParts; ++p) store(sums + kPartials * c + p * kWidth, acc[c][p]);
  }
}

// The largest number of columns at once for which the sums stay in registers.
constexpr std::size_t kColumnsAtOnce = kParts == 1 ? 8 : 4;

// The last columns are also processed together. One by one, each of their sums would wait for
// itself.
template <std::size_t kColumns, class Weight>
DPOCO_INLINE void add_last_columns(const double* groups, std::size_t count, std::size_t stride,
                                   std::size_t n, Weight weight, double* sums) {
  if constexpr (kColumns > 0) {
    if (n == kColumns) return add_columns<kColumns>(groups, count, stride, weight, sums);
    add_last_columns<kColumns - 1>(groups, count, stride, n, weight, sums);
  }
}

template <class Weight>
DPOCO_INLINE void add_all_columns(const double* groups, std::size_t count, std::size_t stride,
                                  std::size_t first, std::size_t n, Weight weight, double* sums) {
  std::size_t j = first;
  for (; j + kColumnsAtOnce <= n; j += kColumnsAtOnce) {
    add_columns<kColumnsAtOnce>(groups + kPartials * j, count, stride, weight,
                                sums + kPartials * j);
  }
  add_last_columns<kColumnsAtOnce - 1>(groups + kPartials * j, count, stride, n - j, weight,
                                       sums + kPartials * j);
}

// sums[8 j + lane] += sum_k weights[8 k + lane] entry_j
void lane_sums(const double* groups, std::size_t count, std::size_t stride, const double* weights,
               std::size_t n, double* sums) {
  add_all_columns(
      groups, count, stride, 0, n,
      [=](std::size_t k, std::size_t p) { return load(weights + kPartials * k + p * kWidth); },
      sums);
}

// sums[8 (i n + j) + lane] += sum_k weights[8 k + lane] entry_i entry_j for j >= i
void lane_grams(const double* groups, std::size_t count, std::size_t stride, const double* weights,
                std::size_t n, double* sums) {
  for (std::size_t i = 0; i < n; ++i) {
    add_all_columns(
        groups, count, stride, i, n,
        [=](std::size_t k, std::size_t p) {
          return load(weights + kPartials * k + p * kWidth) *
                 load(groups + kPartials * (k * stride + i) + p * kWidth);
        },
        sums + kPartials * i * n);
  }
}

// The entries of `out` from first to last, kVectors vectors of which the last begins at `last`,
// stay in registers during the pass over the rows. All are read before any is written, because the
// last two may overlap.
template <class V, std::size_t kVectors>
DPOCO_INLINE void eliminate_columns(const double* rows, std::size_t stride, std::size_t count,
                                    std::size_t first, std::size_t last, double* out) {
  const auto at = [=](std::size_t v) {
    return v + 1 == kVectors ? last : first + v * (sizeof(V) / sizeof(double));
  };
  V left[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) left[v] = get<V>(out + at(v));
  for (std::size_t k = 0; k < count; ++k, rows += stride) {
    const double factor = -rows[0];
    for (std::size_t v = 0; v < kVectors; ++v) left[v] += factor * get<V>(rows + at(v));
  }
  for (std::size_t v = 0; v < kVectors; ++v) put(out + at(v), left[v]);
}

void eliminate(const double* rows, std::size_t stride, std::size_t count, std::size_t n,
               double* out) {
  constexpr std::size_t kMost = 4;
  if (n < kWidth) {
    for (std::size_t j = 0; j < n; ++j) {
      eliminate_columns<double, 1>(rows, stride, count, j, j, out);
    }
    return;
  }
  std::size_t j = 0;
  std::size_t vectors = (n + kWidth - 1) / kWidth;
  for (; vectors > kMost + 1; vectors -= kMost, j += kMost * kWidth) {
    const std::size_t last = j + (kMost - 1) * kWidth;
    eliminate_columns<Doubles, kMost>(rows, stride, count, j, last, out);
  }
  const std::size_t end = n - kWidth;
  switch (vectors) {
    case 1:
      return eliminate_columns<Doubles, 1>(rows, stride, count, j, end, out);
    case 2:
      return eliminate_columns<Doubles, 2>(rows, stride, count, j, end, out);
    case 3:
      return eliminate_columns<Doubles, 3>(rows, stride, count, j, end, out);
    case 4:
      return eliminate_columns<Doubles, 4>(rows, stride, count, j, end, out);
    default:
      return eliminate_columns<Doubles, 5>(rows, stride, count, j, end, out);
  }
}

void sigmoid(const double* x, std::size_t n, double* out) {
  by_eights(
      x, n, 0.0, [](double v) { return el::sigmoid(v); },
      [&](std::size_t i, std::size_t count, const double* group) {
        copy_group(count, group, out + i);
      });
}

// e / (1 + e)^2 with e = exp(-|x|), symmetric in x
void sigmoid_slope(const double* x, std::size_t n, double* out) {
  by_eights(
      x, n, 0.0,
      [](double v) {
        const double e = el::exp(v < 0.0 ? v : -v);
        const double upper = 1.0 / (1.0 + e);
        return (e * upper) * upper;
      },
      [&](std::size_t i, std::size_t count, const double* group) {
        copy_group(count, group, out + i);
      });
}
