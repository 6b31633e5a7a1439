// Work on large JSON in steps: it pauses often, so that the caller can run other work in between.

/** Work that pauses after no more than about a millisecond each time, and gives its result at the end. */
export type Steps<Result> = Generator<void, Result, void>

/** Characters that are handled between two pauses. */
export const stepCharacters = 65_536

/** Does all of the work at once. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
