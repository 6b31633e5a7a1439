// Checks the tools that a server lists, and which of them can be offered to a model.

import { createHash } from 'node:crypto'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isRaw } from '../../json/json.ts'
import { plain, type RawTool } from './connection.ts'

/** A tool that can be offered. */
export interface ListedTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly annotations: JsonObject | null
  /** As the server claims; nothing enforces it. */
  readonly readOnly: boolean
}

export interface Listing {
  readonly tools: readonly ListedTool[]
  /** Why some or all were left out; undefined if none was. */
  readonly error: string | undefined
}

const most = {
  /** Characters of a name: it comes back with each call. */
  name: 256,
  /** Characters of a description; the rest is cut off. A model reads it in every round. */
  description: 8_192,
  /** Characters of a schema, written as JSON. */
  schema: 65_536,
  /** Levels of a schema. */
  depth: 32,
  /** Characters of the annotations, which are shown to the client only. */
  annotations: 2_048,
  /** Tools left out that are named in the error. */
  named: 5,
}

/** Reads a server's list: tools accepted by `wanted`, at most `mostTools`. */
export function listingOf(
  raw: readonly RawTool[],
  wanted: (tool: ListedTool) => boolean,
  mostTools: number,
): Listing {
  const tools = new Map<string, ListedTool>()
  const faults: string[] = []
  for (const each of raw) {
    const read = toolOf(each)
    if (typeof read === 'string') faults.push(read)
    else if (!wanted(read)) continue
    else if (tools.has(read.name)) faults.push(`${plain(read.name)} is there twice`)
    else tools.set(read.name, read)
  }
  if (tools.size > mostTools) {
    return {
      tools: [],
      error: `The server lists ${tools.size} tools, and at most ${mostTools} can be offered: name those you need in allowed_tools.`,
    }
  }
  return { tools: [...tools.values()], error: faults.length === 0 ? undefined : leftOut(faults) }
}

/** Identifies an approved tool as listed then, at the server `url`: any change gives another fingerprint. */
export function fingerprint(label: string, url: string, tool: ListedTool): string {
  const { name, description, inputSchema } = tool
  // A query may hold a token, which changes while the server stays the same.
  const { origin, pathname } = new URL(url)
  const text = JSON.stringify([label, origin, pathname, name, description, sortKeys(inputSchema)])
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

function leftOut(faults: readonly string[]): string {
  const named = faults.slice(0, most.named).join('; ')
  const more = faults.length > most.named ? `; and ${faults.length - most.named} more` : ''
  return `Tools that cannot be offered were left out: ${named}${more}.`
}

/** The tool, or why it cannot be offered. */
function toolOf({ name, description, inputSchema, annotations }: RawTool): ListedTool | string {
  if (typeof name !== 'string' || name === '') return 'one has no name'
  if (name.length > most.name) return `${plain(name.slice(0, 40))}… has a name of ${name.length} characters`
  const fault = schemaFault(inputSchema)
  if (fault !== undefined) return `${plain(name)} has an invalid input schema (${fault})`
  const shown =
    isObject(annotations) && JSON.stringify(annotations).length <= most.annotations ? annotations : null
  return {
    name,
    description: typeof description === 'string' ? describeTool(description) : '',
    // A tool without arguments may omit both; providers require them.
    inputSchema: { type: 'object', properties: {}, ...(inputSchema as JsonObject) },
    annotations: shown,
    readOnly: shown?.readOnlyHint === true,
  }
}

function describeTool(text: string): string {
  const shown = text.length <= most.description ? text : `${text.slice(0, most.description)}…`
  return shown.toWellFormed()
}

const types: ReadonlySet<unknown> = new Set([
  'object',
  'array',
  'string',
  'number',
  'integer',
  'boolean',
  'null',
])

/** Finds what would make a provider refuse the whole request. No more than that: dialects of JSON Schema differ. */
function schemaFault(schema: unknown): string | undefined {
  if (!isObject(schema)) return 'it is no object'
  if (schema.type !== undefined && schema.type !== 'object') return 'its type is not object'
  if (JSON.stringify(schema).length > most.schema) return `it has more than ${most.schema} characters`
  return nodeFault(schema, 0)
}

function nodeFault(node: unknown, depth: number): string | undefined {
  if (depth > most.depth) return `it nests deeper than ${most.depth} levels`
  if (typeof node === 'boolean') return undefined
  if (!isObject(node)) return 'a part of it is no schema'
  const { type, properties, required, items } = node
  if (type !== undefined && ![type].flat().every((each) => types.has(each))) return 'a type is unknown'
  if (
    required !== undefined &&
    !(Array.isArray(required) && required.every((each) => typeof each === 'string'))
  ) {
    return 'required is no list of names'
  }
  if (properties !== undefined && !isObject(properties)) return 'properties is no object'
  const parts = [...Object.values(properties ?? {}), ...(isObject(items) ? [items] : [])]
  for (const part of parts) {
    const fault = nodeFault(part, depth + 1)
    if (fault !== undefined) return fault
  }
  return undefined
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Servers may list a schema's members in a different order each time. */
function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!isObject(value) || isRaw(value)) return value
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(members.map(([key, each]) => [key, sortKeys(each as Json)]))
}
