// What operators set of an account, beside its credit.

import { useQueryClient } from '@tanstack/react-query'
import { call } from '../api/call.ts'
import { elevate } from '../session/credentials.tsx'
import { t } from '../strings/text.ts'
import { ActForm, Section, TextField, textOf } from '../ui/kit.tsx'

/** Purchased credit that an account has each month; `amount` is null for none. */
export function MonthlyCredit({ path, amount }: { path: string; amount: string | null }) {
  const client = useQueryClient()
  const submit = async (given: FormData) => {
    const body = { monthly_credit_usd: textOf(given, 'monthly_credit_usd') ?? null }
    await elevate(() => call('POST', `${path}/monthly-credit`, body))
    await client.invalidateQueries({ queryKey: ['admin'] })
  }
  return (
    <Section title={t('Credit of each month')}>
      <div className="card p-4">
        <ActForm onSubmit={submit} action={t('Set the credit')} fields={['monthly_credit_usd']}>
          {(faultOf) => (
            <>
              <p className="text-muted">
                {t(
                  'Purchased credit that ends with its month. What this month has had stays; a new amount holds from the next month on.',
                )}
              </p>
              <TextField
                label={t('Each month, US dollars')}
                name="monthly_credit_usd"
                inputMode="decimal"
                pattern="\d{1,7}(\.\d{1,12})?"
                placeholder={t('none')}
                defaultValue={amount ?? ''}
                error={faultOf('monthly_credit_usd')}
              />
            </>
          )}
        </ActForm>
      </div>
    </Section>
  )
}
