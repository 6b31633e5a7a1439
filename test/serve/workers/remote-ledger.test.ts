// The ledger as a worker has it, across the link, keeps what every ledger store promises.

import { InFlight } from '../../../src/chat/in-flight.ts'
import type { LedgerStore, LedgerUpkeep } from '../../../src/credits/ledger/ledger.ts'
import { ledgerHandlers } from '../../../src/serve/workers/pool.ts'
import { remoteOf } from '../../../src/serve/workers/remote-store.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { ledgerStoreConformance } from '../../conformance/ledger-store.ts'
import { tempDir } from '../../support/tmp.ts'
import { noLimits, noShared } from './parts.ts'
import { joined } from './pair.ts'

ledgerStoreConformance('across the link', async (clock) => {
  const home = tempDir('weir-remote-')
  const opened: Store[] = []
  return {
    async open(): Promise<LedgerStore & LedgerUpkeep> {
      const store = await openStore(home.path, { clock })
      opened.push(store)
      const { ledger } = store
      // What calls do goes as it goes for a worker; the rest of the suite goes the same way, so that all keeps its order.
      const holdDurable = (number: number) => remote.holdDurable(number)
      const { handlers } = ledgerHandlers(store, noShared, holdDurable)
      const { ours } = joined(
        { ...handlers, ...overLink((name, given) => Reflect.apply(ledger[name], ledger, given)) },
        {},
        1_000,
      )
      const remote = remoteOf(ours, new InFlight(), () => noLimits, clock)
      return {
        ...remote.store.ledger,
        async hold(command) {
          const { result, durable } = await remote.store.ledger.startHold(command, 'at-once')
          await durable
          return result
        },
        now: () => ledger.now(),
        writable: () => ledger.writable(),
        close: () => ledger.close(),
        ...overLink((name, given) => ours.request(name, ...given)),
      }
    },
    async dispose() {
      for (const store of opened) await store.close()
      home.remove()
    },
  }
})

/** What no worker asks for. */
const upkeep = [
  'grant',
  'setCreditLine',
  'refund',
  'adjust',
  'expire',
  'recover',
  'totals',
  'call',
  'audit',
  'auditDay',
] as const

type Upkeep = Pick<LedgerStore & LedgerUpkeep, (typeof upkeep)[number]>

/** Each verb as `request` makes it. */
function overLink(request: (name: keyof Upkeep, given: never) => unknown): Upkeep {
  return Object.fromEntries(
    upkeep.map((name) => [name, (...given: unknown[]) => request(name, given as never)]),
  ) as unknown as Upkeep
}
