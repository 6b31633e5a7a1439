// Memory that a burst has left behind is given back soon after: the runtime collects as its heap grows, and what
// connections leave outside of it, which is most, would stay until the next burst.

/** Growth since the last collection that asks for another, bytes. */
const growthBytes = 64 * 1024 ** 2
const lookEveryMs = 500

/** Looks after the memory of this process until the function it gives is called. */
export function keepMemorySmall(): () => void {
  let collectedAt = process.memoryUsage.rss()
  const timer = setInterval(() => {
    const resident = process.memoryUsage.rss()
    // Without `true` it does not wait for the collection: nobody's call is held up.
    if (resident > collectedAt + growthBytes) Bun.gc(false)
    if (resident > collectedAt + growthBytes || resident < collectedAt) collectedAt = resident
  }, lookEveryMs)
  timer.unref()
  return () => clearInterval(timer)
}
