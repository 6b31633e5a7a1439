// The table of an account's keys: their state, their limits and what each may spend now.

import { useCredits } from '../api/queries.ts'
import type { Key } from '../api/wire.ts'
import { countOf, decimal, moment, sumOf, usd, usdShort } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Badge, Button, Time, TimeIn } from '../ui/basics.tsx'
import { numeric, rightAligned, Table } from '../ui/table.tsx'

export interface KeyAct {
  readonly kind: 'edit' | 'rotate' | 'revoke'
  readonly key: Key
}

export function KeyTable({ rows, onOpen }: { rows: readonly Key[]; onOpen: (open: KeyAct) => void }) {
  return (
    <Table
      label={t('Keys')}
      columns={[
        t('Key'),
        numeric(t('Can spend now')),
        t('Limit'),
        t('Last used'),
        t('State'),
        rightAligned(t('Actions')),
      ]}
    >
      {rows.map((key) => (
        <tr key={key.id} className={key.state === 'active' ? '' : 'text-muted'}>
          <td className="min-w-40">
            <KeyName keyRow={key} />
          </td>
          <td className="num">
            <CanSpend keyRow={key} />
          </td>
          <td className="whitespace-nowrap">
            <KeyLimit keyRow={key} />
          </td>
          <td>
            <Time at={key.last_used_at} none={t('never')} />
          </td>
          <td className="whitespace-nowrap">
            <KeyState keyRow={key} />
          </td>
          <td>
            {key.state === 'active' && (
              <div className="flex justify-end gap-1">
                {actsOn(key).map((kind) => (
                  <Button
                    key={kind}
                    small
                    look="quiet"
                    aria-label={t(actsOnKey[kind], { name: key.name })}
                    onClick={() => onOpen({ kind, key })}
                  >
                    {t(actNames[kind])}
                  </Button>
                ))}
              </div>
            )}
          </td>
        </tr>
      ))}
    </Table>
  )
}

/** A replaced key cannot be replaced again; its successor can. */
function actsOn({ replaced_by: replaced }: Key): readonly ('edit' | 'rotate' | 'revoke')[] {
  return replaced === null ? ['edit', 'rotate', 'revoke'] : ['edit', 'revoke']
}

const actNames = { edit: 'Change', rotate: 'Replace', revoke: 'Revoke' } as const
/** The same with the key, for screen readers. */
const actsOnKey = { edit: 'Change {name}', rotate: 'Replace {name}', revoke: 'Revoke {name}' } as const

/** What the next call could spend, and whether the key's limit or the credit bounds it. */
function CanSpend({ keyRow }: { keyRow: Key }) {
  const { data: credits } = useCredits()
  if (keyRow.state !== 'active') return <span>–</span>
  const { spendable_usd: spendable } = keyRow
  // Test calls cost nothing.
  if (spendable === null) return <span title={t('Test calls are free.')}>{t('free')}</span>
  const left = leftOf(keyRow)
  return (
    <>
      <span className="font-medium" title={usd(spendable)}>
        {usdShort(spendable)}
      </span>
      <span className="block text-[12px] text-muted">
        {left !== null && `${t('limit {amount}', { amount: usdShort(left) })} · `}
        {credits && t('credit {amount}', { amount: usdShort(credits.spendable.api) })}
      </span>
    </>
  )
}

/** What is left of the key's limit in the current window; null without a limit. */
function leftOf({ limit_usd: limit, spent_usd: spent }: Key): string | null {
  if (limit === null) return null
  const left = sumOf([limit, `-${spent}`])
  return left.units > 0n ? decimal(left) : '0'
}

const spentOf = {
  day: '{spent} / {limit} a day',
  week: '{spent} / {limit} a week',
  month: '{spent} / {limit} a month',
  total: '{spent} / {limit} in all',
} as const

export function KeyName({ keyRow }: { keyRow: Key }) {
  return (
    <>
      <span className="font-medium">{keyRow.name}</span>{' '}
      {keyRow.mode === 'test' && <Badge tone="warn">{t('test')}</Badge>}
      {keyRow.sees === 'all' && (
        <>
          {' '}
          <Badge tone="warn">{t('reads all calls')}</Badge>
        </>
      )}
      <span className="block font-mono text-[12px] text-muted">…{keyRow.last4}</span>
    </>
  )
}

export function KeyLimit({ keyRow }: { keyRow: Key }) {
  const { limit_usd: limit, limit_window: window, spent_usd: spent, models, networks } = keyRow
  const { requests_per_minute: requests, tokens_per_minute: tokens } = keyRow
  const bounds: readonly (readonly [string, string?])[] = [
    ...(models === null
      ? []
      : [[countOf(models.length, '{count} model', '{count} models'), models.join(', ')] as const]),
    ...(requests === null
      ? []
      : [[countOf(requests, '{count} request a minute', '{count} requests a minute')] as const]),
    ...(tokens === null
      ? []
      : [[countOf(tokens, '{count} token a minute', '{count} tokens a minute')] as const]),
    ...(networks === null
      ? []
      : [[countOf(networks.length, '{count} network', '{count} networks'), networks.join(', ')] as const]),
  ]
  return (
    <>
      {limit === null ? (
        <span className="text-muted">{t('none')}</span>
      ) : (
        <span className="tabular-nums" title={`${usd(spent)} / ${usd(limit)}`}>
          {t(spentOf[window], { spent: usdShort(spent), limit: usdShort(limit) })}
        </span>
      )}
      {bounds.map(([text, whole]) => (
        <span key={text} className="block text-[12px] text-muted" title={whole}>
          {text}
        </span>
      ))}
    </>
  )
}

export function KeyState({ keyRow }: { keyRow: Key }) {
  const { state, revoked_at: revoked, expires_at: expires, replaced_by: replaced } = keyRow
  if (state === 'revoked') {
    return (
      <span title={revoked === null ? undefined : moment(revoked)}>
        <Badge tone="bad">{t('revoked')}</Badge> <Time at={revoked} />
      </span>
    )
  }
  if (state === 'expired') {
    return (
      <>
        <Badge>{t('expired')}</Badge> <Time at={expires} />
      </>
    )
  }
  // A replaced key works until its overlap ends.
  if (replaced !== null) {
    return (
      <>
        <Badge tone="warn">{t('replaced')}</Badge>
        {expires !== null && (
          <span className="block text-[12px] text-muted">
            <TimeIn sentence={t('works until {time}')} at={expires} />
          </span>
        )}
      </>
    )
  }
  return (
    <>
      <Badge tone="good">{t('active')}</Badge>
      {expires !== null && (
        <span className="block text-[12px] text-muted">
          <TimeIn sentence={t('until {time}')} at={expires} />
        </span>
      )}
    </>
  )
}
