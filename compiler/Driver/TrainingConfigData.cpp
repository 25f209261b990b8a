#include "compiler/Driver/TrainingConfigData.h"
#include "compiler/Driver/CommandText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace ztc::driver {
namespace {

bool isTokenFile(StringRef file) {
  return file.ends_with(".bin") || file.ends_with(".idx") || file.ends_with(".safetensors");
}
/// What prepare_chat.py, and of texts ztc-run, reads as it is. All else, a name on a hub too, is written as .jsonl
/// first.
bool isRowFile(StringRef file) {
  return file.ends_with(".jsonl") || file.ends_with(".json") || file.ends_with(".txt");
}

/// The role that prepare_chat.py gives what a name of a speaker says.
StringRef roleOf(StringRef speaker) {
  return StringSwitch<StringRef>(speaker)
      .Case("system", "system")
      .Cases({"human", "user"}, "user")
      .Cases({"gpt", "chatgpt", "bing", "bard", "model", "assistant"}, "assistant")
      .Cases({"tool", "observation", "function_response"}, "tool")
      .Default("");
}

std::string rowsFile(StringRef source) {
  return isRowFile(source) ? source.str() : (sys::path::stem(source.rtrim('/')) + ".jsonl").str();
}

} // namespace

ConfigDataSet::ConfigDataSet(std::map<std::string, std::string> given, const RowsWanted &wanted)
    : fields(std::move(given)), wanted(wanted) {
  const std::string files = said("data_files").empty() ? said("path") : said("data_files");
  for (StringRef file : split(files, ','))
    if (!file.empty())
      sources.push_back(file.str());
  const StringRef type = fields["type"];
  if (all_of(sources, isTokenFile))
    form = Tokens;
  else if (type == "completion" || type == "pretrain")
    form = Texts;
  else if (type == "chat_template" || type == "chat_template.default" || type == "sharegpt")
    form = Chats;
  else if (type == "alpaca")
    form = Alpaca;
  for (const std::string &source : sources)
    read.push_back(isTokenFile(source) ? source
                   : form == Texts     ? rowsFile(source)
                                       : (sys::path::stem(StringRef(source).rtrim('/')) + ".safetensors").str());
}

std::string ConfigDataSet::said(StringRef field) const {
  const auto found = fields.find(field.str());
  return found == fields.end() ? "" : found->second;
}

ConfigDataSet::Outcome ConfigDataSet::outcomeOfType() const {
  switch (form) {
  case Tokens:
    return {ConfigField::NotNeeded, "the file holds tokens, and their labels where not all are learnt"};
  case Texts:
    return {ConfigField::Taken, "each text is a document, and all of it is learnt"};
  case Chats:
    return {ConfigField::Taken, "prepare_chat.py: chats by the tokenizer's template"};
  case Alpaca:
    return {ConfigField::Taken, "prepare_chat.py --plain: Alpaca's prompts"};
  case Other:
    break;
  }
  return {ConfigField::NotThere, "forms of rows are alpaca, chat_template, completion, and files of tokens"};
}

ConfigDataSet::Outcome ConfigDataSet::outcomeOfFiles(StringRef option) const {
  std::string before, run;
  for (const auto &[source, file] : zip_equal(sources, read)) {
    if (file != source && !isRowFile(source))
      before += "its rows are written as " + rowsFile(source) + "; ";
    if (isPrepared() && !isTokenFile(source)) {
      before += "samples/data/prepare_chat.py " + shellWord(rowsFile(source)) + " --tokenizer=" + wanted.tokenizer;
      if (!wanted.sequence.empty())
        before += " --seq=" + wanted.sequence;
      if (form == Alpaca)
        before += " --plain";
      if (wanted.learnsPrompts)
        before += " --train-on=all";
      if (const std::string jinja = said("chat_template_jinja"); !jinja.empty())
        before += " --chat-template=" + shellWord(jinja);
      before += " -o " + shellWord(file) + "; ";
    }
    run += " --" + option.str() + "=" + shellWord(file);
  }
  return {ConfigField::Taken, before + "ztc-run" + run + (isText() ? " --tokenizer=" + wanted.tokenizer : "")};
}

