// Loops that do nothing but reach a roof: fused multiply-adds in registers, and reading memory. Compiled for every
// instruction set, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace danqing::peak {

// Runs `rounds` rounds of independent fused multiply-adds of f32 on this thread; returns the FLOPs done (2 a lane).
// `kept` takes what they add up to (near 1 a lane), so that the loop cannot be dropped.
double multiply_adds(int64_t rounds, float& kept);

// Sums `count` words (a multiple of 512 from an aligned start): reads 8 * count bytes. The sum keeps the loop alive.
uint64_t sum_words(const uint64_t* words, size_t count);

std::string instruction_set();  // "AVX2", the one chosen

// The rate of large products by oneDNN with 16-bit brain floats (`int8`: bytes), best of a few runs in about
// `seconds`; FLOP/s, 0 where oneDNN cannot.
double product_rate(bool int8, int size, double seconds);

}  // namespace danqing::peak
