// `weir ledger audit`

import { CommandFailure, type Context, print } from './context.ts'
import { withStore } from './with-store.ts'

/** Replays every entry and checks every invariant. Fails with the first that does not hold. */
export async function audit(context: Context): Promise<void> {
  const report = await withStore(context, ({ ledger }) => ledger.audit())
  const lines = report.checks.map(
    ({ name, ok, detail }) => `${ok ? 'ok   ' : 'BROKEN'} ${name}${detail ? `: ${detail}` : ''}`,
  )
  const heading = `${report.journalEntries} journal entries, head ${report.headHash}`
  print(context, {
    json: {
      ok: report.ok,
      journal_entries: report.journalEntries,
      head_hash: report.headHash,
      checks: report.checks,
    },
    text: [heading, ...lines].join('\n'),
  })
  const broken = report.checks.find((check) => !check.ok)
  if (broken)
    throw new CommandFailure(
      `the ledger does not hold: ${broken.name}${broken.detail ? `: ${broken.detail}` : ''}`,
    )
  if (!report.ok) throw new CommandFailure('the ledger does not hold')
}
