// Where addresses may be in a client's body. Each inbound describes its own body; a test checks the description
// against the schema. An address in an undescribed place is not passed on.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

/** What stands at a place. Lists are transparent: a place describes each of their elements. */
export type Place =
  /** Text for the model, numbers, schemas: nothing in here is fetched. */
  | 'words'
  /** An address that a provider fetches. */
  | 'address'
  /** Bytes in base64, in place of which some providers read an address. */
  | 'data'
  /** The id of something a provider keeps, which some providers write as an address. */
  | 'reference'
  | Parts

export interface Parts {
  readonly fields: { readonly [member: string]: Place }
  /** What a plain string is here, where an object or a list of them may stand as well. */
  readonly text: 'words' | 'address'
  /** Members without a description: searched for addresses, or never sent to any provider. */
  readonly others: 'searched' | 'never-sent'
}

/** An object, or a list of them, described by its members; as a plain string it is words unless `text` says otherwise. */
export function parts(fields: Parts['fields'], more: Partial<Omit<Parts, 'fields'>> = {}): Parts {
  return { fields, text: 'words', others: 'searched', ...more }
}

/** One string that is, or may be, an address. */
export interface FoundAddress {
  readonly text: string
  /** The way to it from the body, as errors name it: `messages[0].content[1].image_url.url`. */
  readonly param: string
  replace(text: string): void
}

export interface AddressVisitor {
  onFound(address: FoundAddress): void
  /** The id of something that a provider keeps. */
  onKept(param: string): void
  /** A member without a description that names a destination of requests or holds an address; it has been taken out. */
  onDropped(param: string): void
}

/**
 * Visits every address of a body, and takes out the members without a description that hold an address or name a
 * destination (`api_base`, `base_url` and their like). Changes the body in place; the bounds on depth and parts of
 * `read-body` bound this walk.
 */
export function visitAddresses(body: JsonObject, place: Parts, visitor: AddressVisitor): void {
  visitObject(body, place, '', undefined, visitor)
}

/** The scheme that names no place: inline bytes. */
const placeless = /^data:/i

/** Text that some parser reads as an address: a scheme and slashes, `http:` without them, or two slashes alone. */
const addressLike = /^(?:url:)?(?:[a-z][a-z0-9+.-]*:)?[\\/]{2}|^(?:url:)?(?:https?|ftp|file):/i

/** Parsers of URLs skip these wherever, or at the front. */
// oxlint-disable-next-line no-control-regex -- these are the characters that URL parsers strip
const skipped = /[\t\n\r]|^[\0- ]+/g

/** Longer texts are not addresses: no server accepts them. */
const longestAddress = 8192

/** Names, without their dashes, of members that tell a client library, or a gateway, where to send requests. */
const destinationName =
  /^(x)?(api|base|proxy|server|custom|azure|vertex|openai|upstream|gateway|sagemaker|aws[a-z]*)?(base|baseurl|baseuri|apibase|apiurl|apihost|endpoint|endpointurl|host|hostname|hosturl|baseaddress|proxy|proxies|proxyurl|serverurl|webhook|webhooks|webhookurl|callback|callbacks|callbackurl|forwardto|targeturl|upstreamurl)$/

const dashes = /[_-]/g

/** Names that were looked at: nearly all requests have the same few. */
const lookedAt = new Map<string, boolean>()
const mostLookedAt = 1_000

function namesDestination(member: string): boolean {
  if (member.length > 64) return false
  const known = lookedAt.get(member)
  if (known !== undefined) return known
  const names = destinationName.test(member.toLowerCase().replaceAll(dashes, ''))
  if (lookedAt.size < mostLookedAt) lookedAt.set(member, names)
  return names
}

/** Where client libraries and gateways look for a destination; deeper down the same names belong to schemas and data. */
const destinationHolders: ReadonlySet<string> = new Set(['', 'extra_body', 'litellm_params'])

/** Visits an object at `path`, or `at` a place of the list there: its own way is only written out where it is needed. */
function visitObject(
  object: JsonObject,
  place: Parts | undefined,
  path: string,
  at: number | undefined,
  visitor: AddressVisitor,
): void {
  const maySteer = at === undefined && destinationHolders.has(path)
  for (const member in object) {
    const known = place && Object.hasOwn(place.fields, member) ? place.fields[member] : undefined
    if (known === 'words' || (known === undefined && place?.others === 'never-sent')) continue
    const value = object[member]!
    // Texts of messages: most of what a body holds.
    if (typeof value === 'string' && typeof known === 'object' && known.text === 'words') continue
    const own = at === undefined ? path : `${path}[${at}]`
    const param = own === '' ? member : `${own}.${member}`
    if (
      known === undefined &&
      ((maySteer && value !== null && namesDestination(member)) || isUnasked(value))
    ) {
      delete object[member]
      visitor.onDropped(param)
    } else visitMember(object, member, known, param, visitor)
  }
}

/** Whether an undescribed member contains an address: a text, or one in a list of them. */
function isUnasked(value: Json): boolean {
  if (typeof value === 'string') return isAddress(value, false)
  return Array.isArray(value) && value.some((each) => !isObject(each) && isUnasked(each))
}

function visitMember(
  holder: JsonObject | Json[],
  member: string | number,
  place: Place | undefined,
  param: string,
  visitor: AddressVisitor,
): void {
  const value = (holder as Record<string | number, Json>)[member]
  if (typeof value === 'string') {
    const expected = place === 'address' || (typeof place === 'object' && place.text === 'address')
    if (place !== 'reference' && place !== 'data' && !expected) return
    if (place === 'data' && isData(value)) return
    if (isAddress(value, expected || place === 'data'))
      visitor.onFound(addressIn(holder as Record<string | number, Json>, member, value, param))
    else if (place === 'reference') visitor.onKept(param)
  } else if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const each = value[at]!
      if (isObject(each)) visitObject(each, partsAt(place), param, at, visitor)
      else visitMember(value, at, place, `${param}[${at}]`, visitor)
    }
  } else if (isObject(value)) {
    visitObject(value, partsAt(place), param, undefined, visitor)
  }
}

function partsAt(place: Place | undefined): Parts | undefined {
  return typeof place === 'object' ? place : undefined
}

function addressIn(
  holder: Record<string | number, Json>,
  member: string | number,
  text: string,
  param: string,
): FoundAddress {
  const replace = (other: string) => {
    holder[member] = other
  }
  return { text, param, replace }
}

/** What base64 consists of, in both alphabets and on several lines. */
const base64 = /^[A-Za-z0-9+/_=\s-]+$/

/**
 * Whether a text is base64, which may begin with two slashes, as that of most MP3 files does, or with a word such as
 * `file`. Without a colon, a dot or a bracket it names a host only as a number, or this machine.
 */
function isData(text: string): boolean {
  if (text.includes(':')) return false
  if (text.length > longestAddress) return true
  if (!base64.test(text)) return false
  return !/^\s*\/\/+(0+|\d{8,}|0x[0-9a-f]{7,}|localhost)\s*(\/|$)/i.test(text)
}

function isAddress(text: string, expected: boolean): boolean {
  // Files may come as megabytes of base64 in the same place, which hold no colon.
  if (expected) {
    const begin = text.slice(0, 1_024).replaceAll(skipped, '')
    return !placeless.test(text) && (text.includes(':') || addressLike.test(begin))
  }
  if (text.length > longestAddress) return false
  const seen = text.replaceAll(skipped, '')
  return !placeless.test(seen) && addressLike.test(seen)
}
