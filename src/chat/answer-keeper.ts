/** Takes an answer as it is made, so that it is on disk no later than the settle that charges it. */
export interface AnswerKeeper {
  /** The answer begins. */
  begin(headers: Readonly<Record<string, string>>): void
  /** More of its body. */
  add(bytes: Uint8Array): void
  /** It is whole; called right before its settle is queued. */
  keep(): void
}
