// What operators set of an account, beside its credit.

import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useLocation } from 'wouter'
import { call } from '../api/call.ts'
import { elevate } from '../session/credentials.tsx'
import { t } from '../strings/text.ts'
import { ActForm, Button, Dialog, Section, TextField, textOf } from '../ui/kit.tsx'

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

/** Deletes an account, whose address is written once more. */
export function DeleteAccount({ path, email }: { path: string; email: string }) {
  const client = useQueryClient()
  const [, navigate] = useLocation()
  const [asking, setAsking] = useState(false)
  const [written, setWritten] = useState('')
  const remove = async () => {
    await elevate(() => call('DELETE', path))
    await client.invalidateQueries({ queryKey: ['admin'] })
    navigate('/operator/accounts', { replace: true })
  }
  return (
    <Section title={t('Delete the account')}>
      <p className="mb-3 text-muted">
        {t('Its keys are revoked and its sessions ended. What is left of its credit is lost.')}
      </p>
      <Button look="danger" onClick={() => setAsking(true)}>
        {t('Delete the account')}
      </Button>
      {asking && (
        <Dialog title={t('Delete {name}', { name: email })} onClose={() => setAsking(false)}>
          <ActForm look="danger" action={t('Delete')} onSubmit={remove}>
            <p>
              {t(
                'What it asked and was answered is erased; its charges stay in the books. Nothing brings it back.',
              )}
            </p>
            <TextField
              label={t('Its address, to confirm')}
              name="confirm"
              required
              autoFocus
              pattern={email.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')}
              value={written}
              onChange={(event) => setWritten(event.target.value)}
            />
          </ActForm>
        </Dialog>
      )}
    </Section>
  )
}
