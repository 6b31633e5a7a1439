// MCP from configuration: servers named in calls, and servers registered by accounts.

import { randomBytes } from 'node:crypto'
import { type McpServerRecord, McpServers } from '../../accounts/mcp-server.ts'
import { sealer } from '../../accounts/account.ts'
import type { AttemptCounts } from '../../accounts/identity/sign-in-limits.ts'
import type { Config } from '../../config/config.ts'
import { parseUsd } from '../../credits/money.ts'
import type { McpAuthorization } from '../../http/parts.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'
import { asksForAuthorization, type Challenge, type McpServer } from '../../tools/mcp/connection.ts'
import {
  beginAuthorization,
  clientMetadata,
  endAuthorization,
  freshToken,
  needsRefresh,
  type OAuthKept,
} from '../../tools/mcp/oauth.ts'
import { type McpProbe, mcpSources, probeServer } from '../../tools/mcp/server-tools.ts'
import { openSearch, type SearchSettings, type WebSearch } from '../../tools/search/open.ts'
import type { ToolSources } from '../../tools/tool.ts'

export interface Mcp {
  readonly servers: McpServers
  /** Tests a registered server. Rejects with GatewayError if it may not be reached or does not exist. */
  readonly probe: (account: string, name: string) => Promise<McpProbe>
  readonly authorization: McpAuthorization
  readonly open: ToolSources['mcp']
}

type McpConfig = Pick<Config, 'egress' | 'mcp' | 'secrets' | 'timeouts'>

/** A gateway that has died in the middle of a refresh is waited for so long, milliseconds. */
const longestTurnMs = 30_000
/** How often a gateway that waits for its turn asks for it, milliseconds. */
const askForTurnEveryMs = 100

/**
 * Runs `act` while no other gateway does under the same name. `counts` are those of all gateways, undefined where this is
 * the only one. Rejects as `act`, or with `store_unavailable`.
 */
export async function inTurn<T>(
  counts: AttemptCounts | undefined,
  name: string,
  now: () => number,
  act: () => Promise<T>,
): Promise<T> {
  if (counts === undefined) return act()
  const mine = () =>
    counts.change<number | undefined>('turn', name, (taken) => {
      const at = now()
      const age = taken === null ? longestTurnMs : at - taken.at
      return age >= 0 && age < longestTurnMs ? [taken, undefined] : [{ count: 1, at }, at]
    })
  let since = await mine()
  while (since === undefined) {
    await Bun.sleep(askForTurnEveryMs)
    since = await mine()
  }
  try {
    return await act()
  } finally {
    await counts.change('turn', name, (taken) => [taken?.at === since ? null : taken, undefined])
  }
}

