// Copies prompts and answers for the request log, if the operator enabled that (`log.prompts`).

import type { JsonObject } from '../conversation/request.ts'
import { shownBody } from '../protocols/request/mcp-declarations.ts'
import type { AnswerKeeper } from './answer-keeper.ts'

/** How much of a request and of its answer is stored: characters of JSON, bytes of an answer. */
const longestPart = 32_768

/** Copies the beginning of an answer while it goes to whatever else stores it. */
export class Transcript implements AnswerKeeper {
  readonly #next: AnswerKeeper | undefined
  readonly #chunks: Uint8Array[] = []
  #size = 0

  constructor(next: AnswerKeeper | undefined) {
    this.#next = next
  }

  begin(headers: Readonly<Record<string, string>>): void {
    this.#next?.begin(headers)
  }

  add(bytes: Uint8Array): void {
    this.#next?.add(bytes)
    if (this.#size < longestPart) this.#chunks.push(bytes.slice(0, longestPart - this.#size))
    this.#size += bytes.length
  }

  keep(): void {
    this.#next?.keep()
  }

  get answer(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}

/** The call with a transcript, if enabled. */
export function transcribe<Call extends { readonly keeper: AnswerKeeper | undefined }>(
  { keepsContents }: { readonly keepsContents: boolean },
  call: Call,
): Call {
  if (!keepsContents) return call
  const transcript = new Transcript(call.keeper)
  return { ...call, keeper: transcript, transcript }
}

/** The stored text of a call as JSON; null if none. */
export function contentsOf(call: {
  readonly transcript?: Transcript
  readonly request: { readonly body: JsonObject }
}): string | null {
  const { transcript, request } = call
  if (!transcript) return null
  return JSON.stringify({
    request: JSON.stringify(shownBody(request.body)).slice(0, longestPart),
    answer: transcript.answer,
  })
}
