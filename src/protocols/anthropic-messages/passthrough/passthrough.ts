// For a client of Anthropic's protocol whose request goes to Anthropic itself: neither the request nor the answer is
// translated.

import type { Passthrough } from '../../protocol.ts'
import type { AnthropicQuirks } from '../outbound/quirks.ts'
import { forwardedMessage } from './frames.ts'
import { forwardedRequest, mayForward } from './request.ts'
import { MessagesStream } from './stream.ts'

export const passthrough: Passthrough<AnthropicQuirks> = {
  request: (body, target, ignored) =>
    mayForward(body) && !ignored.some((field) => body[field] != null)
      ? forwardedRequest(body, target)
      : undefined,
  stream: (context, { maxEventBytes }) => new MessagesStream(context, maxEventBytes),
  whole: (message, _usage, bill, context) => forwardedMessage(message, bill, context),
}
