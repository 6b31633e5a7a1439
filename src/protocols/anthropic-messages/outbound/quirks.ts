// How hosts of Anthropic's Messages protocol differ, as data: provider rows set the deviations.

import type { ModelTraits } from '../../claude/models.ts'

/** How a host of Claude differs from Anthropic's own API. */
export interface AnthropicQuirks {
  /** Appended to the base URL; `{model}` is replaced by the model's name, which is then left out of the body. */
  readonly path: string
  /** The same for streamed answers, if the host has a separate address for them. */
  readonly streamPath: string
  /** The version of the protocol: `2023-06-01`, `vertex-2023-10-16`, `bedrock-2023-05-31`. */
  readonly version: string
  /** Anthropic takes the version in a header, the clouds in the body (`anthropic_version`). */
  readonly versionIn: 'header' | 'body'
  /** Whether streaming is requested by `stream: true` or by the path. */
  readonly streamIn: 'body' | 'path'
  /** The framing of streams; in Amazon's, each event is wrapped once more. */
  readonly framing: 'sse' | 'aws-event-stream'
  /** Beta features to ask for with every request. */
  readonly betas: readonly string[]
  /** Whether clients' beta features are passed on; the clouds refuse names they do not know. */
  readonly takesBetas: boolean
  /** `max_tokens` if neither the client nor the catalog knows one; the protocol requires it. */
  readonly defaultMaxTokens: number
  /** Whether the host fetches images and documents by https; the clouds only take bytes. */
  readonly readsUrls: boolean
  /** Whether the host offers Anthropic's web search, which has a fee per search. */
  readonly webSearch: boolean
  /** Where this host's models differ from what their names imply. */
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
  // Every model of this protocol, even the oldest, can write this much.
  defaultMaxTokens: 4096,
  readsUrls: true,
  webSearch: false,
  traits: {},
}
