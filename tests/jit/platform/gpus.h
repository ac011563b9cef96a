// GPUs as data sheets and published measurements describe them, and how many blocks they run at
// once. No GPU is asked.
#pragma once

#include <algorithm>
#include <string_view>

namespace coconet::test {

/// `threads`, `blocks` and `shared_bytes` of a multiprocessor are those of the CUDA C++ Programming
/// Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability".
struct Gpu {
  std::string_view arch, name;
  int multiprocessors, threads, blocks, shared_bytes;
  double memory_gb_s;        ///< data sheet
  double memory_latency_ns;  ///< of a load that misses all caches, while others do so too
  double link_gb_s;          ///< to other GPUs, each way: data sheet
};

/// What a store takes until another GPU sees it, through a switch: what NCCL's tuning assumes for a
/// step of its protocol LL over NVLink (hwLat in src/graph/tuning.cc).
inline constexpr double link_hop_ns = 600;

/// Latency: pointer chasing finds 480 cycles at 1.755 GHz on an H100 (Luo et al., Benchmarking and
/// Dissecting the Nvidia Hopper GPU Architecture, arXiv 2402.13499) and more across the halves of
/// its L2 and of a B200 (chipsandcheese.com, "Nvidia's B200"). Under load it is about twice that,
/// which is what bytes in flight have to cover.
inline constexpr Gpu gpus[] = {
    {"sm_80", "A100 SXM 80 GB", 108, 2048, 32, 164 << 10, 2039, 600, 300},
    {"sm_90", "H100 SXM", 132, 2048, 32, 228 << 10, 3350, 600, 450},
    {"sm_100", "B200", 148, 2048, 32, 228 << 10, 8000, 800, 900},
    {"sm_120", "RTX PRO 6000 Blackwell", 188, 1536, 24, 100 << 10, 1792, 800, 64},
};

inline const Gpu& gpu_of(std::string_view arch) {
  return *std::ranges::find(gpus, arch, &Gpu::arch);
}

/// Blocks of `threads` threads that a multiprocessor runs at once: CUDA's formulas
/// (cuda_occupancy.h) for compute capabilities 8.0 to 12.x. Registers go to warps by 256 out of a
/// quarter's 16384; a block's shared memory is rounded up to 128 bytes after the 1 KiB that CUDA
/// takes for itself.
inline int blocks_at_once(const Gpu& gpu, int threads, int registers, int shared_bytes) {
  const int warps = (threads + 31) / 32;
  const int of_warp = (registers * 32 + 255) / 256 * 256;
  const int shared = (shared_bytes + 1024 + 127) / 128 * 128;
  return std::min({gpu.blocks, gpu.threads / 32 / warps, 16384 / of_warp * 4 / warps,
                   gpu.shared_bytes / shared});
}

}  // namespace coconet::test
