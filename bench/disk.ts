// What the disk takes for itself: the floor of every call whose hold and settle are durable.

import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'

/**
 * Microseconds to write and sync a page twice, one after the other: what a hold and a settle cannot be faster than.
 * The mean of so many `pairs`, in a file of its own at `path`.
 */
export function bareSyncsUs(path: string, pairs: number): number {
  const file = openSync(path, 'w')
  const page = new Uint8Array(4096)
  const started = performance.now()
  for (let n = 0; n < pairs * 2; n++) {
    // Over itself, as a log that has reached its size is written: a file that grows would be synced with its length.
    writeSync(file, page, 0, page.length, 0)
    fdatasyncSync(file)
  }
  const us = ((performance.now() - started) * 1000) / pairs
  closeSync(file)
  return us
}
