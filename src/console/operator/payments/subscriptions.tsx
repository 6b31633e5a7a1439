// Periods of subscriptions that are sold elsewhere: granted and ended by hand.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call } from '../../api/call.ts'
import { useAct } from '../../session/signed-out.tsx'
import { day, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Empty, Failure, Loading, Table } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { elevated } from '../../ui/elevate.tsx'
import { textOf, TextField } from '../../ui/form.tsx'
import { AccountLink, PaymentsHead } from './payments.tsx'
import type { Period } from './wire.ts'

const tones: Readonly<Record<Period['state'], 'good' | 'warn' | 'plain' | 'bad'>> = {
  active: 'good',
  grace: 'warn',
  ended: 'plain',
  refunded: 'bad',
}

export function Subscriptions() {
  const [granting, setGranting] = useState(false)
  const [ending, setEnding] = useState<Period | null>(null)
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'subscriptions'],
    queryFn: async () => (await call<{ data: readonly Period[] }>('GET', 'admin/subscriptions')).data,
  })
  return (
    <>
      <PaymentsHead>
        <Button look="primary" onClick={() => setGranting(true)}>
          {t('Grant a period')}
        </Button>
      </PaymentsHead>
      {error && <Failure error={error} retry={() => void refetch()} />}
      {isPending && <Loading />}
      {data?.length === 0 && (
        <Empty title={t('There are no subscriptions.')}>
          <p>
            {t('Their seller sends signed messages to /hooks/subscriptions, or a period is granted here.')}
          </p>
        </Empty>
      )}
      {data && data.length > 0 && (
        <Table
          label={t('Subscriptions')}
          head={
            <tr>
              <th scope="col">{t('Subscription')}</th>
              <th scope="col">{t('State')}</th>
              <th scope="col">{t('Account')}</th>
              <th scope="col">{t('Product')}</th>
              <th scope="col">{t('From')}</th>
              <th scope="col">{t('To')}</th>
              <th scope="col" className="num">
                {t('Credit')}
              </th>
              <th scope="col">
                <span className="sr-only">{t('Acts')}</span>
              </th>
            </tr>
          }
        >
          {data.map((period) => (
            <tr key={`${period.source} ${period.subscription} ${period.product} ${period.from} ${period.to}`}>
              <td className="font-mono text-[12px]">
                {period.source} {period.subscription}
              </td>
              <td>
                <Badge tone={tones[period.state]}>{t(period.state)}</Badge>
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
      {granting && <Granting onClose={() => setGranting(false)} />}
      {ending && <Ending period={ending} onClose={() => setEnding(null)} />}
    </>
  )
}

const tenYearsMs = 3_650 * 86_400_000

function Granting({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const [subscription] = useState(() => `sub_${crypto.randomUUID().replaceAll('-', '').slice(0, 18)}`)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const given = new FormData(event.currentTarget)
    const until = textOf(given, 'to')
    const now = Date.now()
    const body = {
      subscription,
      source: 'manual',
      account: textOf(given, 'account'),
      product: textOf(given, 'product'),
      period: {
        from: new Date(now).toISOString(),
        // The gateway cuts it to the length of the product.
        to: until === undefined ? new Date(now + tenYearsMs).toISOString() : `${until}T23:59:59Z`,
      },
      state: 'active',
    }
    void act(async () => {
      await elevated(() => call('POST', 'admin/subscriptions', body))
      await client.invalidateQueries({ queryKey: ['admin'] })
      onClose()
    })
  }
  return (
    <Dialog title={t('Grant a period')} onClose={onClose}>
      <form onSubmit={submit} className="grid gap-3.5">
        <TextField label={t('Account, by its id')} name="account" required maxLength={128} />
        <TextField
          label={t('Product')}
          name="product"
          required
          maxLength={128}
          hint={t('One of subscriptions.products in the configuration.')}
        />
        <TextField label={t('Ends')} name="to" type="date" hint={t('Empty: as long as the product says.')} />
        {error !== null && <Failure error={error} />}
        <div>
          <Button type="submit" look="primary" busy={busy}>
            {t('Grant')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function Ending({ period, onClose }: { period: Period; onClose: () => void }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const { source, subscription } = period
  const end = (state: 'ended' | 'refunded') =>
    act(async () => {
      const body = { source, subscription, state }
      await elevated(() => call('POST', 'admin/subscriptions/end', body))
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
