/** Stores an answer while it is produced, so that it is on disk no later than the settle that charges it. */
export interface AnswerKeeper {
  begin(headers: Readonly<Record<string, string>>): void
  add(bytes: Uint8Array): void
  /** The answer is complete. Called right before its settle is queued. */
  keep(): void
}
