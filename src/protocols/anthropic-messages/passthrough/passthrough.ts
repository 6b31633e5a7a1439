// Passes requests and answers through untranslated between a client of Anthropic's protocol and Anthropic.

import type { Passthrough } from '../../protocol.ts'
import type { AnthropicQuirks } from '../outbound/quirks.ts'
import { forwardedMessage } from './frames.ts'
import { withBoundedSearch } from '../../claude/web-search.ts'
import { forwardedRequest, mayForward } from './request.ts'
import { MessagesStream } from './stream.ts'

export const passthrough: Passthrough<AnthropicQuirks> = {
  request: (body, target, ignored, searches) => {
    const bounded = withBoundedSearch(body, searches)
    return bounded !== undefined && mayForward(bounded) && !ignored.some((field) => bounded[field] != null)
      ? forwardedRequest(bounded, target)
      : undefined
  },
  stream: (context, { maxEventBytes }) => new MessagesStream(context, maxEventBytes),
  whole: (message, _usage, bill, context) => forwardedMessage(message, bill, context),
}
