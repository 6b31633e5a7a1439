// Memory that a burst has left behind is given back soon after. The runtime collects when its heap has grown to a
// multiple of what was alive, and what streams leave behind has been alive for a while: at a hundred thousand events a
// second that multiple is hundreds of megabytes.

/** Growth since the last collection that asks for another, bytes. */
const growthBytes = 48 * 1024 ** 2
const lookEveryMs = 250
/** What a burst has left behind without growing any more is collected this long after, milliseconds. */
const afterwardsMs = 2_000

/** Looks after the memory of this process until the function it gives is called. */
export function keepMemorySmall(): () => void {
  let least = taken()
  let collectedFrom = least
  let collectedAt = performance.now()
  const timer = setInterval(() => {
    const bytes = taken()
    least = Math.min(least, bytes)
    const now = performance.now()
    const hasGrown = bytes > Math.min(collectedFrom, bytes) + growthBytes
    const isLeftBehind = bytes > least + growthBytes && now - collectedAt > afterwardsMs
    if (hasGrown || isLeftBehind) {
      // Without `true` it does not wait for the collection, so no call is held up.
      Bun.gc(false)
      collectedAt = now
      // Memory that stays alive would otherwise trigger this every two seconds.
      if (!hasGrown) least = bytes
    }
    if (hasGrown || bytes < collectedFrom) collectedFrom = bytes
  }, lookEveryMs)
  timer.unref()
  return () => clearInterval(timer)
}

function taken(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
