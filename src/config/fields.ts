// The kinds of settings that the schema is written with.

import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { largestLot, parseUsd } from '../credits/money.ts'

/** What a setting carries beside its type. `secret` values are masked, and may be read from files. */
export interface SettingMeta {
  readonly description: string
  readonly secret?: boolean
  /** Everyday names of the environment beside the derived one. */
  readonly aliases?: readonly string[]
}

/** Milliseconds. */
export const day = 86_400_000

/** Attaches a description to the schema of one setting, which no other may share. (`meta` would copy it at every start.) */
export function note<S extends z.ZodType>(
  schema: S,
  description: string,
  more: Omit<SettingMeta, 'description'> = {},
): S {
  z.globalRegistry.add(schema, { description, ...more })
  return schema
}

/** A section of settings. Each has a default or may be missing, so all of it may be left out. */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape).prefault({} as never)
}

/**
 * The schema of a whole number within bounds, as `z.int().min(least).max(most)`, which would make a copy for each bound:
 * of a hundred settings that is a twentieth of every start.
 */
export function wholeBetween(least: number, most: number): z.ZodNumberFormat {
  return new z.ZodNumberFormat({
    type: 'number',
    check: 'number_format',
    format: 'safeint',
    abort: false,
    checks: [z.gte(least), z.lte(most)],
  })
}

export function whole(
  description: string,
  fallback: number,
  least: number,
  most: number,
  aliases?: readonly string[],
) {
  return note(wholeBetween(least, most).default(fallback), description, aliases ? { aliases } : {})
}

export function milliseconds(description: string, fallback: number, least = 1, most = day) {
  return whole(`${description}, milliseconds`, fallback, least, most)
}

/** An amount of US dollars as a decimal string. */
export const usdText = z
  .string('must be written as a string, "0.10"')
  .refine((text) => (parseUsd(text) ?? -1n) >= 0n, {
    error: 'must be a decimal string of US dollars, not negative, with at most 12 decimals',
  })

export function usdAmount(description: string, fallback: string) {
  return note(usdText.default(fallback), description)
}

/** An amount that becomes one grant. */
export const grantedUsd = usdText.refine((text) => (parseUsd(text) ?? 0n) <= largestLot, {
  error: 'must be at most "1000000", which is the largest grant',
})

export const secret = z.string().min(1)

/** It has no default: one that can be guessed would be useless. */
export const masterKey = z.string().refine((text) => text.length >= 32 && new Set(text).size >= 10, {
  error: 'must be at least 32 random characters, as from `openssl rand -base64 32`',
})

/** An address or a name to listen on; the brackets that an IPv6 address has in URLs are taken off. */
export const listenHost = z
  .string()
  .min(1)
  .transform((text) => /^\[(.+)\]$/.exec(text)?.[1] ?? text)
  .refine((host) => /^[^\s/:]+$/.test(host) || ipaddr.IPv6.isValid(host), {
    error: 'must be an address or a name to listen on, without a scheme and a port',
  })

/** An address up to and including the version segment; a trailing slash is taken off, so that paths can be appended. */
export const baseUrl = z
  .string()
  .refine((text) => baseUrlFault(text) === undefined, { error: (issue) => baseUrlFault(String(issue.input)) })
  .transform((text) => text.replace(/\/+$/, ''))

function baseUrlFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url) return 'must be a full address such as https://host/v1'
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must begin with http:// or https://'
  if (url.username || url.password) return 'must not hold credentials: use api_key or headers'
  if (url.search || url.hash) return 'must not have a query or a fragment'
  return undefined
}
