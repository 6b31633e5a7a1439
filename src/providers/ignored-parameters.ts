// Which parameters of a chat request a model of a provider does not honour, as far as its row says: the catalog must
// not promise them.

import { traitsOf } from '../protocols/claude/models.ts'
import { familyOf } from '../protocols/bedrock-converse/models.ts'
import {
  defaultQuirks as chatDefaults,
  type OpenAIChatQuirks,
} from '../protocols/openai-chat/outbound/quirks.ts'
import {
  defaultQuirks as responsesDefaults,
  type ResponsesQuirks,
  unknownFields,
} from '../protocols/openai-responses/outbound/quirks.ts'
import { type Provider, spokenTo } from './provider.ts'

/** By their names in chat completions. `upstream` is the model's name at the provider. */
export function ignoredParameters(
  provider: Provider,
  upstream: string,
  reasoning: boolean,
): ReadonlySet<string> {
  const spoken = spokenTo(provider, upstream)
  const ignored = new Set<string>([...byProtocol(spoken, upstream, reasoning), ...(spoken.ignores ?? [])])
  if (ignored.has('logprobs')) ignored.add('top_logprobs')
  if (ignored.has('reasoning')) ignored.add('reasoning_effort')
  return ignored
}

function byProtocol({ protocol, quirks }: Provider, upstream: string, reasoning: boolean): readonly string[] {
  switch (protocol) {
    case 'openai-chat':
      return ignoredInChat({ ...chatDefaults, ...quirks }, reasoning)
    case 'openai-responses':
      return ignoredInResponses({ ...responsesDefaults, ...quirks }, reasoning)
    case 'anthropic-messages':
      return ignoredByClaude(upstream, reasoning)
    case 'bedrock-converse':
      return [
        ...ignoredByClaude(upstream, reasoning),
        ...(familyOf(upstream).forces === 'nothing' ? ['tool_choice'] : []),
      ]
    case 'gemini':
    case 'cohere':
    case 'ollama':
      return []
  }
}

/** Models of other vendors have names that are not Claude's and traits that forbid nothing. */
function ignoredByClaude(upstream: string, reasoning: boolean): readonly string[] {
  return traitsOf(upstream, reasoning, {}).sampling === 'neither' ? ['temperature', 'top_p', 'top_k'] : []
}

function ignoredInChat(quirks: OpenAIChatQuirks, reasoning: boolean): readonly string[] {
  return [
    ...quirks.drops,
    ...quirks.refuses,
    ...(reasoning ? quirks.refusedWhileReasoning : []),
    ...(quirks.effortFields.length === 0 ? ['reasoning'] : []),
    ...(quirks.jsonSchema ? [] : ['structured_outputs']),
  ]
}

/** Several answers are asked for in chat completions instead. */
function ignoredInResponses(quirks: ResponsesQuirks, reasoning: boolean): readonly string[] {
  return [
    ...unknownFields,
    ...quirks.drops,
    ...(reasoning || quirks.alwaysReasons ? quirks.refusedWhileReasoning : []),
    ...(quirks.logprobs ? [] : ['logprobs']),
  ]
}
