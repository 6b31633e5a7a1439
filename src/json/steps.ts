// Work on large JSON in steps: it pauses often, so that the caller can run other work in between.

/** Work that pauses after no more than about a millisecond each time, and gives its result at the end. */
export type Steps<Result> = Generator<void, Result, void>

/** Characters that are handled between two pauses. */
export const stepCharacters = 65_536

/** Work that is done, or the steps of what is too much to do at once. */
export type DoneOrSteps<Result> = Result | Steps<Result>

export function isSteps<Result>(work: DoneOrSteps<Result>): work is Steps<Result> {
  return typeof work === 'object' && work !== null && 'next' in work
}

/** Does all of the work at once. */
export function atOnce<Result>(work: DoneOrSteps<Result>): Result {
  if (!isSteps(work)) return work
  const steps = work
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
