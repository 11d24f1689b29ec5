// Sizes of a tensor, outermost first. Activations are channels-last: pictures [N, H, W, C], tokens [N, L, C].
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace danqing {

class Shape {
 public:
  static constexpr int kMaxRank = 5;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    DANQING_CHECK(dims.size() <= kMaxRank);
    for (int64_t d : dims) dims_[rank_++] = d;
  }
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[axis < 0 ? axis + rank_ : axis]; }
  int64_t& operator[](int axis) { return dims_[axis < 0 ? axis + rank_ : axis]; }
  int64_t back() const { return dims_[rank_ - 1]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : *this) n *= d;
    return n;
  }
  int64_t rows() const { return rank_ == 0 || back() == 0 ? 0 : count() / back(); }  // all but the last axis
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

inline std::string to_string(const Shape& s) {
  std::string out = "[";
  for (int64_t d : s) out += (out.size() > 1 ? "," : "") + std::to_string(d);
  return out + "]";
}

}  // namespace danqing
