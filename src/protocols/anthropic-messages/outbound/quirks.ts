// What hosts that speak Anthropic's Messages protocol do differently, as data: a provider row sets what deviates.

import type { ModelTraits } from '../../claude/models.ts'

/** How a host of Claude deviates from Anthropic's own API. */
export interface AnthropicQuirks {
  /** Appended to the base URL; `{model}` stands for the model's name, which then is not in the body. */
  readonly path: string
  /** The same for streamed answers, where the host has another address for them. */
  readonly streamPath: string
  /** The version of the protocol: `2023-06-01`, `vertex-2023-10-16`, `bedrock-2023-05-31`. */
  readonly version: string
  /** Anthropic reads the version from a header, the clouds from the body (`anthropic_version`). */
  readonly versionIn: 'header' | 'body'
  /** Whether a streamed answer is asked for by `stream: true`, or by its path alone. */
  readonly streamIn: 'body' | 'path'
  /** How streamed answers come; in Amazon's framing each event is wrapped once more. */
  readonly framing: 'sse' | 'aws-event-stream'
  /** Beta features to ask for with every request. */
  readonly betas: readonly string[]
  /** Whether it is asked for the beta features that clients ask for; the clouds refuse names they do not know. */
  readonly takesBetas: boolean
  /** `max_tokens` if neither the client nor the catalog knows one; the protocol requires it. */
  readonly defaultMaxTokens: number
  /** Whether the host fetches images and documents by their https addresses; the clouds take bytes only. */
  readonly readsUrls: boolean
  /** Whether the host runs Anthropic's web search, at a fee for each. */
  readonly webSearch: boolean
  /** What this host's models do otherwise than their names say. */
  readonly traits: Partial<ModelTraits>
}

export const defaultQuirks: AnthropicQuirks = {
  path: '/messages',
  streamPath: '/messages',
  version: '2023-06-01',
  versionIn: 'header',
  streamIn: 'body',
  framing: 'sse',
  betas: [],
  takesBetas: true,
  // What every model of this protocol can write, the oldest included.
  defaultMaxTokens: 4096,
  readsUrls: true,
  webSearch: false,
  traits: {},
}