export function mcpOf(
  config: McpConfig,
  store: Pick<Store, 'mcpServers' | 'limits'>,
  now: () => number,
): Mcp {
  const { master_key: keys } = config.secrets
  const servers = new McpServers(store.mcpServers, keys.length === 0 ? undefined : sealer(keys), now)
  const egress = { allowHosts: config.egress.allow_hosts, answerBytes: config.mcp.answer_bytes }
  const settings = { egress, mostTools: config.mcp.tools, callBytes: config.mcp.call_bytes }
  const authorizationOf = (serverUrl: string) => ({ serverUrl, egress, now })
  /** `changed` gives the new state for the present one: both an authorisation and a refresh take time. */
  const keep = async (
    account: string,
    { name, url }: McpServerRecord,
    changed: (present: OAuthKept) => OAuthKept,
  ) => {
    const record = await servers.find(account, name).catch(() => undefined)
    // The server may have been removed or replaced meanwhile.
    if (record?.url !== url) return
    const oauth = changed(record.secrets.oauth ?? {})
    await servers.put(account, { name, url, secrets: { ...record.secrets, oauth: { ...oauth } } })
  }

  /** One refresh per server at a time: a second would find its refresh token used up. */
  const refreshing = new Map<string, Promise<string>>()
  const tokenOf = (account: string, record: McpServerRecord, kept: OAuthKept): Promise<string> => {
    const key = `${account} ${record.name}`
    const running = refreshing.get(key)
    if (running) return running
    const fresh = needsRefresh(kept, now())
      ? inTurn(store.limits, `mcp ${key}`, now, () => refresh(account, record))
      : freshToken(authorizationOf(record.url), kept).then(({ token }) => token)
    const ended = fresh.finally(() => refreshing.delete(key))
    refreshing.set(key, ended)
    return ended
  }
  /** What is kept is looked at again: another gateway may have refreshed it meanwhile. */
  const refresh = async (account: string, record: McpServerRecord): Promise<string> => {
    const { secrets } = await servers.find(account, record.name)
    const kept: OAuthKept = secrets.oauth ?? {}
    const { token, kept: refreshed } = await freshToken(authorizationOf(record.url), kept)
    if (refreshed)
      await keep(account, record, (present) =>
        present.tokens?.access_token === kept.tokens?.access_token
          ? { ...refreshed, ...(present.begun && { begun: present.begun }) }
          : present,
      )
    return token
  }

  /** A registered server, with a fresh token where it is authorised. Rejects with GatewayError where there is none. */
  const registeredServer = async (account: string, name: string): Promise<McpServer> => {
    const record = await servers.find(account, name)
    const { url, secrets } = record
    const headers = new Headers(secrets.headers)
    if (secrets.oauth === undefined) return { url, headers }
    const token = await tokenOf(account, record, secrets.oauth)
    headers.set('authorization', `Bearer ${token}`)
    return { url, headers, refused: (challenge) => noteRefusal(account, name, token, challenge) }
  }

  /** The next authorisation asks for the missing scope, and the server's owner sees that one is needed. */
  const noteRefusal = async (account: string, name: string, token: string, challenge: Challenge) => {
    if (!asksForAuthorization(challenge)) return
    const record = await servers.find(account, name).catch(() => undefined)
    const oauth: OAuthKept | undefined = record?.secrets.oauth
    // The server may have been removed meanwhile; for another token it is unknown what is missing.
    if (!record || oauth?.tokens?.access_token !== token) return
    await keep(account, record, (present) => ({ ...present, challenge }))
  }

  const authorization: McpAuthorization = {
    clientMetadata,
    async begin({ account, name, ...asked }) {
      const record = await servers.find(account, name)
      // The name identifies the server; the rest cannot be guessed.
      const state = `${name}.${randomBytes(24).toString('base64url')}`
      const before: OAuthKept = record.secrets.oauth ?? {}
      const headers = new Headers(record.secrets.headers)
      headers.delete('authorization')
      const server = { ...authorizationOf(record.url), headers }
      const { url, kept } = await beginAuthorization(server, before, { ...asked, state })
      await keep(account, record, (present) => ({ ...present, ...kept }))
      return url
    },
    async end({ account, ...callback }) {
      const name = callback.state.split('.')[0]!
      const record = await servers.find(account, name)
      const kept = await endAuthorization(authorizationOf(record.url), record.secrets.oauth ?? {}, callback)
      await keep(account, record, () => kept)
      return name
    },
  }

  return {
    servers,
    authorization,
    probe: async (account, name) =>
      probeServer(
        await registeredServer(account, name),
        settings,
        AbortSignal.timeout(config.timeouts.tool_ms),
      ),
    open: mcpSources({ ...settings, registered: registeredServer }),
  }
}

// The tools that requests may declare, from configuration.

export function toolSourcesOf(
  config: Config,
  mcp: Pick<Mcp, 'open'>,
  clock: () => number,
  log: Log,
): ToolSources {
  const search = webSearchOf(config, clock, ({ code, detail }) =>
    log.warn('a web search failed', { code, detail }),
  )
  return { 'web-search': search.open, mcp: mcp.open }
}

// The configured web search.

/** `onFault` is called for every failed search, with details for the operator only. */
export function webSearchOf(
  { search, egress }: Pick<Config, 'search' | 'egress'>,
  now: () => number,
  onFault?: SearchSettings['onFault'],
): WebSearch {
  return openSearch({
    backend: search.backend,
    baseUrl: search.base_url,
    apiKey: search.api_key,
    pricePerSearch: search.price_per_call === undefined ? undefined : parseUsd(search.price_per_call),
    timeoutMs: search.timeout_ms,
    maxResults: search.max_results,
    pages: search.open_pages
      ? { bytes: search.page_bytes, fetchMs: search.timeout_ms, readMs: search.page_read_ms }
      : undefined,
    allowHosts: egress.allow_hosts,
    now,
    ...(onFault === undefined ? {} : { onFault }),
  })
}
