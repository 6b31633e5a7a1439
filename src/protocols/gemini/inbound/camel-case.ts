// Google accepts field names in camel case and snake case, and a list of one without its brackets. This converts bodies
// to camel case and lists.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

/** How the API's objects are nested. Schemas, arguments and results are the client's and stay unchanged. */
interface Shape {
  readonly [field: string]: Shape
}

const blob: Shape = {}
const part: Shape = {
  inlineData: blob,
  fileData: {},
  functionCall: {},
  functionResponse: { parts: { inlineData: blob, fileData: {} } },
  videoMetadata: {},
}
const content: Shape = { parts: part }
const request: Shape = {
  contents: content,
  systemInstruction: content,
  tools: { functionDeclarations: {}, googleSearch: {} },
  toolConfig: { functionCallingConfig: {} },
  generationConfig: { thinkingConfig: {}, speechConfig: { voiceConfig: { prebuiltVoiceConfig: {} } } },
}

const embedding: Shape = { content, requests: { content } }

/** Google's own example of a system instruction writes each of the first two as one object. */
const lists = new Set(['contents', 'parts', 'tools', 'functionDeclarations'])

/** The gateway's fields keep their names in snake case. */
const kept = new Set(['max_cost', 'session_id', 'on_disconnect'])

/** The body with the API's field names in camel case, also inside lists, and its lists as lists. */
export function camelCased(body: JsonObject): JsonObject {
  return renameKeys(body, request) as JsonObject
}

/** The same for a request for embeddings. */
export function camelCasedEmbedding(body: JsonObject): JsonObject {
  return renameKeys(body, embedding) as JsonObject
}

function renameKeys(value: Json, shape: Shape): Json {
  if (Array.isArray(value)) return value.map((each) => renameKeys(each, shape))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, Json] => {
      const field = kept.has(name)
        ? name
        : name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
      const inner = Object.hasOwn(shape, field) ? shape[field] : undefined
      if (inner === undefined) return [field, member]
      return [field, renameKeys(lists.has(field) && isObject(member) ? [member] : member, inner)]
    }),
  )
}
