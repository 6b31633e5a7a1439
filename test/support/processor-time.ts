// What work costs this thread: a clock on the wall also counts whatever else the machine has to do.

/** Milliseconds of processor time that this thread has had, in its own code and in the kernel's. */
export function processorMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** Milliseconds of processor time that `work` takes, until it returns. */
export function processorMsOf(work: () => unknown): number {
  const before = processorMs()
  work()
  return processorMs() - before
}
