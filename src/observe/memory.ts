// Collects garbage soon after a burst. The runtime only collects when the heap has grown to a multiple of what was
// alive, which after a hundred thousand stream events a second is hundreds of megabytes.

/** Growth since the last collection that triggers another, bytes. */
const growthBytes = 48 * 1024 ** 2
const lookEveryMs = 250
/** After a burst without further growth, a collection runs this much later, milliseconds. */
const afterwardsMs = 2_000

/** Watches this process's memory until the returned function is called. */
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
