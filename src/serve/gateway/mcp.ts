// MCP as the settings configure it: the servers that calls name, and those that accounts have registered.

import { McpServers } from '../../accounts/mcp-server.ts'
import { sealer } from '../../accounts/sealed.ts'
import type { Config } from '../../config.ts'
import type { Store } from '../../store/store.ts'
import type { McpServer } from '../../tools/mcp/connection.ts'
import { type McpProbe, probeServer } from '../../tools/mcp/probe.ts'
import { mcpSources } from '../../tools/mcp/sources.ts'
import type { ToolSources } from '../../tools/tool.ts'

export interface Mcp {
  readonly servers: McpServers
  /** Tries a registered server. Rejects with GatewayError where it may not be reached, or there is none. */
  readonly probe: (account: string, name: string) => Promise<McpProbe>
  readonly open: ToolSources['mcp']
}

type McpConfig = Pick<Config, 'egress' | 'mcp' | 'secrets' | 'timeouts'>

export function mcpOf(config: McpConfig, store: Pick<Store, 'mcpServers'>, now: () => number): Mcp {
  const { master_key: keys } = config.secrets
  const servers = new McpServers(store.mcpServers, keys.length === 0 ? undefined : sealer(keys), now)
  const settings = {
    egress: { allowHosts: config.egress.allow_hosts, answerBytes: config.mcp.answer_bytes },
    mostTools: config.mcp.tools,
  }
  const registered = async (account: string, name: string): Promise<McpServer> => {
    const { url, secrets } = await servers.find(account, name)
    return { url, headers: new Headers(secrets.headers) }
  }
  return {
    servers,
    probe: async (account, name) =>
      probeServer(await registered(account, name), settings, AbortSignal.timeout(config.timeouts.tool_ms)),
    open: mcpSources({ ...settings, registered }),
  }
}
