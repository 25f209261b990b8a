// Configuration files of other trainers, as options of ztc and ztc-run.
#pragma once
#include "compiler/Driver/Options.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// What becomes of one field of a configuration.
struct ConfigField {
  enum Fate { Taken, NotNeeded, NotThere };
  std::string file, field, value;
  Fate fate = NotThere;
  std::string text; ///< the option with its value, why it is not needed, or what is missing
};

class ConfigDataSet;

/// What Axolotl's YAML, DeepSpeed's ds_config.json or Hugging Face's TrainingArguments as JSON ask for.
class TrainingConfig {
public:
  /// Reads all files; which kind one is its fields say. Values "auto" of a ds_config.json are those of the other files,
  /// else of the defaults of TrainingArguments, as transformers fills them in. False after a message where a file is
  /// none of these. `model`: what is trained, for commands that take its tokenizer.
  bool read(const std::vector<std::string> &files, const std::string &model);

  /// Sets the options of `options` that the command line does not name. `globalBatch` is set where the files say it,
  /// for so many ranks.
  void apply(CompileOptions &options, uint64_t &globalBatch, unsigned world) const;
  /// Options of ztc-run, each with a space in front.
  std::string runOptions() const;
  const std::vector<ConfigField> &fields() const { return found; }
  /// A line for each field.
  void print(llvm::raw_ostream &out) const;
  /// The fields that ztc has nothing for and `ignored` names neither by themselves nor by a field that they are in.
  std::vector<std::string> notThere(const std::vector<std::string> &ignored) const;
  /// What is wrong with the names in `ignored`: one that no file has, or of which all is taken; "" where nothing is.
  std::string problemOf(const std::vector<std::string> &ignored) const;

private:
  struct Value {
    std::string field, text;
    bool isNothing = false; ///< null, false, or empty
  };
  bool readFile(const std::string &path, std::vector<Value> &values) const;
  void readHuggingFace(const std::string &file, const std::vector<Value> &values);
  void readAxolotl(const std::string &file, const std::vector<Value> &values);
  void readDeepSpeed(const std::string &file, std::vector<Value> values);
  /// Of a field `within` a data set.
  void takeOfSet(const std::string &file, const Value &value, const ConfigDataSet &set, llvm::StringRef within);
  void takeOffload(const std::string &file, const Value &value);
  bool takeCommon(const std::string &file, const Value &value);
  void add(const std::string &file, const Value &value, ConfigField::Fate fate, const std::string &text);
  /// False where `option` takes numbers and `text` is none of them: the field is then one that asks for nothing, or one
  /// that ztc has nothing for.
  bool isTakenAs(const std::string &file, const Value &value, llvm::StringRef option, llvm::StringRef text);
  void compileOption(const std::string &file, const Value &value, const std::string &name, const std::string &text);
  void runOption(const std::string &file, const Value &value, const std::string &name, const std::string &text);
  std::string hf(llvm::StringRef name) const;

  std::string tokenizer; ///< the model's folder; FOLDER where it is none
  std::vector<ConfigField> found;
  std::vector<std::pair<std::string, std::string>> compileWords, runWords; ///< option, value
  std::vector<std::pair<std::string, std::string>> arguments;              ///< of TrainingArguments, by its names
};

} // namespace ztc::driver
