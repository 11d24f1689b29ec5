#include "run/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "base/error.h"

namespace danqing::cpu {

namespace {

constexpr int64_t kRows = 256, kDepth = 256, kBlock = 320;  // measured on Zen 3, L2 of 512 KiB
constexpr int64_t kTasks = 16;                              // cut columns too where rows give fewer tasks than that
constexpr int64_t kAlign = 16;                              // floats of a cache line

int64_t parts(int64_t total, int64_t size) { return (total + size - 1) / size; }

// The size of equal pieces, each at most `most` and a multiple of 8 where there are several.
int64_t piece(int64_t total, int64_t most) {
  const int64_t count = std::max<int64_t>(1, parts(total, most));
  return count == 1 ? total : parts(parts(total, count), 8) * 8;
}

struct Layout {
  int64_t left = 0, right = 0, target = 0;  // floats a thread
  Layout(const Tiling& t, Copies copies) {
    const auto floats = [](bool needed, int64_t count) { return needed ? parts(count, kAlign) * kAlign : 0; };
    left = floats(copies.left, t.rows * t.depth);
    right = floats(copies.right, t.block * t.depth);
    target = floats(copies.target, t.rows * t.columns);
  }
  int64_t total() const { return left + right + target; }
};

bool multiply_tile(const Tiling& tiling, const Tile& tile, const Operands& operands, const Layout& layout,
                   float* scratch) {
  float* const right_scratch = scratch + layout.left;
  const Block c = operands.target(tile, right_scratch + layout.right);
  bool ok = true;
  for (int64_t k = 0; k < tiling.total_depth; k += tiling.depth) {
    const int64_t depth = std::min(tiling.depth, tiling.total_depth - k);
    const Block left = operands.left(tile, k, depth, scratch);
    for (int64_t n = 0; n < tile.columns; n += tiling.block) {
      Tile part = tile;
      part.column = tile.column + n, part.columns = std::min(tiling.block, tile.columns - n);
      const Block right = operands.right(part, k, depth, right_scratch);
      ok &= dnnl_sgemm('N', 'T', part.rows, part.columns, depth, 1.0f, left.data, left.pitch, right.data, right.pitch,
                       k == 0 ? 0.0f : 1.0f, c.data + n, c.pitch) == dnnl_success;
    }
  }
  operands.finish(tile, c);
  return ok;
}

}  // namespace

Tiling::Tiling(int64_t r, int64_t k, int64_t n)
    : total_rows(r), total_depth(k), total_columns(n), rows(piece(r, kRows)), depth(piece(k, kDepth)) {
  const int64_t cuts = std::clamp<int64_t>(parts(kTasks, parts(r, rows)), 1, std::max<int64_t>(1, n / 64));
  columns = piece(n, parts(n, cuts));
  block = piece(columns, kBlock);
}

int64_t Tiling::tasks() const { return parts(total_rows, rows) * parts(total_columns, columns); }

Bytes scratch_of(const Tiling& tiling, Copies copies, int threads) {
  return Bytes(Layout(tiling, copies).total() * threads * int64_t{sizeof(float)});
}

void multiply(const Tiling& tiling, int64_t parts_, const Operands& operands, Copies copies, void* scratch,
              int threads) {
  const Layout layout(tiling, copies);
  const int64_t across = parts(tiling.total_columns, tiling.columns), tasks = tiling.tasks();
  bool ok = true;
#pragma omp parallel num_threads(threads) reduction(&& : ok)
  {
    omp_set_num_threads(1);  // this task's own setting: a region of one thread must not let sgemm start a team
    float* const mine = static_cast<float*>(scratch) + omp_get_thread_num() * layout.total();
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < tasks * parts_; ++i) {
      Tile tile{i / tasks, i % tasks / across * tiling.rows, 0, i % across * tiling.columns, 0};
      tile.rows = std::min(tiling.rows, tiling.total_rows - tile.row);
      tile.columns = std::min(tiling.columns, tiling.total_columns - tile.column);
      ok = multiply_tile(tiling, tile, operands, layout, mine) && ok;
    }
  }
  DANQING_CHECK(ok);
}

}  // namespace danqing::cpu
