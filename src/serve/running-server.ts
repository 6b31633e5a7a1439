// The address of the running server of a data directory, for commands: `serve.json`, beside its lock.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { servingProcess } from '../store/sqlite/database/serve-lock.ts'

const noticeSchema = z.object({ pid: z.int(), base_url: z.string() })

function noticePath(dataDir: string): string {
  return join(dataDir, 'serve.json')
}

/** Writes the address of this process. Throws file system errors. */
export function announceServer(dataDir: string, baseUrl: string): void {
  const path = noticePath(dataDir)
  const unfinished = `${path}.unfinished`
  writeFileSync(unfinished, `${JSON.stringify({ pid: process.pid, base_url: baseUrl })}\n`, { mode: 0o600 })
  renameSync(unfinished, path)
}

export function withdrawServer(dataDir: string): void {
  rmSync(noticePath(dataDir), { force: true })
}

/** The base URL of the server that has the data directory open; undefined if there is none or it is unknown. */
export function runningServer(dataDir: string): string | undefined {
  const notice = noticeIn(noticePath(dataDir))
  // A killed server leaves its file behind; the lock names the process that served last.
  if (notice === undefined || servingProcess(dataDir) !== notice.pid || !isAlive(notice.pid)) return undefined
  return notice.base_url
}

function noticeIn(path: string): z.output<typeof noticeSchema> | undefined {
  try {
    return noticeSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return undefined
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Another user's process, and alive.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
