// `weir accounts invite --file`: people of a list, each with an account, a group and an allowance.

import { readFileSync } from 'node:fs'
import { invitePeople, readList } from '../../http/admin/invitations.ts'
import { csvLine, plural } from '../../text/csv.ts'
import { CommandFailure, type Context, type Invocation, print } from '../context.ts'
import { actingOn, withStore } from '../with-store.ts'
import { acting } from './accounts.ts'

/** Opens accounts for the people of a file; see `invitePeople`. */
export async function inviteList(context: Context, invocation: Invocation): Promise<void> {
  const file = invocation.option('file') ?? ''
  const rows = readList(textOf(file), file)
  const invited = await withStore(context, async (store) => {
    const { groups, ledger } = store
    return invitePeople(actingOn(context, store, { ...acting(context, store).parts, groups, ledger }), rows)
  })
  const opened = invited.filter(({ state }) => state === 'opened').length
  if (!context.json)
    context.io.err(
      `${plural(invited.length, 'person', 'people')}, ${opened} of them new. A link works once.\n`,
    )
  const lines = invited.map(({ address, name, url, expires_at: ends }) => csvLine([address, name, url, ends]))
  const text = [csvLine(['address', 'name', 'link', 'expires']), ...lines].join('')
  print(context, { json: invited, text: text.trimEnd().replaceAll('\r', '') })
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandFailure(`${file} cannot be read: ${(error as Error).message}`)
  }
}
