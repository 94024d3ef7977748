// The independent implementation that we are compared with: llama.cpp through node-llama-cpp,
// on the processor, with its own reading of the same file. Run from a folder that has the packages.
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

// Packages lie where the process runs (build/parity), not beside this file.
const require = createRequire(path.join(process.cwd(), "package.json"));
const {getLlama, readGgufFileInfo} = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const {Template} = await import(pathToFileURL(require.resolve("@huggingface/jinja")));

export async function load(modelPath, options = {}) {
  const llama = await getLlama({build: "never", gpu: false, logLevel: "error", skipDownload: true});
  const model = await llama.loadModel({modelPath, gpuLayers: 0, ...options});
  const info = await readGgufFileInfo(modelPath);
  const vocabulary = info.metadata.tokenizer.ggml;
  const template = info.metadata.tokenizer.chat_template;
  return {
    model,
    vocabulary,
    // special: whether control tokens spelled in the text are recognised
    tokenize: (text, special = false) => text === "" ? [] : Array.from(model.tokenize(text, special)),
    isEnd: (token) => model.isEogToken(token),
    // The prompt that the file's own Jinja template writes.
    render: (messages) => new Template(template).render({
      messages,
      add_generation_prompt: true,
      bos_token: vocabulary.tokens[vocabulary.bos_token_id] ?? "",
      eos_token: vocabulary.tokens[vocabulary.eos_token_id] ?? "",
    }),
  };
}
