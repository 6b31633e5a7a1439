// `weir backup FILE` and `weir restore FILE`

import { resolve } from 'node:path'
import type { BackupReport } from '../../../store/backup.ts'
import { CommandFailure, type Context, type Invocation, print } from '../../context.ts'

/** Writes the database to a new file, also while a server runs. Fails if the audit of the copy's ledger fails. */
export async function backUpTo(context: Context, invocation: Invocation): Promise<void> {
  const { backUp } = await import('../../../store/backup.ts')
  const { dataDir, file } = placesOf(context, invocation)
  const report = backUp(dataDir, file)
  print(context, { json: viewOf(report), text: `backed up ${dataDir} to ${file}\n${lineOf(report)}` })
  if (report.broken !== null) {
    throw new CommandFailure(`the backup was written, but the ledger does not hold: ${report.broken}`)
  }
}

/** Restores a backup into the data directory after checking it. */
export async function restoreFrom(context: Context, invocation: Invocation): Promise<void> {
  const { restore } = await import('../../../store/backup.ts')
  const { dataDir, file } = placesOf(context, invocation)
  const existing = invocation.flag('force') ? 'replace' : 'keep'
  const report = restore(file, dataDir, { existing, now: context.io.clock() })
  const aside = report.movedAside === null ? '' : `\nwhat was there before is ${report.movedAside}`
  print(context, {
    json: { ...viewOf(report), moved_aside: report.movedAside },
    text: `restored ${file} to ${dataDir}\n${lineOf(report)}${aside}`,
  })
}

function placesOf({ config, io }: Context, invocation: Invocation): { dataDir: string; file: string } {
  return { dataDir: resolve(io.cwd, config.data_dir), file: resolve(io.cwd, invocation.args[0] ?? '') }
}

function viewOf({ file, bytes, schema, journalEntries, headHash, broken }: BackupReport) {
  return { file, bytes, schema, journal_entries: journalEntries, head_hash: headHash, ok: broken === null }
}

function lineOf({ bytes, schema, journalEntries, headHash }: BackupReport): string {
  return `${journalEntries} journal entries, head ${headHash}, schema ${schema}, ${bytes} bytes`
}
