// The schema seen as a list: every setting with its path, its environment name and what kind of value it takes.

import { z } from 'zod'
import type { SettingMeta } from './fields.ts'
import { providerSchema } from './serving.ts'
import { configSchema } from './schema.ts'

/** How text from the environment or the command line becomes a value. */
export type SettingKind = 'text' | 'integer' | 'boolean' | 'list' | 'keys' | 'structure'

export interface Setting {
  /** From the root; `*` is any provider's id. */
  readonly path: readonly string[]
  readonly kind: SettingKind
  readonly env: string
  readonly aliases: readonly string[]
  readonly secret: boolean
  readonly description: string
  /** undefined if a setting has none. */
  readonly fallback: unknown
}

/** `server.port` → `WEIR_SERVER_PORT`; a dash in a provider's id becomes an underscore, as a dot does. */
export function environmentName(path: readonly string[]): string {
  return `WEIR_${path.join('_').replace(/[.-]/g, '_').toUpperCase()}`
}

let listed: readonly Setting[] | undefined

/** Every setting there is, in the order of the schema. */
export function settings(): readonly Setting[] {
  listed ??= leavesOf(configSchema, [])
  return listed
}

/** The setting at a path; a provider's id in it may be any. */
export function settingAt(path: readonly string[]): Setting | undefined {
  return settings().find(
    (setting) =>
      setting.path.length === path.length &&
      setting.path.every((part, at) => part === '*' || part === path[at]),
  )
}

/** The keys allowed at a path, for `did you mean`; empty if any is allowed or none. */
export function keysAt(path: readonly string[]): readonly string[] {
  let at: z.core.$ZodType | undefined = configSchema
  for (const part of path) at = at && childOf(at, part)
  const section = at && sectionOf(at)
  return section ? Object.keys(section.shape) : []
}

function childOf(schema: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  const { inner } = unwrapSchema(schema)
  if (inner instanceof z.ZodRecord) return inner.valueType
  if (inner instanceof z.ZodArray) return inner.element
  return sectionOf(schema)?.shape[key]
}

/** The schema as a section with named keys, if it is one or may be one (`price` is a mapping or `free`). */
function sectionOf(schema: z.core.$ZodType): z.ZodObject | undefined {
  const { inner } = unwrapSchema(schema)
  if (inner instanceof z.ZodUnion) return inner.options.map(sectionOf).find((option) => option !== undefined)
  return inner instanceof z.ZodObject ? inner : undefined
}

function leavesOf(schema: z.core.$ZodType, path: readonly string[]): Setting[] {
  const { inner, fallback } = unwrapSchema(schema)
  if (inner instanceof z.ZodObject) {
    return Object.entries(inner.shape).flatMap(([key, child]) => leavesOf(child, [...path, key]))
  }
  if (inner instanceof z.ZodRecord && inner.valueType === providerSchema)
    return leavesOf(providerSchema, [...path, '*'])
  const meta = metaOf(schema)
  return [
    {
      path,
      kind: kindOf(inner),
      env: environmentName(path),
      aliases: meta.aliases ?? [],
      secret: meta.secret ?? false,
      description: meta.description,
      fallback,
    },
  ]
}

function unwrapSchema(schema: z.core.$ZodType): { inner: z.core.$ZodType; fallback: unknown } {
  let inner = schema
  let fallback: unknown
  for (;;) {
    if (inner instanceof z.ZodDefault || inner instanceof z.ZodPrefault) {
      fallback = inner.def.defaultValue
      inner = inner.unwrap()
    } else if (inner instanceof z.ZodOptional || inner instanceof z.ZodLazy) inner = inner.unwrap()
    else if (inner instanceof z.ZodPipe) inner = inner.in
    else return { inner, fallback }
  }
}

function metaOf(schema: z.core.$ZodType): SettingMeta {
  const meta = z.globalRegistry.get(unoptional(schema))
  return {
    description: meta?.description ?? '',
    secret: meta?.['secret'] === true,
    aliases: Array.isArray(meta?.['aliases']) ? meta['aliases'].map(String) : [],
  }
}

/** `.partial()` wraps a noted schema once more; the note stays on the one inside. */
function unoptional(schema: z.core.$ZodType): z.core.$ZodType {
  return schema instanceof z.ZodOptional && !z.globalRegistry.has(schema)
    ? unoptional(schema.unwrap())
    : schema
}

function kindOf(schema: z.core.$ZodType): SettingKind {
  if (schema instanceof z.ZodNumber) return 'integer'
  if (schema instanceof z.ZodBoolean) return 'boolean'
  // A number, or a word in its place.
  if (schema instanceof z.ZodUnion && schema.options.some((each) => each instanceof z.ZodNumber))
    return 'integer'
  if (schema instanceof z.ZodUnion) return 'keys'
  if (schema instanceof z.ZodArray) {
    return schema.element instanceof z.ZodString || schema.element instanceof z.ZodEnum ? 'list' : 'structure'
  }
  if (schema instanceof z.ZodRecord) return 'structure'
  return 'text'
}

/** Settings that earlier versions had, and what takes their place. */
export const replacedSettings: Readonly<Record<string, string>> = {
  'server.workers': 'several processes are server.processes now, with store.url',
}
