// Reads untrusted JSON.

import type { JsonObject } from '../conversation/request.ts'
import { type OpaqueNames, parseExact, parseOpaque } from '../json/exact.ts'
import { shapeFault } from '../json/shape.ts'

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A non-empty string; undefined for anything else. */
export function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** What a table holds for a word from outside, which may be `constructor`; undefined where it holds nothing. */
export function entryOf<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined
}

/** Parses a text; undefined if it is not JSON, or its shape is not safe to parse. */
export function parseJson(text: string): unknown {
  return parsedBy(JSON.parse, text)
}

/** As `parseJson`, for arguments and results of tools: long integers are exact, and no numbers to `typeof`. */
export function parseToolJson(text: string): unknown {
  return parsedBy(parseExact, text)
}

/** As `parseJson`, for an answer or an event of a provider: long integers in arguments of calls are exact. */
export function parseAnswer(text: string): unknown {
  return parsedBy((json) => parseOpaque(json, opaqueInAnswers), text)
}

function parsedBy(parse: (text: string) => unknown, text: string): unknown {
  if (shapeFault(text) !== undefined) return undefined
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

/** The arguments of calls where a protocol writes them as an object. */
export const opaqueInAnswers: OpaqueNames = {
  objects: new Set(['input', 'args', 'arguments']),
  integers: new Set(),
}

/**
 * The same in histories, and results (`response`); `arguments` of an MCP request are for the gateway to read. Schemas of
 * tools and answers by the names of all protocols and inference servers, and what those give to a chat template.
 */
export const opaqueInRequests: OpaqueNames = {
  objects: new Set([
    'input',
    'args',
    'response',
    'parameters',
    'parametersJsonSchema',
    'parameters_json_schema',
    'input_schema',
    'schema',
    'json_schema',
    'responseSchema',
    'response_schema',
    'responseJsonSchema',
    'response_json_schema',
    'guided_json',
    'structured_outputs',
    'structural_tag',
    'chat_template_kwargs',
  ]),
  integers: new Set(['seed']),
}

/** Whether a text is valid JSON: arguments cut by the token limit are not. */
export function isJson(text: string): boolean {
  return parseJson(text) !== undefined
}

/** The object without keys whose value is null or undefined: clients write null for "not set". */
export function present<T extends object>(fields: { [K in keyof T]: T[K] | null | undefined }): T {
  const kept: Partial<T> = {}
  for (const name in fields) if (fields[name] != null) kept[name] = fields[name]
  return kept as T
}
