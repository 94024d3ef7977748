// The official client for Node against the gateway; prints what the test compares.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "any", maxRetries: 0 });
const messages = [{ role: "user", content: "hello" }];

const whole = await client.chat.completions.create({ model: "sim", messages, max_tokens: 7 });
console.log("whole", whole.choices[0].message.content.trim().split(" ").length, whole.choices[0].finish_reason);

let pieces = 0;
let reason = "";
const stream = await client.chat.completions.create({ model: "sim", messages, max_tokens: 7, stream: true });
for await (const chunk of stream) {
  pieces += chunk.choices[0]?.delta?.content ? 1 : 0;
  reason = chunk.choices[0]?.finish_reason ?? reason;
}
console.log("streamed", pieces, reason);

try {
  await client.chat.completions.create({ model: "nowhere", messages });
} catch (error) {
  console.log("error", error.status, error.code);
}
