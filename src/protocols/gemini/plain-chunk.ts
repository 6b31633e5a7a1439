// Whether a chunk is already as the schema would make it. Nearly every chunk of a stream is, and looking is many times
// cheaper than parsing; whatever is odd or rare is left to the schema.

import { isObject } from '../json.ts'
import type { Chunk } from './schema.ts'

const isText = (value: unknown) => value === undefined || typeof value === 'string'
const isFlag = (value: unknown) => value === undefined || typeof value === 'boolean'
// JSON can hold numbers too large to be finite, which the schema takes for absent.
const isNumber = (value: unknown) => value === undefined || Number.isFinite(value)

/** Whether every field of the schema is absent or of its type, and none of those is there that few chunks have. */
export function isPlainChunk(value: unknown): value is Chunk {
  if (!isObject(value)) return false
  const { candidates, usageMetadata } = value
  return (
    isText(value.responseId) &&
    isText(value.modelVersion) &&
    (candidates === undefined || (Array.isArray(candidates) && candidates.every(isPlainCandidate))) &&
    value.promptFeedback === undefined &&
    (usageMetadata === undefined || isPlainUsage(usageMetadata))
  )
}

function isPlainCandidate(value: unknown): boolean {
  if (!isObject(value)) return false
  const { index, content } = value
  return (
    (index === undefined || (Number.isSafeInteger(index) && Number(index) >= 0)) &&
    (content === undefined || isPlainContent(content)) &&
    isText(value.finishReason) &&
    isText(value.finishMessage) &&
    value.groundingMetadata === undefined &&
    value.citationMetadata === undefined &&
    value.logprobsResult === undefined
  )
}

function isPlainContent(value: unknown): boolean {
  if (!isObject(value)) return false
  const { parts } = value
  return parts === undefined || (Array.isArray(parts) && parts.every(isPlainPart))
}

function isPlainPart(value: unknown): boolean {
  if (!isObject(value)) return false
  const { functionCall, inlineData } = value
  return (
    isText(value.text) &&
    isFlag(value.thought) &&
    isText(value.thoughtSignature) &&
    (functionCall === undefined || isPlainCall(functionCall)) &&
    (inlineData === undefined ||
      (isObject(inlineData) && isText(inlineData.mimeType) && isText(inlineData.data)))
  )
}

function isPlainCall(value: unknown): boolean {
  return (
    isObject(value) &&
    isText(value.id) &&
    isText(value.name) &&
    (value.args === undefined || isObject(value.args)) &&
    value.partialArgs === undefined &&
    isFlag(value.willContinue)
  )
}

function isPlainUsage(value: unknown): boolean {
  return (
    isObject(value) &&
    isNumber(value.promptTokenCount) &&
    isNumber(value.candidatesTokenCount) &&
    isNumber(value.thoughtsTokenCount) &&
    isNumber(value.toolUsePromptTokenCount) &&
    isNumber(value.cachedContentTokenCount) &&
    isNumber(value.totalTokenCount) &&
    arePlainDetails(value.promptTokensDetails) &&
    arePlainDetails(value.cacheTokensDetails) &&
    arePlainDetails(value.candidatesTokensDetails) &&
    arePlainDetails(value.toolUsePromptTokensDetails) &&
    isText(value.trafficType) &&
    isText(value.serviceTier)
  )
}

function arePlainDetails(value: unknown): boolean {
  if (value === undefined) return true
  return (
    Array.isArray(value) &&
    value.every((detail) => isObject(detail) && isText(detail.modality) && isNumber(detail.tokenCount))
  )
}
