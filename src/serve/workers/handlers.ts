// The requests of one worker, handled in the ledger's process, and the clean-up when the worker has died.

import type { ClaimedCall } from '../../credits/ledger/idempotency.ts'
import type { Store } from '../../store/store.ts'
import type { Shared } from '../gateway/gateway.ts'
import type { LedgerRequests, LedgerNotifications } from './protocol.ts'

export interface LedgerHandlersParts {
  readonly store: Pick<
    Store,
    'accounts' | 'identities' | 'idempotency' | 'ledger' | 'responses' | 'signatures'
  >
  readonly shared: Shared
  /** Notifies the worker that a hold is durable; `number` is from its request. */
  readonly holdDurable: (number: number) => void
}

export interface LedgerHandlers {
  readonly handlers: LedgerRequests & LedgerNotifications
  /** Ends what a dead worker left open: rate limits, Idempotency-Keys. To be called after its calls were recovered. */
  cleanUp(): Promise<void>
}

/** The handlers for one worker. */
export function ledgerHandlers({ store, shared, holdDurable }: LedgerHandlersParts): LedgerHandlers {
  const { accounts, identities, idempotency, ledger, responses, signatures } = store
  const { limiter, ended } = shared
  /** The worker's requests in flight. */
  const entered = new Set<string>()
  /** The Idempotency-Keys that its calls have claimed, by call. */
  const claims = new Map<string, ClaimedCall>()
  let isGone = false
  const releaseClaims = async () => {
    const left = [...claims.values()]
    claims.clear()
    await Promise.allSettled(left.map((claim) => idempotency.finish(claim)))
  }
  return {
    handlers: {
      findKey: (id) => accounts.findKey(id),
      findAccount: (idOrEmail) => accounts.findAccount(idOrEmail),
      findSession: (id) => accounts.findSession(id),
      touchSession: (...given) => identities.touchSession(...given),

      async startHold(command, haste, number) {
        const { result, durable } = await ledger.startHold(command, haste)
        void durable.then(() => holdDurable(number))
        return result
      },
      extend: (command) => ledger.extend(command),
      checkpoint: (command) => ledger.checkpoint(command),
      settle: (command) => ledger.settle(command),
      release: (command) => ledger.release(command),
      balance: (account) => ledger.balance(account),
      keySpend: (key, windowStart) => ledger.keySpend(key, windowStart),
      recordPrice: (version, model, price) => ledger.recordPrice(version, model, price),

      async claim(command) {
        const claim = await idempotency.claim(command)
        if (claim.kind === 'fresh') {
          const { account, key, call } = command
          claims.set(call, { account, key, call })
          // The worker died meanwhile and will not make the call.
          if (isGone) await releaseClaims()
        }
        return claim
      },
      keepAnswer: (claim, answer) => idempotency.keep(claim, answer),
      async finish(claim) {
        claims.delete(claim.call)
        await idempotency.finish(claim)
      },

      keepResponse: (command) => responses.keep(command),
      findResponse: (viewer, id) => responses.find(viewer, id),
      sizeOfResponse: (viewer, id) => responses.sizeOf(viewer, id),
      conversation: (viewer, id, maxBytes) => responses.conversation(viewer, id, maxBytes),
      storedBytes: async (account) => (await responses.storedBytes(account)).bytes(),
      recallSignature: async (key) => signatures.recall(key),
      rememberSignature: (key, signature) => signatures.remember(key, signature),

      freeCredit: (account) => shared.freeCredit.ensure(account),
      enter(caller, requestId, kind) {
        limiter.enter(caller, requestId, kind)
        entered.add(requestId)
      },
      requestEnded(requestId) {
        if (entered.delete(requestId)) limiter.leave(requestId)
      },
      limitHeaders: (caller) => limiter.headers(caller),
      probeTurn: (offer) => shared.probes.turn(offer),
      offerRecovered: (offer) => shared.probes.onRecovered(offer),
      spentTokens: (key, tokens) => limiter.spentTokens(key, tokens),
      async mcpServer(account, name) {
        const { url, headers, refused } = await shared.mcp.registered(account, name)
        const token = headers.get('authorization')?.replace(/^Bearer /, '')
        return { url, headers: [...headers], token: refused && token }
      },
      mcpRefused: (...given) => shared.mcp.noteRefusal(...given),
      callEnded: (row) => ended.append(row),
      turnedAway: (row) => ended.appendTurnedAway(row),
      callRefused: (row, model) => ended.appendRefused(row, model),
    },
    async cleanUp() {
      isGone = true
      for (const requestId of entered) limiter.leave(requestId)
      entered.clear()
      await releaseClaims()
    },
  }
}
