// The tools that requests may declare, from configuration.

import type { Config } from '../../config.ts'
import type { Log } from '../../observe/log.ts'
import type { ToolSources } from '../../tools/tool.ts'
import type { Mcp } from './mcp.ts'
import { webSearchOf } from './web-search.ts'

export function toolSourcesOf(
  config: Config,
  mcp: Pick<Mcp, 'open'>,
  clock: () => number,
  log: Log,
): ToolSources {
  const search = webSearchOf(config, clock, ({ code, detail }) =>
    log.warn('a web search failed', { code, detail }),
  )
  return { webSearch: search.open, mcp: mcp.open }
}
