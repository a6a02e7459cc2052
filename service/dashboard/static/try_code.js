// A request as code. Texts are quoted for the language that they are in; the key is a variable of the environment.
export const KEY = "PRIVACY_GATEWAY_KEY";

/** A word of a POSIX shell. Nothing in single quotes is special but the quote itself. */
export function shellWord(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A Python literal. JSON's escapes in strings are all escapes of Python, with the same meaning. */
export function pythonLiteral(value, indent = 0) {
  const inner = " ".repeat(indent + 4);
  const end = " ".repeat(indent);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) {
    return `[\n${value.map((each) => `${inner}${pythonLiteral(each, indent + 4)},\n`).join("")}${end}]`;
  }
  if (typeof value === "object") {
    const members = Object.entries(value).map(([name, each]) => `${inner}${JSON.stringify(name)}: ${pythonLiteral(each, indent + 4)},\n`);
    return `{\n${members.join("")}${end}}`;
  }
  return JSON.stringify(value);
}

export function curlCode(origin, path, body) {
  return [
    `curl -sS ${shellWord(origin + path)} \\`,
    `  -H "Authorization: Bearer $${KEY}" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  --data-binary ${shellWord(JSON.stringify(body))}`,
  ].join("\n");
}

export function httpxCode(origin, path, body) {
  return `import os

import httpx

answer = httpx.post(
    ${JSON.stringify(origin + path)},
    headers={"Authorization": f"Bearer {os.environ['${KEY}']}"},
    json=${pythonLiteral(body, 4)},
    timeout=60,
)
answer.raise_for_status()
print(answer.json())`;
}

/** For /v1/embeddings alone. */
export function openaiCode(origin, body) {
  const members = Object.entries(body).map(([name, value]) => `    ${name}=${pythonLiteral(value, 4)},\n`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=os.environ["${KEY}"])
answer = client.embeddings.create(
${members.join("")})
print(answer.data[0].embedding[:4], answer.model_extra["budget"]["remaining"])`;
}
