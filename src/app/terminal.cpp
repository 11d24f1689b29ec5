#include "app/terminal.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "app/command.h"

namespace danqing {

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO)) {}
ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

void ProgressLine::show(const Progress& p) {
  if (quiet_) return;
  const std::string left = to_string(p.left) + " left", memory = to_string(p.allocated);
  if (!terminal_) {
    if (p.phase != phase_) std::fprintf(stderr, "%s (%s, %s)\n", p.phase.c_str(), left.c_str(), memory.c_str());
    phase_ = p.phase;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (p.phase == phase_ && p.step < p.total && now - last_ < std::chrono::milliseconds(60)) return;
  last_ = now, phase_ = p.phase;
  constexpr int kWidth = 24;
  const int full = static_cast<int>(p.share * kWidth);
  std::string bar(static_cast<size_t>(full), '#');
  bar.resize(kWidth, '.');
  const bool counts = p.total > 1 && !p.phase.starts_with("load");
  const std::string step = counts ? " " + std::to_string(p.step) + "/" + std::to_string(p.total) : "";
  std::fprintf(stderr, "\r\033[K[%s] %s%s  %s  %s", bar.c_str(), p.phase.c_str(), step.c_str(), left.c_str(),
               memory.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

// Signal handlers can reach nothing but a global.
static std::atomic<bool> stop_asked{false};

static void on_signal(int) {
  if (stop_asked.exchange(true)) _exit(kInterrupted);
}

const std::atomic<bool>& stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return stop_asked;
}

}  // namespace danqing
