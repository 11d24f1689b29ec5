// Sizes and numbers of pictures: Lanczos and nearest resampling, and 8 bit to and from the model's [-1, 1].
#pragma once

#include <span>
#include <vector>

#include "image/image.h"

namespace danqing {

// Lanczos of three lobes, widened by the ratio when shrinking, across then down, 8 bit between the two: as Pillow's
// Image.resize(size, LANCZOS), within one level. Sizes are positive (CHECK).
Image resize_lanczos(const Image&, int width, int height);
Mask resize_lanczos(const Mask&, int width, int height);

// Output (x, y) takes input (floor(x * w / width), floor(y * h / height)), as torch's interpolate(mode="nearest").
Image resize_nearest(const Image&, int width, int height);
Mask resize_nearest(const Mask&, int width, int height);

// [height, width, 3] in [-1, 1]: 2 * (v / 255) - 1 in float, as diffusers' image processor.
std::vector<float> to_signed(const Image&);
void to_signed(const Image&, std::span<float> out);  // out.size() = rgb.size()
// round(clamp(x / 2 + 0.5, 0, 1) * 255), halves to even. Throws Error(numeric) if a number is NaN.
Image from_signed(std::span<const float> pixels, int width, int height);

}  // namespace danqing
