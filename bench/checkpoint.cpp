// Times checkpoints: saving states against a plain write and fsync of as many bytes by as many
// ranks, and loading them against a plain read into their place. Interleaved, and in the directory
// that CHECKPOINT_DIR names, else the current one.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "coconet/mpi.h"
#include "rows.h"
#include "timing.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t write_bytes = std::size_t{16} << 20;

/// A file of this rank, closed with the object.
class File {
 public:
  File(const fs::path& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ == -1) throw std::runtime_error("cannot open " + path.string());
  }
  ~File() { close(number_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// Writes `memory`, in large pieces, and waits for the disk.
void write_plainly(const fs::path& path, std::span<const std::byte> memory) {
  const File file(path, O_WRONLY | O_CREAT | O_EXCL);
  while (!memory.empty()) {
    const ssize_t written =
        write(file.number(), memory.data(), std::min(memory.size(), write_bytes));
    if (written <= 0) throw std::runtime_error("cannot write " + path.string());
    memory = memory.subspan(static_cast<std::size_t>(written));
  }
  if (fsync(file.number()) != 0) throw std::runtime_error("cannot sync " + path.string());
}

void read_plainly(const fs::path& path, std::span<std::byte> memory) {
  const File file(path, O_RDONLY);
  while (!memory.empty()) {
    const ssize_t got = read(file.number(), memory.data(), std::min(memory.size(), write_bytes));
    if (got <= 0) throw std::runtime_error("cannot read " + path.string());
    memory = memory.subspan(static_cast<std::size_t>(got));
  }
}

/// Has this rank's files read from the disk the next time.
void forget(const fs::path& path) {
  const File file(path, O_RDONLY);
  posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
}

double milliseconds_of(const std::function<void()>& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  body();
  MPI_Barrier(MPI_COMM_WORLD);
  double ms = (MPI_Wtime() - start) * 1e3;
  MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return ms;
}

/// The states of an optimizer: weights that all ranks have, and two moments in slices.
coconet::Executable compile_states(const coconet::World& world, std::int64_t n) {
  coconet::Program program("states", coconet::Mesh::over(world));
  (void)program.state("w", coconet::f32, {n}, coconet::replicated);
  for (const char* name : {"m", "v"})
    (void)program.state(name, coconet::f32, {n}, coconet::sliced(0));
  return coconet::compile(program, coconet::Schedule(), world);
}

void measure(const coconet::World& world, std::int64_t n, int samples, bench::Rows& rows) {
  const char* const set = std::getenv("CHECKPOINT_DIR");
  const fs::path directory = fs::absolute(set != nullptr ? set : ".");
  const std::string mine = std::to_string(world.rank());
  const fs::path saved = directory / "coconet-bench-checkpoint",
                 plain = directory / ("coconet-bench-plain-" + mine);
  coconet::Executable step = compile_states(world, n);
  for (const char* name : {"w", "m", "v"}) {
    float value = 0;
    for (float& element : step.data<float>(name)) element = value += 0.25F;
  }
  const auto bytes = static_cast<std::size_t>(3 * n) * sizeof(float);
  std::vector<std::byte> memory(bytes / static_cast<std::size_t>(world.size()), std::byte{7});

  std::vector<double> save, write, load, read;
  for (int i = 0; i < samples; ++i) {
    const auto save_once = [&] { save.push_back(milliseconds_of([&] { step.save(saved); })); };
    const auto write_once = [&] {
      write.push_back(milliseconds_of([&] { write_plainly(plain, memory); }));
    };
    // Disks that are written in turns favour neither.
    i % 2 == 0 ? (save_once(), write_once()) : (write_once(), save_once());
    forget(saved / ("rank-0000" + mine + ".safetensors"));
    forget(plain);
    load.push_back(milliseconds_of([&] { (void)step.load(saved); }));
    read.push_back(milliseconds_of([&] { read_plainly(plain, memory); }));
    fs::remove(plain);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank() == 0) fs::remove_all(saved);
    sync();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  const std::string size = std::to_string(bytes >> 20) + " MiB";
  rows.add({"save " + size, bytes / sizeof(float), bench::median(save), bench::median(write)});
  rows.add({"load " + size, bytes / sizeof(float), bench::median(load), bench::median(read)});
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  bench::Rows rows("checkpoint", world.size(), world.rank() == 0, options.json);
  constexpr std::int64_t mebi = 1 << 20;
  measure(world, 8 * mebi, 7, rows);
  if (!options.quick) measure(world, 90 * mebi, 7, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
