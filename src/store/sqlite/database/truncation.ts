// Finds a database file that has lost its end, before anything is read from it or written to it.

import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs'

const headerBytes = 100
const logHeaderBytes = 32
const frameHeaderBytes = 24

/**
 * How many pages of a database are neither in the file nor in its write-ahead log; 0 for one that is whole, for one
 * without a page, and for what is no SQLite file. Nobody may be writing meanwhile.
 */
export function missingPages(path: string): number {
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(headerBytes)
    if (readSync(file, header, 0, headerBytes, 0) < headerBytes) return 0
    if (!header.toString('latin1', 0, 16).startsWith('SQLite format 3')) return 0
    const declared = header.readUInt16BE(16)
    const pageBytes = declared === 1 ? 65_536 : declared
    // The count is only good where both of these say the same.
    if (header.readUInt32BE(24) !== header.readUInt32BE(92)) return 0
    const there = Math.floor(fstatSync(file).size / pageBytes)
    return pagesMissing(there, header.readUInt32BE(28), `${path}-wal`, pageBytes)
  } finally {
    closeSync(file)
  }
}

function pagesMissing(there: number, counted: number, logPath: string, pageBytes: number): number {
  const log = committedPages(logPath, pageBytes)
  const count = log.count ?? counted
  let missing = 0
  for (let page = there + 1; page <= count; page++) if (!log.pages.has(page)) missing++
  return missing
}

/** The pages that the log has, and how many pages its last commit has left the database with. */
function committedPages(path: string, pageBytes: number): { count: number | undefined; pages: Set<number> } {
  const pages = new Set<number>()
  let count: number | undefined
  if (!existsSync(path)) return { count, pages }
  const log = readFileSync(path)
  if (log.length < logHeaderBytes) return { count, pages }
  const salts = log.toString('latin1', 16, 24)
  const pending: number[] = []
  for (let at = logHeaderBytes; at + frameHeaderBytes + pageBytes <= log.length;) {
    // Frames of an earlier round of the log have other salts.
    if (log.toString('latin1', at + 8, at + 16) !== salts) break
    pending.push(log.readUInt32BE(at))
    const size = log.readUInt32BE(at + 4)
    if (size > 0) {
      count = size
      for (const page of pending.splice(0)) pages.add(page)
    }
    at += frameHeaderBytes + pageBytes
  }
  return { count, pages }
}
