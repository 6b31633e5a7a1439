// What a request says it is for: the header `x-weir-tags`, then who it is made for (`user`), then its `metadata`.

import type { JsonObject } from '../../../conversation/request.ts'
import {
  faultOfTag,
  mostTags,
  readTagsHeader,
  type Tags,
  tagsText,
  userTag,
} from '../../../conversation/tags.ts'
import { GatewayError } from '../../../errors/errors.ts'
import type { Warning } from '../../../protocols/lowering.ts'

export const tagsHeader = 'x-weir-tags'

const tooMany = `a call has at most ${mostTags} tags`
const longestParam = 100

/** The tags of a call as text, and what of the body is none for want of room or because of how it is written. */
interface Tagged {
  readonly tags: string | undefined
  readonly warnings: readonly Warning[]
}

/** Throws `invalid_request` for a header that is out of bounds. */
export function refuseByTags(headers: Headers): void {
  headerTags(headers)
}

/**
 * The tags of a request; undefined without any. Of one name the operator's word about the group of the key counts most,
 * that of the nearest group first. Then the header says more than `user`, and `user` more than `metadata`: who writes
 * the header, such as a proxy of the company, has seen the body. Throws `invalid_request` for a header that is out of
 * bounds.
 */
export function tagsOfRequest(
  headers: Headers,
  json: JsonObject,
  groups: readonly { readonly tags: Tags | null }[] = [],
): Tagged | undefined {
  const { user, safety_identifier, metadata, labels } = json
  const tags: Record<string, string> = {}
  const warnings: Warning[] = []
  let count = 0
  const add = (name: string, value: unknown, param: string) => {
    if (typeof value !== 'string' || value === '' || Object.hasOwn(tags, name)) return
    const fault = faultOfTag(name, value) ?? (count < mostTags ? undefined : tooMany)
    if (fault === undefined) {
      tags[name] = value
      count++
    } else if (warnings.length < mostTags)
      warnings.push({ param: param.slice(0, longestParam), message: `It is no tag of the call: ${fault}.` })
  }
  for (const { tags: ofGroup } of groups)
    for (const [name, value] of Object.entries(ofGroup ?? {}))
      if (faultOfTag(name, value) === undefined) add(name, value, name)
  for (const [name, value] of Object.entries(headerTags(headers))) add(name, value, tagsHeader)
  const pairs = objectOf(metadata)
  if (typeof user === 'string') add(userTag, user, 'user')
  else if (typeof safety_identifier === 'string') add(userTag, safety_identifier, 'safety_identifier')
  // Where Messages has its user, and some clients of other protocols too.
  add(userTag, pairs['user_id'], 'metadata.user_id')
  for (const [name, value] of Object.entries(pairs))
    if (name !== 'user_id') add(name, value, `metadata.${name}`)
  for (const [name, value] of Object.entries(objectOf(labels))) add(name, value, `labels.${name}`)
  if (count === 0 && warnings.length === 0) return undefined
  return { tags: count === 0 ? undefined : tagsText(tags), warnings }
}

function headerTags(headers: Headers): Tags {
  const written = headers.get(tagsHeader)
  if (written === null) return {}
  const read = readTagsHeader(written)
  if (typeof read !== 'string') return read
  throw new GatewayError('invalid_request', { message: `${tagsHeader}: ${read}.`, param: tagsHeader })
}

function objectOf(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
}
