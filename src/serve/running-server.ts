// The address of the running server of a data directory, for commands: `serve.json`, beside its lock.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { Config } from '../config/config.ts'
import type { Log } from '../observe/log.ts'
import { servingProcess } from '../store/sqlite/database/serve-lock.ts'

const noticeSchema = z.object({ pid: z.int(), base_url: z.string(), processes: z.int().default(1) })

function noticePath(dataDir: string): string {
  return join(dataDir, 'serve.json')
}

/** Writes the address of this process, which has the lock of the data directory. If it fails, commands use the configured one. */
export function announceServer({ data_dir, server }: Config, log: Log, baseUrl: string): void {
  const path = noticePath(data_dir)
  const unfinished = `${path}.unfinished`
  const notice = { pid: process.pid, base_url: baseUrl, processes: server.processes }
  try {
    writeFileSync(unfinished, `${JSON.stringify(notice)}\n`, { mode: 0o600 })
    renameSync(unfinished, path)
  } catch (error) {
    log.warn('commands will not find this server by its data directory', { error })
  }
}

/** If it fails, what stays behind names a server that is not alive, which commands find out. */
export function withdrawServer({ data_dir }: Config, log: Log): void {
  try {
    rmSync(noticePath(data_dir), { force: true })
  } catch (error) {
    log.warn('the file with the address of this server could not be removed', { error })
  }
}

/** The base URL of the server that has the data directory open; undefined if there is none or it is unknown. */
export function runningServer(dataDir: string): string | undefined {
  return noticeOfServer(dataDir)?.base_url
}

/** The same with its process, which is the parent where `processes` of them serve. */
export function noticeOfServer(dataDir: string): z.output<typeof noticeSchema> | undefined {
  const notice = noticeIn(noticePath(dataDir))
  // A killed server leaves its file behind; the lock names the process that served last.
  if (notice === undefined || servingProcess(dataDir) !== notice.pid || !isAlive(notice.pid)) return undefined
  return notice
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
