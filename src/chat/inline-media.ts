// Images and files given by URL, fetched through the egress guard for protocols that take bytes only.

import type { ContentPart } from '../conversation/request.ts'
import { fetchPublic } from '../egress/egress.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from './gateway.ts'

/** The largest file worth fetching for a prompt, bytes; providers take less. */
const maxMediaBytes = 20 * 1024 * 1024
const mediaTimeoutMs = 15_000

/**
 * Gives the function that replaces a part's URL by its bytes. It rejects with `url_not_allowed` for an address that
 * users may not reach and `invalid_request` for one that yields nothing, each naming the part.
 */
export function inlineMedia(allowHosts: readonly string[]): Gateway['inlineMedia'] {
  return async (part, param, signal) => {
    if (!('source' in part) || part.source.kind !== 'url') return part
    const { url } = part.source
    const options = { allowHosts, signal, param, maxBytes: maxMediaBytes, timeoutMs: mediaTimeoutMs }
    const inline =
      inlined(url) ?? (await fetchPublic(url, options).then((fetched) => checked(fetched, param)))
    return { ...part, source: { kind: 'base64', ...inline } } as ContentPart
  }
}

/** A data: URL carries its bytes itself. */
function inlined(url: string): { mediaType: string; data: string } | undefined {
  const match = /^data:([\w.+/-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/_=-]+)$/.exec(url)
  return match ? { mediaType: match[1]!, data: match[2]! } : undefined
}

function checked(
  fetched: { status: number; mediaType: string; bytes: Uint8Array },
  param: string,
): { mediaType: string; data: string } {
  if (fetched.status !== 200) {
    throw new GatewayError('invalid_request', {
      message: `The address answered with status ${fetched.status}.`,
      param,
    })
  }
  return {
    mediaType: fetched.mediaType === '' ? 'application/octet-stream' : fetched.mediaType,
    data: Buffer.from(fetched.bytes).toString('base64'),
  }
}
