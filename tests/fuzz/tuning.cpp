// Tuning files, and what is looked up in them.
#include "jit/tune/tuning_file.h"

#include "coconet/schedule.h"
#include "fuzz/targets.h"

namespace coconet::fuzz {

void fuzz_tuning(Bytes bytes) {
  const jit::TuningFile origin = jit::parse_tuning_origin(text_of(bytes));
  jit::TuningFile file = jit::parse_tuning(text_of(bytes));
  require(origin.library == file.library && origin.device == file.device,
          "both readers agree who measured");
  const std::string json = jit::to_json(file);
  require(jit::to_json(jit::parse_tuning(json)) == json, "a tuning file survives its JSON");
  for (const jit::TuningFile::TunedProgram& program : file.programs) {
    require(file.find(program.digest) != nullptr, "what the file has is found");
    for (const jit::TuningFile::Choice& choice : program.choices) {
      (void)Schedule::parse(choice.schedule);
      require(jit::nearest_choice(program, choice.sizes) != nullptr,
              "what was measured is near itself");
    }
  }
}

}  // namespace coconet::fuzz
