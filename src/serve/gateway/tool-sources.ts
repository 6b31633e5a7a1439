// Who serves the tools that requests declare, as the settings name them.

import type { Config } from '../../config.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'
import type { ToolSources } from '../../tools/tool.ts'
import { mcpOf } from './mcp.ts'
import { webSearchOf } from './web-search.ts'

export function toolSourcesOf(
  config: Config,
  store: Pick<Store, 'mcpServers'>,
  clock: () => number,
  log: Log,
): ToolSources {
  const search = webSearchOf(config, clock, ({ code, detail }) =>
    log.warn('a web search failed', { code, detail }),
  )
  return { webSearch: search.open, mcp: mcpOf(config, store, clock).open }
}