ConfigDataSet::Outcome ConfigDataSet::outcomeOfMessages(StringRef field, StringRef text) const {
  const auto when = [](bool isSame, const char *here, const char *otherwise) -> Outcome {
    return {isSame ? ConfigField::NotNeeded : ConfigField::NotThere, isSame ? here : otherwise};
  };
  if (field == "field_messages")
    return when(text == "messages" || text == "conversations" || text == "conversation",
                "prepare_chat.py reads messages and conversations", "chats are in messages or in conversations");
  if (field == "message_property_mappings.role" || field == "message_field_role")
    return when(text == "role" || text == "from", "prepare_chat.py reads role, and ShareGPT's from",
                "the speaker of a message is in role, or in ShareGPT's from");
  if (field == "message_property_mappings.content" || field == "message_field_content")
    return when(text == "content" || text == "value", "prepare_chat.py reads content, and ShareGPT's value",
                "the text of a message is in content, or in ShareGPT's value");
  if (field.consume_front("roles."))
    return when(all_of(split(text, ','), [&](StringRef speaker) { return roleOf(speaker.trim()) == field; }),
                "prepare_chat.py knows these names", "a role has its own name, or one of ShareGPT's");
  if (field == "roles_to_train")
    return when(text == "assistant" || text == "gpt", "every answer of the assistant is learnt",
                "the assistant's answers are learnt, or with train_on_inputs all");
  if (field == "train_on_eos")
    return when(text == "turn", "an answer is learnt with the token that ends it",
                "an answer is learnt with the token that ends it, and no other is");
  if (field == "field_tools")
    return when(text == "tools", "prepare_chat.py reads tools", "tools are in tools");
  if (field == "chat_template" && text == "jinja" && !said("chat_template_jinja").empty())
    return {ConfigField::Taken, "in prepare_chat.py --chat-template"};
  if (field == "chat_template")
    return when(text == "tokenizer_default", "prepare_chat.py takes the tokenizer's",
                "chats take the template of the tokenizer's folder, or of chat_template_jinja");
  if (field == "chat_template_jinja")
    return text.contains('{') ? Outcome{ConfigField::NotThere, "a template is a file of its own"}
                              : Outcome{ConfigField::Taken, "in prepare_chat.py --chat-template"};
  if (field.starts_with("message_field_training"))
    return {ConfigField::NotThere, "a message's `weight` says how much it counts"};
  return {ConfigField::NotThere, ""};
}

ConfigDataSet::Outcome ConfigDataSet::outcomeOf(StringRef field, StringRef option) const {
  const std::string text = said(field);
  const bool isInFiles = all_of(sources, [](StringRef source) { return isTokenFile(source) || isRowFile(source); });
  if (field == "path" && !said("data_files").empty())
    return {ConfigField::NotNeeded, "data_files says which files"};
  if (field == "path" || field == "data_files")
    return outcomeOfFiles(option);
  if (field == "type")
    return outcomeOfType();
  if (field.starts_with("type."))
    return {form == Tokens ? ConfigField::NotNeeded : ConfigField::NotThere,
            form == Tokens ? "the file holds tokens"
                           : "prompts of one's own: prepare_chat.py --plain reads rows of prompt and completion"};
  if (field == "shards" || field == "shards_idx")
    return {ConfigField::NotThere, "a part of a set: ztc-run reads whole files"};
  if (field == "split" && text != "train" && isInFiles)
    return {ConfigField::NotThere, "a part of a set: ztc-run reads whole files"};
  if (field == "split" || field == "name" || field == "revision" || field == "ds_type" ||
      field == "trust_remote_code" || field == "preprocess_shards")
    return {ConfigField::NotNeeded, isInFiles ? "the file is the set" : "the file that its rows are written to is it"};
  if (form == Tokens)
    return {ConfigField::NotNeeded, "the file holds tokens"};
  if (field == "field")
    return {text == "text" ? ConfigField::NotNeeded : ConfigField::NotThere, "a document is what `text` holds"};
  return outcomeOfMessages(field, text);
}

} // namespace ztc::driver
