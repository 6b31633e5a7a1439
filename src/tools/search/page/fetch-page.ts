// Fetches a web page as text through the egress guard; refuses other media, and decodes the text.

import type { EgressOptions, Fetched } from '../../../egress/egress.ts'
import { fetchPublic } from '../../../egress/egress.ts'
import { GatewayError } from '../../../errors.ts'

export interface PageLimits {
  /** The most bytes of a page, after decompression. */
  readonly bytes: number
  /** The time limit for name resolution, redirects and the body, milliseconds. */
  readonly fetchMs: number
}

/** A page that cannot be read; code and message are for clients and models. */
export class PageFault extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.name = 'PageFault'
    this.code = code
  }
}

export interface Page {
  /** Where it was found, behind redirects. */
  readonly url: string
  readonly kind: 'html' | 'text'
  readonly text: string
}

/** Throws PageFault, and the signal's reason when the caller gave up. */
export async function fetchPage(
  url: string,
  limits: PageLimits,
  options: EgressOptions & { readonly allows: (url: string) => boolean },
): Promise<Page> {
  const fetched = await fetchPublic(url, {
    ...options,
    maxBytes: limits.bytes,
    timeoutMs: limits.fetchMs,
    accept: 'text/html, application/xhtml+xml, text/plain;q=0.9, text/*;q=0.8, application/json;q=0.8',
  }).catch((error: unknown) => {
    options.signal?.throwIfAborted()
    if (!(error instanceof GatewayError)) throw error
    const code = error.code === 'url_not_allowed' ? 'url_not_allowed' : 'page_unavailable'
    throw new PageFault(code, error.message)
  })
  if (fetched.status >= 300)
    throw new PageFault('page_unavailable', `The page answers with HTTP ${fetched.status}.`)
  const kind = kindOf(fetched)
  if (kind === undefined) {
    const type = /^[\w.+-]+\/[\w.+-]+$/.test(fetched.mediaType)
      ? fetched.mediaType.slice(0, 80)
      : 'of an unknown type'
    throw new PageFault('page_not_text', `The page is ${type}: only web pages and text can be read.`)
  }
  return { url: fetched.url, kind, text: decodePage(fetched, kind) }
}

const textTypes = /^(text\/(?!rtf)|application\/([\w.-]+\+)?(json|xml|yaml|javascript|x-ndjson)$)/

/** undefined if it is not text, whatever its content type. */
function kindOf({ mediaType, bytes }: Fetched): Page['kind'] | undefined {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1_024))
  // UTF-16 contains zero bytes too, but begins with a byte order mark.
  if (start.startsWith('%PDF-') || (start.includes('\0') && !/^(ÿþ|þÿ)/.test(start))) return undefined
  if (mediaType === 'text/html' || mediaType === 'application/xhtml+xml') return 'html'
  if (textTypes.test(mediaType)) return 'text'
  // Servers use this type for unknown files.
  if (mediaType !== '' && mediaType !== 'application/octet-stream') return undefined
  return /^\s*(<!doctype html|<html)/i.test(start) ? 'html' : 'text'
}

/** By the header, the byte order mark or the page itself, in browsers' order of precedence. */
function decodePage({ bytes, charset }: Fetched, kind: Page['kind']): string {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1_024))
  const mark = start.startsWith('ï»¿')
    ? 'utf-8'
    : start.startsWith('ÿþ')
      ? 'utf-16le'
      : start.startsWith('þÿ')
        ? 'utf-16be'
        : undefined
  const named =
    kind === 'html' ? /<meta[^>]{0,200}?charset\s*=\s*["']?([\w:.-]+)/i.exec(start)?.[1] : undefined
  return decoderFor(mark ?? charset ?? named).decode(bytes)
}

function decoderFor(label: string | undefined): TextDecoder {
  try {
    return new TextDecoder(label ?? 'utf-8')
  } catch {
    return new TextDecoder()
  }
}
