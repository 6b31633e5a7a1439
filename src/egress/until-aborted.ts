/**
 * The result of work that cannot be aborted itself, or a rejection with the signal's reason as soon as that aborts; work
 * whose signal has aborted already is not begun. What the work does later is ignored: an unhandled rejection would end
 * the process.
 */
export function untilAborted<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise<T>((resolve, reject) => {
    const give = () => reject(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', give))
  })
}
