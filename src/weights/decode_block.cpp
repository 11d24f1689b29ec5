// Every format is taken apart into whole levels and, for each group of 16, a scale and an offset:
// value = scale * level + offset. Layouts: the GGUF specification and its reference types; field order is file order.
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "weights/blocks.h"

namespace danqing {
namespace {

constexpr int kGroup = 16;

struct Levels {
  int8_t level[256];
  float scale[16], offset[16];  // one a group of 16
};

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return f16_to_f32(bits);
}

// 32 values: [d f16] or [d f16, m f16], then [high bits u32] for five bits, then 16 bytes of nibbles (low ones first).
void unpack_32(const uint8_t* in, bool with_min, bool five_bits, Levels& out) {
  const float d = half_at(in), min = with_min ? half_at(in + 2) : 0;
  in += with_min ? 4 : 2;
  uint32_t high = 0;
  if (five_bits) {
    std::memcpy(&high, in, 4);
    in += 4;
  }
  const int middle = with_min ? 0 : five_bits ? 16 : 8;
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? in[i] & 15 : in[i - 16] >> 4;
    out.level[i] = static_cast<int8_t>((low | ((high >> i) & 1) << 4) - middle);
  }
  for (int g = 0; g < 2; ++g) out.scale[g] = d, out.offset[g] = min;
}

void unpack_q8_0(const uint8_t* in, Levels& out) {
  std::memcpy(out.level, in + 2, 32);
  for (int g = 0; g < 2; ++g) out.scale[g] = half_at(in), out.offset[g] = 0;
}

// scales[16] (scale low nibble, minimum high), qs[64], d, dmin. Two bits a value: each 128 values take 32 bytes, in
// four runs of 32 by bit position.
void unpack_q2_k(const uint8_t* in, Levels& out) {
  const uint8_t *scales = in, *qs = in + 16;
  const float d = half_at(in + 80), dmin = half_at(in + 82);
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = d * static_cast<float>(scales[g] & 15);
    out.offset[g] = -(dmin * static_cast<float>(scales[g] >> 4));
  }
  for (int i = 0; i < 256; ++i) out.level[i] = qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// hmask[32], qs[64], scales[12], d. As q2_k with a third bit in hmask, levels -4..3, sixteen 6-bit scales less 32.
void unpack_q3_k(const uint8_t* in, Levels& out) {
  const uint8_t *high = in, *qs = in + 32, *scales = in + 96;
  const float d = half_at(in + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int top = scales[8 + g % 4] >> (g / 4 * 2) & 3;
    out.scale[g] = d * static_cast<float>((low | top << 4) - 32);
    out.offset[g] = 0;
  }
  for (int i = 0; i < 256; ++i) {
    const int low = qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out.level[i] = static_cast<int8_t>(low - ((high[i % 32] >> (i / 32) & 1) ? 0 : 4));
  }
}

// d, dmin, scales[12]: eight 6-bit scales and eight 6-bit minimums, one of each for 32 values.
void unpack_six_bit_scales(const uint8_t* in, Levels& out) {
  const float d = half_at(in), dmin = half_at(in + 2);
  const uint8_t* packed = in + 4;
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
    const int min = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    for (int g = 2 * j; g < 2 * j + 2; ++g) {
      out.scale[g] = d * static_cast<float>(scale);
      out.offset[g] = -(dmin * static_cast<float>(min));
    }
  }
}

// Nibbles: 64 values share 32 bytes, the low nibbles are the first 32.
void unpack_q4_k(const uint8_t* in, Levels& out) {
  unpack_six_bit_scales(in, out);
  for (int i = 0; i < 256; ++i) out.level[i] = in[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

// As q4_k, with qh[32] before the nibbles: bit k of byte j is the fifth bit of value 32 k + j.
void unpack_q5_k(const uint8_t* in, Levels& out) {
  unpack_six_bit_scales(in, out);
  for (int i = 0; i < 256; ++i) {
    const int low = in[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
    out.level[i] = static_cast<int8_t>(low | (in[16 + i % 32] >> (i / 32) & 1) << 4);
  }
}

// ql[128], qh[64], scales[16] i8, d. 128 values take 64 bytes of low nibbles and 32 bytes of two high bits; levels
// less 32.
void unpack_q6_k(const uint8_t* in, Levels& out) {
  const uint8_t *ql = in, *qh = in + 128;
  const float d = half_at(in + 208);
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = d * static_cast<float>(static_cast<int8_t>(in[192 + g]));
    out.offset[g] = 0;
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, run = i % 128 / 32;
    const int low = ql[half * 64 + run % 2 * 32 + i % 32] >> (run / 2 * 4) & 15;
    const int top = qh[half * 32 + i % 32] >> (run * 2) & 3;
    out.level[i] = static_cast<int8_t>((low | top << 4) - 32);
  }
}

void unpack(DType type, const uint8_t* in, Levels& out) {
  switch (type) {
    case DType::q8_0:
      return unpack_q8_0(in, out);
    case DType::q4_0:
      return unpack_32(in, false, false, out);
    case DType::q4_1:
      return unpack_32(in, true, false, out);
    case DType::q5_0:
      return unpack_32(in, false, true, out);
    case DType::q5_1:
      return unpack_32(in, true, true, out);
    case DType::q2_k:
      return unpack_q2_k(in, out);
    case DType::q3_k:
      return unpack_q3_k(in, out);
    case DType::q4_k:
      return unpack_q4_k(in, out);
    case DType::q5_k:
      return unpack_q5_k(in, out);
    case DType::q6_k:
      return unpack_q6_k(in, out);
    default:
      DANQING_CHECK(false && "not a block format");
  }
}

}  // namespace

void decode_block(DType type, const std::byte* in, float* out) {
  Levels levels;
  unpack(type, reinterpret_cast<const uint8_t*>(in), levels);
  for (int g = 0; g < info(type).block / kGroup; ++g)
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i)
      out[i] = levels.scale[g] * static_cast<float>(levels.level[i]) + levels.offset[g];
}

}  // namespace danqing
