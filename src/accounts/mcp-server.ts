// MCP servers that an account has registered and can name in its calls.

import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'
import type { Sealer } from './account.ts'

export interface McpServerRow {
  readonly account: string
  /** Of one account once. */
  readonly name: string
  readonly url: string
  /** Its encrypted secrets; null without any. */
  readonly sealed: Uint8Array | null
  readonly createdAt: number
  readonly changedAt: number
}

export interface McpServerStore {
  /** Inserts or replaces. */
  put(row: McpServerRow): Awaitable<void>
  find(account: string, name: string): Awaitable<McpServerRow | undefined>
  list(account: string): Awaitable<readonly McpServerRow[]>
  /** False if there was none. */
  remove(account: string, name: string): Awaitable<boolean>
}

/** The headers sent to a server, and its OAuth authorisation. */
export interface McpSecrets {
  readonly headers: Readonly<Record<string, string>>
  /** The MCP library's OAuth state, as JSON. */
  readonly oauth?: Readonly<Record<string, unknown>>
}

/** Whether a server has an OAuth token, and whether its owner must authorise it, possibly again. */
export function authorizationOf({ oauth }: McpSecrets): { authorized: boolean; needsAuthorization: boolean } {
  const authorized = oauth?.['tokens'] !== undefined
  return {
    authorized,
    needsAuthorization: oauth !== undefined && (!authorized || oauth['challenge'] !== undefined),
  }
}

export interface McpServerRecord {
  readonly name: string
  readonly url: string
  readonly secrets: McpSecrets
  readonly createdAt: number
  readonly changedAt: number
}

/** Limit per account. */
const mostServers = 100
const serverName = /^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/
const most = { urlCharacters: 2_048, headers: 20, headerCharacters: 8_192 }

const noSecrets: McpSecrets = { headers: {} }

/** The registered servers, with their secrets. */
export class McpServers {
  readonly #store: McpServerStore
  readonly #sealer: Sealer | undefined
  readonly #now: () => number

  /** Without a sealer only servers without secrets can be stored. */
  constructor(store: McpServerStore, sealer: Sealer | undefined, now: () => number) {
    this.#store = store
    this.#sealer = sealer
    this.#now = now
  }

  /** A server whose secrets cannot be read any more is listed without them, to be registered again or removed. */
  async list(account: string): Promise<readonly McpServerRecord[]> {
    return (await this.#store.list(account)).map((row) => recordOf(row, this.#open(row) ?? noSecrets))
  }

  /** Throws `not_found`. */
  async find(account: string, name: string): Promise<McpServerRecord> {
    const row = await this.#store.find(account, name)
    if (row) return this.#readable(row)
    throw new GatewayError('not_found', {
      message: 'The account has registered no MCP server of this name.',
    })
  }

  /**
   * Registers or changes a server. Throws `invalid_request` for an invalid server or too many; `unsupported_parameter`
   * for secrets without a master key.
   */
  async put(account: string, server: Wanted): Promise<McpServerRecord> {
    refuseFaulty(server)
    const before = await this.#store.find(account, server.name)
    if (!before && (await this.#store.list(account)).length >= mostServers) {
      throw new GatewayError('invalid_request', {
        message: `An account registers at most ${mostServers} MCP servers.`,
      })
    }
    const now = this.#now()
    const { name, url, secrets } = server
    const row = {
      account,
      name,
      url,
      sealed: this.#seal(secrets, contextOf(account, name)),
      createdAt: before?.createdAt ?? now,
      changedAt: now,
    }
    await this.#store.put(row)
    return recordOf(row, secrets)
  }

  async remove(account: string, name: string): Promise<boolean> {
    return this.#store.remove(account, name)
  }

  #seal(secrets: McpSecrets, context: string): Uint8Array | null {
    if (secrets.oauth === undefined && Object.keys(secrets.headers).length === 0) return null
    if (this.#sealer) return this.#sealer.seal(JSON.stringify(secrets), context)
    throw new GatewayError('unsupported_parameter', {
      message:
        'Tokens and headers of servers are kept encrypted, and this gateway has no key for that: its operator sets secrets.master_key.',
    })
  }

  #readable(row: McpServerRow): McpServerRecord {
    const secrets = this.#open(row)
    if (secrets !== undefined) return recordOf(row, secrets)
    throw new GatewayError('invalid_request', {
      message:
        'The secrets of this MCP server cannot be read any more: the master key of the gateway has changed. Register it again.',
    })
  }

  #open({ account, name, sealed }: McpServerRow): McpSecrets | undefined {
    if (sealed === null) return noSecrets
    const text = this.#sealer?.open(sealed, contextOf(account, name))
    return text === undefined ? undefined : (JSON.parse(text) as McpSecrets)
  }
}

function recordOf({ name, url, createdAt, changedAt }: McpServerRow, secrets: McpSecrets): McpServerRecord {
  return { name, url, secrets, createdAt, changedAt }
}

type Wanted = Pick<McpServerRecord, 'name' | 'url' | 'secrets'>

/** Whether its address may be reached is checked on each request. */
function refuseFaulty({ name, url, secrets: { headers } }: Wanted): void {
  if (!serverName.test(name)) {
    throw wrong('name', 'takes up to 64 letters, digits, underscores and hyphens')
  }
  const parsed = URL.parse(url)
  const speaks = parsed?.protocol === 'http:' || parsed?.protocol === 'https:'
  if (!speaks || parsed.username !== '' || parsed.password !== '' || url.length > most.urlCharacters) {
    throw wrong('url', 'takes an address such as https://mcp.example.com/mcp')
  }
  const given = Object.entries(headers)
  if (given.length > most.headers) throw wrong('headers', `takes at most ${most.headers} headers`)
  for (const [header, value] of given) {
    const fault = !isHeader(header, value) || value.length > most.headerCharacters
    if (fault) throw wrong(`headers.${header.slice(0, 64)}`, 'is no header that can be sent')
  }
}

/** The platform's error would repeat the value. */
function isHeader(name: string, value: string): boolean {
  try {
    const sent = new Headers({ [name]: value }).has(name)
    return sent && !/^(?:host|connection|content-.*|transfer-encoding|mcp-.*|last-event-id)$/i.test(name)
  } catch {
    return false
  }
}

function wrong(param: string, what: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param} ${what}.`, param })
}

function contextOf(account: string, name: string): string {
  return `mcp_server ${account} ${name}`
}
