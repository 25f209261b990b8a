// Entries of Axolotl's `datasets:` and `test_datasets:`, each by its own type.
#pragma once
#include "compiler/Driver/TrainingConfig.h"
#include <map>

namespace ztc::driver {

/// What the rest of the file and the command line say about rows.
struct RowsWanted {
  std::string tokenizer;      ///< the model's folder, as a word of a command
  std::string sequence;       ///< tokens of a row; empty: as the model's limit says
  bool learnsPrompts = false; ///< train_on_inputs
};

/// One entry: which files ztc-run reads of it, and what becomes of each of its fields.
class ConfigDataSet {
public:
  /// `fields`: what the file says, by the names within the entry ("path", "roles.user"), without those that ask for
  /// nothing.
  ConfigDataSet(std::map<std::string, std::string> fields, const RowsWanted &wanted);

  /// Of ztc-run's --data or --eval-data.
  const std::vector<std::string> &files() const { return read; }
  /// Whether ztc-run makes the tokens, and so takes a tokenizer.
  bool isText() const { return form == Texts; }
  /// Whether rows of it are made by prepare_chat.py before the run.
  bool isPrepared() const { return form == Chats || form == Alpaca || form == Other; }

  struct Outcome {
    ConfigField::Fate fate;
    std::string text;
  };
  /// Of a field that asks for something. `option`: of ztc-run, that reads the files: "data" or "eval-data".
  Outcome outcomeOf(llvm::StringRef field, llvm::StringRef option) const;

private:
  /// Tokens: files of these, whatever the type says. Texts: documents, all of which is learnt. Other: a form that
  /// prepare_chat.py does not read, or a file of token ids as JSON.
  enum Form { Tokens, Texts, Chats, Alpaca, Other };

  std::string said(llvm::StringRef field) const;
  Outcome outcomeOfType() const;
  Outcome outcomeOfFiles(llvm::StringRef option) const;
  Outcome outcomeOfMessages(llvm::StringRef field, llvm::StringRef text) const;

  std::map<std::string, std::string> fields;
  RowsWanted wanted;
  Form form = Other;
  std::vector<std::string> sources, read; ///< as the entry names them; as ztc-run reads them
};

} // namespace ztc::driver
