#include "hardware/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hardware/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace danqing::peak::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Ten chains cover latency 4 to 5 on two units; with two constants they fit the 16 registers of AVX2. x * a + b with
// these constants stays near 1: no denormals, no overflow.
double MultiplyAdds(int64_t rounds, float& kept) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.5f), b = hn::Set(d, 0.5f);
  auto x0 = hn::Set(d, 1.0f), x1 = hn::Set(d, 1.1f), x2 = hn::Set(d, 1.2f), x3 = hn::Set(d, 1.3f);
  auto x4 = hn::Set(d, 1.4f), x5 = hn::Set(d, 1.5f), x6 = hn::Set(d, 1.6f), x7 = hn::Set(d, 1.7f);
  auto x8 = hn::Set(d, 1.8f), x9 = hn::Set(d, 1.9f);
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b), x1 = hn::MulAdd(x1, a, b), x2 = hn::MulAdd(x2, a, b), x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b), x5 = hn::MulAdd(x5, a, b), x6 = hn::MulAdd(x6, a, b), x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b), x9 = hn::MulAdd(x9, a, b);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(hn::Add(x4, x5), hn::Add(x6, x7))), hn::Add(x8, x9));
  kept = hn::GetLane(hn::SumOfLanes(d, sum));
  return double(rounds) * 10 * 2 * double(hn::Lanes(d));
}

uint64_t SumWords(const uint64_t* HWY_RESTRICT words, size_t count) {
  const hn::ScalableTag<uint64_t> d;
  const size_t n = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  for (size_t i = 0; i + 4 * n <= count; i += 4 * n) {
    s0 = hn::Add(s0, hn::LoadU(d, words + i));
    s1 = hn::Add(s1, hn::LoadU(d, words + i + n));
    s2 = hn::Add(s2, hn::LoadU(d, words + i + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, words + i + 3 * n));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace danqing::peak::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace danqing::peak {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(SumWords);

double multiply_adds(int64_t rounds, float& kept) { return HWY_DYNAMIC_DISPATCH(MultiplyAdds)(rounds, kept); }
uint64_t sum_words(const uint64_t* words, size_t count) { return HWY_DYNAMIC_DISPATCH(SumWords)(words, count); }

std::string instruction_set() {
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(supported & -supported);  // the lowest bit is the best target
}

}  // namespace danqing::peak
#endif
