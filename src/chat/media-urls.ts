// Addresses of images and files in a request, whoever is going to fetch them: a provider in the same network would
// reach for the caller what the gateway itself refuses to reach.

import type { Json, JsonObject } from '../conversation/request.ts'
import { checkUrl } from '../egress/destination.ts'

/** Schemes that name no place in a network: inline bytes, and files a provider keeps itself. */
const placeless = /^(data|gs):/i

/** Throws `url_not_allowed`, naming the part, for a URL in the messages that users may not have reached. */
export function refusePrivateMedia(body: JsonObject, allowHosts: readonly string[]): void {
  for (const [list, field] of partLists) {
    const entries = body[list]
    if (!Array.isArray(entries)) continue
    for (const [at, entry] of entries.entries()) {
      refuseIn(memberOf(entry, field), `${list}[${at}].${field}`, allowHosts)
    }
  }
}

/** Where parts stand: in messages of a chat, in messages and in results of functions of a response. */
const partLists = [
  ['messages', 'content'],
  ['input', 'content'],
  ['input', 'output'],
] as const

function refuseIn(content: Json | undefined, place: string, allowHosts: readonly string[]): void {
  if (!Array.isArray(content)) return
  for (const [index, part] of content.entries()) {
    for (const [path, url] of urlsOf(part)) {
      if (placeless.test(url)) continue
      checkUrl(url, { allowHosts, param: `${place}[${index}].${path}` })
    }
    // A tool's result, or a document, may be made of parts itself.
    refuseIn(memberOf(part, 'content'), `${place}[${index}].content`, allowHosts)
    refuseIn(memberOf(memberOf(part, 'source'), 'content'), `${place}[${index}].source.content`, allowHosts)
  }
}

/** The URLs of a part, by the member that holds each. */
function urlsOf(part: Json): [path: string, url: string][] {
  const found: [string, Json | undefined][] = [
    ['image_url', memberOf(part, 'image_url')],
    ['image_url.url', memberOf(memberOf(part, 'image_url'), 'url')],
    ['video_url', memberOf(part, 'video_url')],
    ['video_url.url', memberOf(memberOf(part, 'video_url'), 'url')],
    ['file.file_url', memberOf(memberOf(part, 'file'), 'file_url')],
    ['file.file_data', memberOf(memberOf(part, 'file'), 'file_data')],
    ['source.url', memberOf(memberOf(part, 'source'), 'url')],
    ['file_url', memberOf(part, 'file_url')],
    ['file_data', memberOf(part, 'file_data')],
  ]
  return found.flatMap(([path, url]): [string, string][] =>
    typeof url === 'string' && url.includes(':') ? [[path, url]] : [],
  )
}

function memberOf(value: Json | undefined, name: string): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value[name] : undefined
}
