// Periods of subscriptions that are sold elsewhere: granted and ended by hand.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, CallError, newId } from '../../api/call.ts'
import type { Page } from '../../api/wire.ts'
import { countOf, day, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Empty, Failure } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { elevate } from '../../ui/elevate.tsx'
import { ActForm, Choice, TextField, textOf, useAct } from '../../ui/form.tsx'
import { numeric, QueryState, screenReaderOnly, Table } from '../../ui/table.tsx'
import { AccountLink, PaymentsHead, type Period, type Product } from './payments.tsx'
import type { AccountRow } from '../wire.ts'

const tones: Readonly<Record<Period['state'], 'good' | 'warn' | 'plain' | 'bad'>> = {
  active: 'good',
  grace: 'warn',
  ended: 'plain',
  refunded: 'bad',
  refund_reversed: 'good',
}

interface Listed {
  readonly data: readonly Period[]
  readonly products: readonly Product[]
}

export function Subscriptions() {
  const [granting, setGranting] = useState(false)
  const [ending, setEnding] = useState<Period | null>(null)
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'subscriptions'],
    queryFn: () => call<Listed>('GET', 'admin/subscriptions'),
  })
  const periods = data?.data
  return (
    <>
      <PaymentsHead>
        <Button look="primary" onClick={() => setGranting(true)}>
          {t('Grant a period')}
        </Button>
      </PaymentsHead>
      <QueryState query={{ error, isPending, refetch }} />
      {periods?.length === 0 && (
        <Empty title={t('There are no subscriptions.')}>
          <p>
            {t('Their seller sends signed messages to /hooks/subscriptions, or a period is granted here.')}
          </p>
        </Empty>
      )}
      {periods && periods.length > 0 && (
        <Table
          label={t('Subscriptions')}
          columns={[
            t('Subscription'),
            t('State'),
            t('Account'),
            t('Product'),
            t('From'),
            t('To'),
            numeric(t('Credit')),
            screenReaderOnly(t('Actions')),
          ]}
        >
          {periods.map((period) => (
            <tr key={`${period.source} ${period.subscription} ${period.product} ${period.from} ${period.to}`}>
              <td className="font-mono text-[12px]">
                {period.source} {period.subscription}
              </td>
              <td>
                <Badge tone={tones[period.state]}>{t(period.state.replace('_', ' '))}</Badge>
              </td>
              <td>
                <AccountLink id={period.account} />
              </td>
              <td>{period.product}</td>
              <td className="whitespace-nowrap">{day(period.from)}</td>
              <td className="whitespace-nowrap">{day(period.to)}</td>
              <td className="num">{usd(period.credit_usd)}</td>
              <td className="text-right">
                {(period.state === 'active' || period.state === 'grace') && (
                  <Button
                    small
                    look="danger"
                    aria-label={t('End {name}', { name: period.subscription })}
                    onClick={() => setEnding(period)}
                  >
                    {t('End')}
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {granting && <Granting products={data?.products ?? []} onClose={() => setGranting(false)} />}
      {ending && <Ending period={ending} onClose={() => setEnding(null)} />}
    </>
  )
}

const tenYearsMs = 3_650 * 86_400_000

function Granting({ products, onClose }: { products: readonly Product[]; onClose: () => void }) {
  const client = useQueryClient()
  // If the answer was lost, the same period is sent again and granted once: these two name it.
  const [{ subscription, begins }] = useState(() => ({
    subscription: `sub_${newId().slice(0, 18)}`,
    begins: Date.now(),
  }))
  const [typed, setTyped] = useState('')
  const accounts = useAccountsLike(typed)
  const grant = async (given: FormData) => {
    const until = textOf(given, 'to')
    const body = {
      subscription,
      source: 'manual',
      account: await accountIdOf(typed),
      product: textOf(given, 'product'),
      period: {
        from: new Date(begins).toISOString(),
        // The gateway cuts it to the length of the product.
        to: until === undefined ? new Date(begins + tenYearsMs).toISOString() : `${until}T23:59:59Z`,
      },
      state: 'active',
    }
    await elevate(() => call('POST', 'admin/subscriptions', body))
    await client.invalidateQueries({ queryKey: ['admin'] })
    onClose()
  }
  if (products.length === 0)
    return (
      <Dialog title={t('Grant a period')} onClose={onClose}>
        <p>{t('No product is set: subscriptions.products in the configuration says what is sold.')}</p>
      </Dialog>
    )
  return (
    <Dialog title={t('Grant a period')} onClose={onClose}>
      <ActForm onSubmit={grant} action={t('Grant')} fields={['account']}>
        {(faultOf) => (
          <>
            <TextField
              label={t('Account')}
              name="account"
              list={accountList}
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              autoComplete="off"
              required
              maxLength={254}
              hint={t('Its e-mail address or id.')}
              error={faultOf('account')}
            />
            <datalist id={accountList}>
              {accounts.map(({ id, email }) => (
                <option key={id} value={email}>
                  {id}
                </option>
              ))}
            </datalist>
            <Choice
              label={t('Product')}
              name="product"
              options={products.map(({ id, credit_usd: credit, months }) => [
                id,
                countOf(months, '{name}, a month: {credit}', '{name}, {count} months: {credit}', {
                  name: id,
                  credit: usd(credit),
                }),
              ])}
            />
            <TextField
              label={t('Ends')}
              name="to"
              type="date"
              hint={t('Empty: as long as the product says.')}
            />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}

const accountList = 'accounts-like'

function useAccountsLike(typed: string): readonly AccountRow[] {
  const { data } = useQuery({
    queryKey: ['admin', 'accounts-like', typed],
    queryFn: () => accountsLike(typed),
    placeholderData: (before) => before,
  })
  return data ?? []
}

async function accountsLike(text: string): Promise<readonly AccountRow[]> {
  const asked = new URLSearchParams({ limit: '20', ...(text === '' ? {} : { q: text }) })
  return (await call<Page<AccountRow>>('GET', `admin/accounts?${asked}`)).data
}

/** The id of the account with this address or id. If there is none, throws an error for the field. */
async function accountIdOf(typed: string): Promise<string> {
  const text = typed.trim().toLowerCase()
  const found = (await accountsLike(text)).find(
    ({ id, email }) => email.toLowerCase() === text || id.toLowerCase() === text,
  )
  if (found) return found.id
  const message = t('There is no account of this address.')
  throw new CallError({ status: 404, code: 'not_found', message, param: 'account', metadata: {} })
}

function Ending({ period, onClose }: { period: Period; onClose: () => void }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const { source, subscription } = period
  const end = (state: 'ended' | 'refunded') =>
    act(async () => {
      const body = { source, subscription, state }
      await elevate(() => call('POST', 'admin/subscriptions/end', body))
      await client.invalidateQueries({ queryKey: ['admin'] })
      onClose()
    })
  return (
    <Dialog title={t('End {name}', { name: subscription })} onClose={onClose}>
      <div className="grid gap-3.5">
        <p className="text-muted">
          {t('Ended, its credit lasts until {day}; refunded, what is left of it is taken now.', {
            day: day(period.to),
          })}
        </p>
        {error !== null && <Failure error={error} />}
        <div className="flex flex-wrap gap-2">
          <Button busy={busy} onClick={() => void end('ended')}>
            {t('End it')}
          </Button>
          <Button look="danger" busy={busy} onClick={() => void end('refunded')}>
            {t('Take it back')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
