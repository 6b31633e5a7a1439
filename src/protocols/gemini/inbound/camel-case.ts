// Google's JSON takes field names in camel case and in snake case. Everything here reads the first.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

/** Where objects of the API stand in one another. Schemas, arguments and results are the client's own and stay as they are. */
interface Shape {
  readonly [field: string]: Shape
}

const blob: Shape = {}
const part: Shape = {
  inlineData: blob,
  fileData: {},
  functionCall: {},
  functionResponse: { parts: { inlineData: blob } },
  videoMetadata: {},
}
const content: Shape = { parts: part }
const request: Shape = {
  contents: content,
  systemInstruction: content,
  tools: { functionDeclarations: {} },
  toolConfig: { functionCallingConfig: {} },
  generationConfig: { thinkingConfig: {}, speechConfig: { voiceConfig: { prebuiltVoiceConfig: {} } } },
}

/** Fields of the gateway keep their names, which are in snake case. */
const kept = new Set(['max_cost', 'session_id', 'on_disconnect'])

/** The body with the API's own field names in camel case. Lists are transparent. */
export function camelCased(body: JsonObject): JsonObject {
  return renamed(body, request) as JsonObject
}

function renamed(value: Json, shape: Shape): Json {
  if (Array.isArray(value)) return value.map((each) => renamed(each, shape))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, Json] => {
      const field = kept.has(name)
        ? name
        : name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
      const inner = Object.hasOwn(shape, field) ? shape[field] : undefined
      return [field, inner === undefined ? member : renamed(member, inner)]
    }),
  )
}
