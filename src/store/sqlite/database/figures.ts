// The figures of a database that monitors ask for every few seconds.

import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Database } from 'bun:sqlite'
import type { StoreFigures } from '../../../observe/call-log.ts'
import { one, orUnavailable } from './sqlite.ts'

/** So many messages are counted; more are as many. */
const mostCounted = 100_000

/** What can be read in a moment, however many calls there have been: no table that grows with them is scanned. */
export function figuresOf(
  database: Database,
  path: string,
): Omit<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs' | 'rowsDropped'> {
  return orUnavailable(() => ({
    openCalls: Number(one(database, 'SELECT count(*) FROM open_call')),
    heldUsd: Number(one(database, 'SELECT total(hold) FROM open_call')) / 1e12,
    webhooksWaiting: Number(
      one(
        database,
        `SELECT count(*) FROM (SELECT 1 FROM webhook_delivery WHERE state = 'waiting' LIMIT ${mostCounted})`,
      ),
    ),
    // What the log holds of it counts, too.
    databaseBytes: Number(
      one(database, 'SELECT page_count * page_size FROM pragma_page_count, pragma_page_size'),
    ),
    logBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    ...diskOf(path),
  }))
}

function diskOf(path: string): Pick<StoreFigures, 'diskBytes' | 'diskFreeBytes'> {
  const { bsize, blocks, bavail } = statfsSync(dirname(path))
  return { diskBytes: blocks * bsize, diskFreeBytes: bavail * bsize }
}
