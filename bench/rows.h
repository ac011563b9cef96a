// What the benchmarks on MPI ranks share around their measurements: command line, rows, and their
// JSON.
#pragma once

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Options {
  bool quick = false;                   ///< fewer sizes
  std::string json;                     ///< a file for the rows; empty for none
  std::vector<std::string> other_mpis;  ///< that peers run under, too: NAME=FILE of other_mpi.h
};

/// Throws with the usage.
inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (argument == "--other-mpi" && i + 1 < argc) {
      options.other_mpis.emplace_back(argv[++i]);
    } else {
      throw std::invalid_argument("usage: " + std::string(argv[0]) +
                                  " [--quick] [--json FILE] [--other-mpi NAME=FILE]...");
    }
  }
  return options;
}

/// The body of main: `run` with the command line; what it throws is said on standard error.
inline int run_program(int argc, char** argv, void (*run)(const Options& options)) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

struct Row {
  std::string name;
  std::size_t n = 0;  ///< elements
  double ms = 0;
  std::optional<double> peer_ms = {};   ///< what an application writes without this library
  std::string peer = {};                ///< which of several that is
  std::optional<double> floor_ms = {};  ///< what it should cost, where there is such a thing
  [[nodiscard]] double ratio_peer() const { return *peer_ms / ms; }
  [[nodiscard]] double ratio_floor() const { return ms / *floor_ms; }
};

/// Prints rows as it gets them, and writes them as JSON at the end. Only rank 0 does either.
class Rows {
 public:
  Rows(std::string bench, int ranks, bool is_first_rank, std::string json)
      : bench_(std::move(bench)), ranks_(ranks), prints_(is_first_rank), json_(std::move(json)) {
    if (!prints_) return;
    std::printf("%s, %d ranks\n%-48s %10s %12s %12s %12s %12s %12s  %s\n", bench_.c_str(), ranks_,
                "name", "n", "ms", "peer_ms", "ratio_peer", "floor_ms", "ratio_floor", "peer");
  }

  void add(Row row) {
    if (prints_) {
      std::printf("%-48s %10zu %12.5f", row.name.c_str(), row.n, row.ms);
      if (row.peer_ms) {
        std::printf(" %12.5f %12.2f", *row.peer_ms, row.ratio_peer());
      } else {
        std::printf(" %12s %12s", "", "");
      }
      if (row.floor_ms) {
        std::printf(" %12.5f %12.2f", *row.floor_ms, row.ratio_floor());
      } else if (!row.peer.empty()) {
        std::printf(" %12s %12s", "", "");
      }
      std::printf("%s%s\n", row.peer.empty() ? "" : "  ", row.peer.c_str());
      std::fflush(stdout);
    }
    rows_.push_back(std::move(row));
  }

  void write() const {
    if (!prints_ || json_.empty()) return;
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : rows_) {
      nlohmann::json one = {{"name", row.name}, {"n", row.n}, {"ms", row.ms}};
      if (row.peer_ms) {
        one["peer_ms"] = *row.peer_ms;
        one["ratio_peer"] = row.ratio_peer();
        if (!row.peer.empty()) one["peer"] = row.peer;
      }
      if (row.floor_ms) {
        one["floor_ms"] = *row.floor_ms;
        one["ratio_floor"] = row.ratio_floor();
      }
      rows.push_back(std::move(one));
    }
    std::ofstream out(json_);
    out << nlohmann::json{{"bench", bench_}, {"ranks", ranks_}, {"rows", rows}}.dump(2) << "\n";
    if (!out.flush()) throw std::runtime_error("cannot write " + json_);
  }

 private:
  std::string bench_;
  int ranks_;
  bool prints_;
  std::string json_;
  std::vector<Row> rows_;
};

}  // namespace bench
