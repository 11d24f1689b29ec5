// The little of EXIF (TIFF 6.0 directories) that pictures need: orientation, and the two texts of Metadata.
// Reading never fails: what is malformed reads as absent.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "image/write.h"

namespace danqing::exif {

// `bytes` begin at the TIFF header ("II*\0" or "MM\0*") or at "Exif\0\0" before it.
int orientation(std::span<const uint8_t> bytes);    // 1 to 8; 1 where absent
Metadata metadata(std::span<const uint8_t> bytes);  // UserComment, ImageDescription
std::string make(const Metadata&);                  // big-endian, from the TIFF header on; empty for empty metadata

}  // namespace danqing::exif
