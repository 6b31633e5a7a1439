// Work on large JSON in steps: what works through a text of megabytes pauses often, so that whoever drives it can let
// others have their turn in between.

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
