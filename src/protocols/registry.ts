// The protocols that providers are spoken to in.

import { outbound as anthropicMessages } from './anthropic-messages/outbound/outbound.ts'
import { outbound as bedrockConverse } from './bedrock-converse/parse.ts'
import { outbound as cohere } from './cohere/cohere.ts'
import { outbound as gemini } from './gemini/outbound/outbound.ts'
import { outbound as ollama } from './ollama/ollama.ts'
import { outbound as openaiChat } from './openai-chat/outbound/lower.ts'
import { outbound as openaiResponses } from './openai-responses/outbound/outbound.ts'
import type { Outbound, ProtocolId } from './protocol.ts'

/** The outbound side of each protocol. Quirks are opaque here: a row's quirks belong to its own protocol. */
export const outbounds: Readonly<Record<ProtocolId, Outbound>> = {
  'openai-chat': openaiChat as Outbound,
  'openai-responses': openaiResponses as Outbound,
  'anthropic-messages': anthropicMessages as Outbound,
  'bedrock-converse': bedrockConverse as Outbound,
  cohere: cohere as Outbound,
  gemini: gemini as Outbound,
  ollama: ollama as Outbound,
}
