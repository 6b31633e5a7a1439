/** How long a process that has done all else may still write its log, milliseconds. */
const writeMs = 1_000

/** To be called last: a log whose reader hangs would otherwise keep the process for ever. */
export function endSoon(): void {
  setTimeout(() => process.exit(), writeMs).unref()
}
