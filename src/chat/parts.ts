// What serving calls needs.

import type { Model } from '../catalog/row.ts'
import type { ConfiguredProvider } from '../providers/provider.ts'
import type { ToolSources } from '../tools/tool.ts'
import type { BillingParts } from './billing/hold.ts'
import type { RoutingParts } from './routing/search.ts'
import type { StreamingParts } from './streaming/respond.ts'
import type { UpstreamParts } from './upstream/upstream-request.ts'

export interface ChatParts extends BillingParts, RoutingParts, UpstreamParts, StreamingParts {
  readonly catalog: { resolve(id: string): Model }
  readonly providers: ReadonlyMap<string, ConfiguredProvider>
  /** The tools that requests may declare, by who runs them. */
  readonly toolSources: ToolSources
  /** Whether the request log may store prompts and answers. */
  readonly keepsContents: boolean
}
