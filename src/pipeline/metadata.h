// The texts that a picture carries: A1111's block for people and other programs, JSON to paint it again.
#pragma once

#include "image/write.h"
#include "pipeline/job.h"

namespace danqing {

// For picture `index` of the job (order of seeds).
Metadata metadata_of(const Job&, int64_t index);

// The request that painted a picture. Throws Error(file) if it carries none.
Request request_of_picture(const std::string& path);

}  // namespace danqing
