// How much an account may owe.

import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call, faultIn } from '../api/call.ts'
import type { Credits } from '../api/wire.ts'
import { usd } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Button, Failure, Section } from '../ui/basics.tsx'
import { elevate } from '../ui/elevate.tsx'
import { Choice, textOf, TextField } from '../ui/form.tsx'
import { useAct } from '../ui/use-act.ts'

type Kind = 'none' | 'limited' | 'unlimited'

export function CreditLine({ path, credits }: { path: string; credits: Credits }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const { credit_line: line, debt } = credits
  const [kind, setKind] = useState<Kind>(line === null ? 'none' : line === 'unlimited' ? line : 'limited')
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const amount = textOf(new FormData(event.currentTarget), 'credit_line') ?? ''
    const wanted = kind === 'none' ? null : kind === 'unlimited' ? kind : amount
    void act(async () => {
      await elevate(() => call('POST', `${path}/credit-line`, { credit_line: wanted }))
      await client.invalidateQueries({ queryKey: ['admin'] })
    })
  }
  const fault = error === null ? undefined : faultIn(error)
  const ofField = fault?.param === 'credit_line'
  return (
    <Section title={t('Credit line')}>
      <form onSubmit={submit} className="card grid gap-3.5 p-4 sm:grid-cols-2 lg:grid-cols-4">
        <p className="text-muted sm:col-span-2 lg:col-span-4">
          {line === null
            ? t('Its API calls need purchased credit. It owes {debt}.', { debt: usd(debt) })
            : line === 'unlimited'
              ? t('It may owe without limit, and owes {debt}; the next top-up pays that first.', {
                  debt: usd(debt),
                })
              : t('It may owe up to {line}, and owes {debt}; the next top-up pays that first.', {
                  line: usd(line),
                  debt: usd(debt),
                })}
        </p>
        <Choice
          label={t('It may owe')}
          value={kind}
          onChange={(event) => setKind(event.target.value as Kind)}
          options={[
            ['none', t('nothing')],
            ['limited', t('up to an amount')],
            ['unlimited', t('without limit')],
          ]}
        />
        {kind === 'limited' && (
          <TextField
            label={t('At most, US dollars')}
            name="credit_line"
            inputMode="decimal"
            required
            pattern="\d{1,7}(\.\d{1,12})?"
            defaultValue={line === null || line === 'unlimited' ? '' : line}
            error={ofField ? fault.message : undefined}
          />
        )}
        <div className="grid gap-2 sm:col-span-2 lg:col-span-4">
          {error !== null && !ofField && <Failure error={error} />}
          <div>
            <Button type="submit" busy={busy}>
              {t('Set the line')}
            </Button>
          </div>
        </div>
      </form>
    </Section>
  )
}
