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
      const { handlers } = ledgerHandlers({ store, shared: noShared, holdDurable })
      const { ours } = joined({ ...handlers, ...upkeepOf(ledger) }, {}, 1_000)
      const remote = remoteOf(ours, { inFlight: new InFlight(), limits: noLimits, clock })
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
        grant: (command) => ours.request('grant', command),
        setCreditLine: (account, most) => ours.request('setCreditLine', account, most),
        refund: (command) => ours.request('refund', command),
        adjust: (command) => ours.request('adjust', command),
        expire: (now) => ours.request('expire', now),
        recover: (now) => ours.request('recover', now),
        totals: (account) => ours.request('totals', account),
        call: (account, id) => ours.request('call', account, id),
        audit: () => ours.request('audit'),
        auditDay: (day) => ours.request('auditDay', day),
      }
    },
    async dispose() {
      for (const store of opened) await store.close()
      home.remove()
    },
  }
})

type Upkeep = Pick<
  LedgerStore & LedgerUpkeep,
  | 'grant'
  | 'setCreditLine'
  | 'refund'
  | 'adjust'
  | 'expire'
  | 'recover'
  | 'totals'
  | 'call'
  | 'audit'
  | 'auditDay'
>

function upkeepOf(ledger: LedgerStore & LedgerUpkeep): Upkeep {
  return {
    grant: (command) => ledger.grant(command),
    setCreditLine: (account, most) => ledger.setCreditLine(account, most),
    refund: (command) => ledger.refund(command),
    adjust: (command) => ledger.adjust(command),
    expire: (now) => ledger.expire(now),
    recover: (now) => ledger.recover(now),
    totals: (account) => ledger.totals(account),
    call: (account, id) => ledger.call(account, id),
    audit: () => ledger.audit(),
    auditDay: (day) => ledger.auditDay(day),
  }
}
