// A device: memory that only its own kernels may address, and kernels. This is all that a backend must give.
#pragma once

#include <functional>
#include <memory>

#include "run/kernel.h"

namespace danqing {

class Device {
 public:
  virtual ~Device() = default;

  // Counts every byte; allocate throws Error(capacity) beyond the limit, if one is set.
  void* allocate(Bytes, const std::string& what);
  void release(void*, Bytes);
  void set_limit(Bytes limit) { limit_ = limit; }  // 0: none
  Bytes allocated() const { return allocated_; }
  Bytes allocated_peak() const { return peak_; }
  void reset_peak() { peak_ = allocated_; }

  virtual const Backend& backend() const = 0;
  virtual std::unique_ptr<Kernel> kernel(const Graph&, const Node&) const = 0;
  // `fill` writes the bytes on the host: in place where the host can address the device's memory, else before a copy.
  virtual void write(void* to, Bytes, const std::function<void(std::span<std::byte>)>& fill) = 0;
  virtual void read(const void* from, std::span<std::byte> host) = 0;
  virtual void finish() = 0;  // until all kernels started so far are done

 protected:
  virtual void* get_memory(Bytes, const std::string& what) = 0;
  virtual void free_memory(void*, Bytes) = 0;

 private:
  Bytes allocated_, peak_, limit_;
};

// Memory of a device, given back at the end of its life.
class Block {
 public:
  Block() = default;
  Block(Device& device, Bytes bytes, const std::string& what)
      : device_(&device), data_(bytes.value ? device.allocate(bytes, what) : nullptr), bytes_(bytes) {}
  Block(Block&& o) noexcept { *this = std::move(o); }
  Block& operator=(Block&& o) noexcept {
    std::swap(device_, o.device_), std::swap(data_, o.data_), std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Block() {
    if (data_) device_->release(data_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  Bytes bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  Bytes bytes_;
};

}  // namespace danqing
