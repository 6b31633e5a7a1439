// The gateway that a command calls, and the key for it.

import { baseUrlOf } from '../serve/banner.ts'
import { runningServer } from '../serve/running-server.ts'
import { type Context, type Invocation, usageFault } from './context.ts'

export interface GatewayAddress {
  /** The base URL, without a slash at its end. */
  readonly base: string
  readonly key: string
}

/**
 * From `--url` and `--key`; otherwise the server of the data directory, or the configured address, and WEIR_API_KEY.
 * Throws a usage fault if there is no key or no address.
 */
export function gatewayAddress(context: Context, invocation: Invocation): GatewayAddress {
  const key = invocation.option('key') || context.env['WEIR_API_KEY']
  if (!key) throw usageFault('give an API key with --key or in WEIR_API_KEY (weir keys create)')
  const { data_dir, server } = context.config
  const found = invocation.option('url') ?? runningServer(data_dir) ?? baseUrlOf(server.host, server.port)
  return { base: addressOf(found), key }
}

/** A base URL without its last slash; `127.0.0.1:8787/v1` alone would be read as a scheme and a path. */
function addressOf(url: string): string {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw usageFault(`--url takes an address such as http://127.0.0.1:8787/v1, not ${JSON.stringify(url)}`)
  return url.replace(/\/+$/, '')
}
