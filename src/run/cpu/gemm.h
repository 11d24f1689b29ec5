// Matrix products by tiles, for processors without AVX-512: c [rows, columns] = left [rows, depth] x right [columns,
// depth]^T in f32, each tile by oneDNN's sgemm on one thread, and what follows the product done while the tile is in
// cache. How a product is cut depends on its sizes alone, so the result is the same, bit for bit, on any number of
// threads. Beside the scratch given, sgemm takes about 17 KB a thread for itself while it runs.
#pragma once

#include "base/units.h"

namespace danqing::cpu {

// How a product is cut. A task is one tile of c: `rows` x `columns`. It adds up blocks of `depth`, each for `block`
// columns at a time, so that a block of left, of right and of c stay in the core's cache.
struct Tiling {
  Tiling(int64_t rows, int64_t depth, int64_t columns);
  int64_t total_rows, total_depth, total_columns;
  int64_t rows, columns, depth, block;
  int64_t tasks() const;
};

struct Tile {
  int64_t part;  // which of several products of the same sizes
  int64_t row, rows, column, columns;
};
struct Block {
  float* data;
  int64_t pitch;  // values between rows
};

// The operands of a product. Each answers with the place of the values: where they lie, or `scratch` filled with them.
class Operands {
 public:
  virtual ~Operands() = default;
  virtual Block left(const Tile&, int64_t k, int64_t depth, float* scratch) const = 0;   // tile rows x [k, k + depth)
  virtual Block right(const Tile&, int64_t k, int64_t depth, float* scratch) const = 0;  // tile columns x the same
  virtual Block target(const Tile&, float* scratch) const = 0;                           // where c is added up
  virtual void finish(const Tile&, Block c) const = 0;
};

// Which of left, right and target need scratch.
struct Copies {
  bool left = false, right = false, target = false;
};
Bytes scratch_of(const Tiling&, Copies, int threads);

// Runs `parts` products of the same sizes. `scratch` is 64-byte aligned, scratch_of() long.
void multiply(const Tiling&, int64_t parts, const Operands&, Copies, void* scratch, int threads);

}  // namespace danqing::cpu
