// A process that removes another operator each time it reads the other's id, and prints whether it was let.

import { GatewayError } from '../../../src/errors/errors.ts'
import { openStore } from '../../../src/store/open.ts'
import { noon } from '../../credits/support.ts'

const [dataDir, how] = process.argv.slice(2)
const store = await openStore(dataDir!, { clock: () => noon })

async function remove(other: string): Promise<string> {
  try {
    if (how === 'demote') await store.identities.demote(other, 0)
    else await store.identities.suspend(other)
    return 'done'
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return error.message
  }
}

process.stdout.write('ready\n')
for await (const other of console) process.stdout.write(`${await remove(other)}\n`)
await store.close()
