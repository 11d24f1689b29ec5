#include "weights/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "weights/blocks.h"

namespace danqing {
namespace {

constexpr size_t kChunk = 64;  // a trip count that the compiler knows

// Applies `one` to every element, from bytes of any alignment to bytes of any alignment.
template <class From, class To, class F>
void each(const std::byte* in, std::byte* out, size_t count, F one) {
  From from[kChunk];
  To to[kChunk];
  for (; count >= kChunk; count -= kChunk, in += sizeof from, out += sizeof to) {
    std::memcpy(from, in, sizeof from);
    for (size_t i = 0; i < kChunk; ++i) to[i] = one(from[i]);
    std::memcpy(out, to, sizeof to);
  }
  std::memcpy(from, in, count * sizeof(From));
  for (size_t i = 0; i < count; ++i) to[i] = one(from[i]);
  std::memcpy(out, to, count * sizeof(To));
}

// By masks: a conditional that holds float arithmetic would be compiled to a branch, and the loop not to vectors.
inline uint32_t select(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

// Without a branch: both the normal and the subnormal form are made, and neither needs a subnormal float (which a
// thread may flush to zero).
inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = uint32_t(h & 0x7fff) << 13, sign = uint32_t(h & 0x8000) << 16;
  const uint32_t normal = magnitude + (112u << 23);
  const float small = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  uint32_t bits = select(magnitude < (1u << 23), std::bit_cast<uint32_t>(small), normal);
  bits = select(magnitude >= (31u << 23), magnitude | 0x7f800000, bits);
  return std::bit_cast<float>(bits | sign);
}

inline uint16_t float_to_half(float f) {
  const uint32_t all = std::bit_cast<uint32_t>(f), magnitude = all & 0x7fffffff;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the adder.
  const float capped = std::bit_cast<float>(std::min(magnitude, 0x38800000u));
  const uint32_t small = std::bit_cast<uint32_t>(capped + 0.5f) - 0x3f000000;
  uint32_t half = select(magnitude < 0x38800000, small, normal);
  half = select(magnitude >= 0x477ff000, 0x7c00, half);
  half = select(magnitude > 0x7f800000, 0x7e00, half);
  return static_cast<uint16_t>(half | (all >> 16 & 0x8000));
}

inline uint16_t float_to_bfloat(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}

// Float8 by table: 256 values.
using ByteTable = std::array<float, 256>;
ByteTable table_of(float (*decode)(uint8_t)) {
  ByteTable table;
  for (int i = 0; i < 256; ++i) table[i] = decode(static_cast<uint8_t>(i));
  return table;
}
const ByteTable& e4m3() {
  static const ByteTable table = table_of(f8_e4m3_to_f32);
  return table;
}
const ByteTable& e5m2() {
  static const ByteTable table = table_of(f8_e5m2_to_f32);
  return table;
}

}  // namespace

void to_f32(DType from, std::span<const std::byte> in, std::span<float> values) {
  const size_t count = values.size();
  DANQING_CHECK(in.size() == static_cast<size_t>(bytes_of(from, static_cast<int64_t>(count))));
  std::byte* out = reinterpret_cast<std::byte*>(values.data());
  const auto plain = [](auto v) { return static_cast<float>(v); };
  switch (from) {
    case DType::f32:
      std::copy(in.begin(), in.end(), out);
      return;
    case DType::f16:
      return each<uint16_t, float>(in.data(), out, count, [](uint16_t v) { return half_to_float(v); });
    case DType::bf16:
      return each<uint16_t, float>(in.data(), out, count,
                                   [](uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); });
    case DType::f64:
      return each<double, float>(in.data(), out, count, plain);
    case DType::i64:
      return each<int64_t, float>(in.data(), out, count, plain);
    case DType::i32:
      return each<int32_t, float>(in.data(), out, count, plain);
    case DType::i16:
      return each<int16_t, float>(in.data(), out, count, plain);
    case DType::i8:
      return each<int8_t, float>(in.data(), out, count, plain);
    case DType::u8:
      return each<uint8_t, float>(in.data(), out, count, plain);
    case DType::boolean:
      return each<uint8_t, float>(in.data(), out, count, [](uint8_t v) { return v ? 1.f : 0.f; });
    case DType::f8_e4m3:
      return each<uint8_t, float>(in.data(), out, count, [&table = e4m3()](uint8_t v) { return table[v]; });
    case DType::f8_e5m2:
      return each<uint8_t, float>(in.data(), out, count, [&table = e5m2()](uint8_t v) { return table[v]; });
    default: {
      const DTypeInfo& d = info(from);
      for (size_t block = 0; block < count / d.block; ++block)
        decode_block(from, in.data() + block * d.bytes, values.data() + block * d.block);
    }
  }
}

bool can_convert_to(DType to) {
  constexpr DType kAll[] = {DType::f32,  DType::f16,  DType::bf16, DType::f64, DType::q8_0,
                            DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k};
  return std::find(std::begin(kAll), std::end(kAll), to) != std::end(kAll);
}

void from_f32(std::span<const float> values, DType to, std::span<std::byte> out) {
  const size_t count = values.size();
  if (!can_convert_to(to)) throw Error(Fault::request, "weights cannot be converted to " + std::string(name(to)));
  DANQING_CHECK(out.size() == static_cast<size_t>(bytes_of(to, static_cast<int64_t>(count))));
  const std::byte* in = reinterpret_cast<const std::byte*>(values.data());
  switch (to) {
    case DType::f32:
      std::copy(in, in + values.size_bytes(), out.data());
      return;
    case DType::f16:
      return each<float, uint16_t>(in, out.data(), count, [](float v) { return float_to_half(v); });
    case DType::bf16:
      return each<float, uint16_t>(in, out.data(), count, [](float v) { return float_to_bfloat(v); });
    case DType::f64:
      return each<float, double>(in, out.data(), count, [](float v) { return static_cast<double>(v); });
    default: {
      const DTypeInfo& d = info(to);
      for (size_t block = 0; block < count / d.block; ++block)
        encode_block(to, values.data() + block * d.block, out.data() + block * d.bytes);
    }
  }
}

void convert(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out, int64_t count) {
  DANQING_CHECK(in.size() == static_cast<size_t>(bytes_of(from, count)) &&
                out.size() == static_cast<size_t>(bytes_of(to, count)));
  if (from == to) {
    std::copy(in.begin(), in.end(), out.begin());
    return;
  }
  if (from == DType::f32 && reinterpret_cast<uintptr_t>(in.data()) % alignof(float) == 0)
    return from_f32({reinterpret_cast<const float*>(in.data()), static_cast<size_t>(count)}, to, out);
  constexpr int64_t kMost = 4096;  // a multiple of every block
  std::vector<float> chunk(static_cast<size_t>(std::min(count, kMost)));
  for (int64_t done = 0; done < count; done += kMost) {
    const int64_t n = std::min(kMost, count - done);
    const std::span<float> part(chunk.data(), static_cast<size_t>(n));
    to_f32(from, in.subspan(bytes_of(from, done), bytes_of(from, n)), part);
    from_f32(part, to, out.subspan(bytes_of(to, done), bytes_of(to, n)));
  }
}

}  // namespace danqing
